"""One external job, never two: workers killed at every point, against a service in a process of its own (SPEC 9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import connect
from tests.fault.helpers import SCOPE, Child, url
from tests.support.job_server import JobServer
from tests.support.servers import Databases
from tests.support.serving import SECRET, Served

POINTS = [
    "before Intend",
    "after Intend",
    "request lost",
    "answer lost",
    "before KeepJob",
    "after KeepJob",
    "polling",
    "success",
]
UNKNOWN = {"answer lost", "before KeepJob"}
"""Where a job is there and its id is stored nowhere."""
OPEN = ["after Intend", "answer lost", "before KeepJob"]
"""Where the next attempt has to find out; at the other points it has an id, or nothing was begun."""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., JobServer]]:
    """Return a function that starts the service; it is killed after the test."""
    started: list[JobServer] = []

    def start(**options: bool) -> JobServer:
        started.append(JobServer(tmp_path, **options))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def die_and_retry(start: Callable[..., Child], store: str, service: JobServer, point: str, kind: str) -> dict[str, Any]:
    """Let attempt 1 be killed at a point, and attempt 2 end; the job that this one used, and its warnings."""
    first = start("submitter", store, service.url, 1, point, kind)
    first.process.wait(60)
    assert first.process.returncode == -9
    *warned, said = start("submitter", store, service.url, 2, "nowhere", kind).finish()
    return {**json.loads(said), "warned": "\n".join(warned)}


@pytest.mark.parametrize("point", POINTS)
def test_with_tokens_there_is_one_job(
    start: Callable[..., Child], serve: Callable[..., JobServer], path: Path, point: str
) -> None:
    """A service that knows each token once runs exactly one job, wherever the worker is killed."""
    service = serve()
    assert die_and_retry(start, url(path), service, point, "tokens")["job"] == 0
    assert [job["state"] for job in service.jobs()] == ["finished"]
    with connect(url(path)) as store:
        assert store.task_store(SCOPE).get("job") == 0


@pytest.mark.parametrize("point", OPEN)
def test_with_a_search_there_is_one_job(
    start: Callable[..., Child], serve: Callable[..., JobServer], path: Path, point: str
) -> None:
    """A service that makes a job for every request but can be searched by token runs exactly one too."""
    service = serve(forgetful=True)
    assert die_and_retry(start, url(path), service, point, "search")["job"] == 0
    assert [job["state"] for job in service.jobs()] == ["finished"]


@pytest.mark.parametrize("point", OPEN)
def test_with_neither_the_second_job_is_announced(
    start: Callable[..., Child], serve: Callable[..., JobServer], path: Path, point: str
) -> None:
    """Without tokens and search there is a second job exactly where the first one's id was lost, with a warning."""
    service = serve(forgetful=True)
    expected = 2 if point in UNKNOWN else 1
    used = die_and_retry(start, url(path), service, point, "neither")
    assert used["job"] == expected - 1
    assert len(service.jobs()) == expected
    if expected == 2:
        assert "two jobs may now run if the service does not know tokens" in used["warned"]


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("kind", ["tokens", "search"])
def test_a_service_that_loses_requests_and_is_restarted(
    start: Callable[..., Child], serve: Callable[..., JobServer], path: Path, lost: str, kind: str
) -> None:
    """The attempt fails with what it met; a service that is killed and comes back still knows its jobs, and runs one."""
    service = serve(forgetful=kind == "search")
    service.ask("/faults", {"lose": lost})
    first = start("submitter", url(path), service.url, 1, "nowhere", kind)
    first.process.wait(60)
    assert first.process.returncode == 1
    service.kill()
    second = start("submitter", url(path), service.url, 2, "nowhere", kind)
    second.process.wait(60)
    assert second.process.returncode == 1
    service.start()
    said = start("submitter", url(path), service.url, 3, "nowhere", kind).finish()[-1]
    assert json.loads(said) == {"job": 0, "status": "done"}
    assert len(service.jobs()) == 1


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_on_servers(
    start: Callable[..., Child], serve: Callable[..., JobServer], databases: Databases, dialect: str
) -> None:
    """On the database servers too, a worker that was killed before the id was stored leads to no second job."""
    service = serve()
    store = databases.get(dialect).url
    assert die_and_retry(start, store, service, "before KeepJob", "tokens")["job"] == 0
    assert len(service.jobs()) == 1


def test_over_http(
    start: Callable[..., Child],
    serve: Callable[..., JobServer],
    path: Path,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a server too: the worker is killed before its id reached the store, and there is one job."""
    monkeypatch.setenv("MILEPOST__SERVER__SECRET", SECRET)
    service = serve()
    with connect(url(path)) as store:
        address = served.add(store)
        assert die_and_retry(start, address, service, "before KeepJob", "tokens")["job"] == 0
        assert store.task_store(SCOPE).get("job") == 0
    assert len(service.jobs()) == 1
