"""A real server (``milepost serve``) with its time zone far from UTC, tokens of each role, and clients of its REST API."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from milepost import Asset, AssetStoreAccessor, Store, TaskScope, TaskStoreAccessor, connect
from tests.support.forked import Forked
from tests.support.serve_process import ServeProcess

__all__ = ["Answer", "Ask", "Cli", "Door", "Site", "path_of"]


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    body: Any
    headers: dict[str, str]
    text: str


Ask = Callable[..., Answer]
Cli = Callable[..., str]


class Door:
    """Makes requests of the REST API of a store.

    Args:
        store: The store.
        port: Where it is served, on loopback.
        prefix: What stands before ``/api/v2``.
    """

    def __init__(self, store: Store, port: int, prefix: str = "") -> None:
        self.store = store
        self.port = port
        self.prefix = prefix
        self.tokens = {role: store.tokens.create(role, role=role).token for role in ("viewer", "editor", "admin")}

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = "editor", **headers: str) -> Answer:
        """Make a request.

        Args:
            method: The method.
            path: What follows ``/api/v2``, encoded.
            body: Bytes as they are, or JSON data.
            token: A role, or a token; `None`: none.
            **headers: Headers, with ``_`` for ``-``.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {self.tokens.get(token, token)}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, f"{self.prefix}/api/v2{path}", data, sent)
            response = connection.getresponse()
            raw = response.read()
            text = (gzip.decompress(raw) if response.headers.get("content-encoding") == "gzip" else raw).decode()
            return Answer(
                response.status,
                json.loads(text) if text else None,
                {name.lower(): value for name, value in response.headers.items()},
                text,
            )
        finally:
            connection.close()


class Site(Door):
    """A server, and its store opened beside it.

    Args:
        folder: Where all of it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store_url = f"sqlite:///{folder}/store.db"
        store = connect(self.store_url, synchronous="normal")
        self.server = ServeProcess(self.store_url, folder)
        self.numbers = itertools.count(1)
        super().__init__(store, self.server.port)

    @property
    def url(self) -> str:
        """Where it is served."""
        return self.server.url

    def close(self) -> None:
        """End it."""
        code = self.server.end()
        self.store.close()
        failures = [line for line in self.server.lines if '"level": "error"' in line]
        assert (code, failures) == (0, [])


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The server of this process of the test run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        made = Site(tmp_path_factory.mktemp("rest"))
    yield made
    made.close()


@pytest.fixture
def ask(site: Site) -> Ask:
    """Make a request of the REST API."""
    return site.ask


@pytest.fixture
def cli(site: Site, forked: Forked) -> Cli:
    """Run a command on the store that is served and return its output."""

    def run(*arguments: str) -> str:
        command = [*arguments, "--url", site.store_url]
        environment = os.environ | {"PYTHONWARNINGS": "error"}
        code, out, err = forked.run(command, environment=environment, folder=site.folder, timeout=60)
        assert (code, err) == (0, b"")
        return out.decode()

    return run


@pytest.fixture
def store(site: Site) -> Store:
    """The store that is served."""
    return site.store


@pytest.fixture
def scope(site: Site) -> TaskScope:
    """A task instance that no other test has."""
    return TaskScope(f"dag{next(site.numbers)}", "run", "task")


@pytest.fixture
def task(store: Store, scope: TaskScope) -> TaskStoreAccessor:
    """Its accessor; it is recorded, and holds nothing."""
    accessor = store.task_store(scope)
    accessor.set("first", 1)
    accessor.clear()
    return accessor


@pytest.fixture
def asset(site: Site, store: Store) -> AssetStoreAccessor:
    """The accessor of an asset that no other test has."""
    return store.asset_store(Asset(f"team/asset{next(site.numbers)}"))


def path_of(owner: Any, *more: str) -> str:
    """Return the path of the keys of a task instance or an asset, or of one of its keys."""
    whose = owner if isinstance(owner, TaskScope) else getattr(owner, "scope", owner)
    if isinstance(whose, TaskScope):
        ids = [quote(part, safe="") for part in (whose.dag_id, whose.run_id, whose.task_id)]
        path = "/dags/{}/dagRuns/{}/taskInstances/{}/state-store".format(*ids)
    else:
        path = f"/assets/{whose.asset_id}/state-store"
    return "/".join([path, *(quote(key, safe="") for key in more)])
