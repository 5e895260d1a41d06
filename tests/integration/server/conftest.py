"""A served store, and clients of it: a launcher, attempts with tokens, and requests made by hand."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from milepost import AssetAlias, Store, TaskScope, connect
from tests.support.serving import SECRET, Served

__all__ = ["Answer", "Ask", "Worker"]


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    body: Any
    headers: dict[str, str]


Ask = Callable[..., Answer]


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[Store]:
    """The store that is served."""
    with connect(f"sqlite:///{tmp_path}/store.db", synchronous="normal") as store:
        yield store


@pytest.fixture
def url(behind: Store, served: Served) -> str:
    """Where it is served."""
    return served.add(behind)


@pytest.fixture
def launcher(url: str) -> Iterator[Store]:
    """The store as who holds the worker secret sees it."""
    with connect(url, secret=SECRET) as store:
        yield store


@pytest.fixture
def ask(url: str) -> Ask:
    """Make one request by hand."""

    def send(
        path: str, body: Any = None, *, credential: str | None = SECRET, method: str = "POST", headers: Any = None
    ) -> Answer:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        data = body if isinstance(body, bytes | type(None)) else json.dumps(body).encode()
        sent = {} if credential is None else {"Authorization": f"Bearer {credential}"}
        try:
            connection.request(method, parts.path + path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            raw = response.read()
            parsed = json.loads(raw) if raw and "json" in response.headers.get("content-type", "") else raw
            return Answer(response.status, parsed, {name.lower(): value for name, value in response.headers.items()})
        finally:
            connection.close()

    return send


class Worker:
    """An attempt that has opened with its token.

    Args:
        url: The server.
        launcher: Who gives it its token.
        scope: The task instance.
        attempt: The attempt.
        **declared: As `HttpMetastore.token` takes it.
    """

    def __init__(self, url: str, launcher: Store, scope: TaskScope, attempt: int = 1, **declared: Any) -> None:
        self.scope = scope
        self.attempt = attempt
        self.declared = declared
        self.first_token = launcher.metastore.token(scope, attempt, **declared).token  # type: ignore[attr-defined]
        self.store = connect(url, token=self.first_token)

    def open(self) -> dict[str, Any]:
        """Open the attempt."""
        assets = {name: list(self.declared.get(name, ())) for name in ("inlets", "outlets")}
        assets["inlets"] += map(AssetAlias, self.declared.get("aliases", ()))
        return self.store.instances.open(self.scope, self.attempt, **assets)

    @property
    def token(self) -> str:
        """The token in use."""
        credential: bytes = self.store.metastore._credential  # type: ignore[attr-defined]
        return credential.decode()


@pytest.fixture
def worker(url: str, launcher: Store) -> Iterator[Callable[..., Worker]]:
    """Make attempts with tokens."""
    made: list[Worker] = []

    def make(scope: TaskScope, attempt: int = 1, **declared: Any) -> Worker:
        made.append(Worker(url, launcher, scope, attempt, **declared))
        return made[-1]

    yield make
    for one in made:
        one.store.close()
