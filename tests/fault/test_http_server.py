"""A real server process under load: killed, restarted, with a database that goes away, behind a proxy."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import OutcomeUnknownError, Store, StoreUnreachableError, TaskScope, connect
from tests.support.nginx import nginx
from tests.support.private import PrivatePostgres, free_port
from tests.support.serve_process import ServeProcess
from tests.support.servers import wait_until
from tests.support.serving import SECRET

pytestmark = pytest.mark.usefixtures("many_connections")

SCOPE = TaskScope("dag", "run", "task")
Serve = Callable[..., ServeProcess]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start servers that end with the test."""
    made: list[ServeProcess] = []

    def start(store: str | None = None, *arguments: str) -> ServeProcess:
        made.append(ServeProcess(store or f"sqlite:///{tmp_path}/store.db", tmp_path, *arguments))
        return made[-1]

    yield start
    for one in made:
        one.end(signal.SIGKILL)


class Clients:
    """Threads that write for as long as they are told to, and keep a ledger of what was acknowledged.

    Args:
        url: The server.
        count: How many.
    """

    def __init__(self, url: str, count: int = 4) -> None:
        self.store = connect(url, secret=SECRET)
        self.acknowledged: list[dict[str, int]] = [{} for _ in range(count)]
        self.sums = [0] * count
        self.unknown = [0] * count
        self.unexpected: list[BaseException] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        task = self.store.task_store(SCOPE)
        turn = 0
        try:
            while not self._stop.is_set():
                key = f"{number}/{turn % 50}"
                with contextlib.suppress(StoreUnreachableError):
                    task.set(key, turn)
                    self.acknowledged[number][key] = turn
                try:
                    task.increment("sum")
                    self.sums[number] += 1
                except OutcomeUnknownError:
                    self.unknown[number] += 1
                except StoreUnreachableError:
                    pass
                turn += 1
        except BaseException as error:  # noqa: BLE001  (told by the test)
            self.unexpected.append(error)

    def count(self) -> int:
        """Return how many increments were acknowledged."""
        return sum(self.sums)

    def stop(self) -> None:
        """End the load."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.store.close()
        assert not self.unexpected, self.unexpected

    def check(self, store: Store) -> None:
        """Compare the ledger with what is stored: nothing that was acknowledged is missing, nothing came twice."""
        found = dict(store.task_store(SCOPE).items())
        total = found.pop("sum")
        for number, ledger in enumerate(self.acknowledged):
            for key, turn in ledger.items():
                # A later write that got no answer may have come through.
                assert found[key] >= turn, (number, key)
        assert self.count() <= total <= self.count() + sum(self.unknown)


def progress(clients: Clients) -> None:
    """Wait until the clients have got on."""
    before = clients.count()
    wait_until(lambda: clients.unexpected or clients.count() > before + 5, "the clients do not get on")


def test_killed_under_load(serve: Serve, tmp_path: Path) -> None:
    """Writes that a server acknowledged survive its `kill -9`; clients go on with the next one by themselves."""
    server = serve()
    clients = Clients(server.url)
    try:
        for _ in range(4):
            progress(clients)
            server.end(signal.SIGKILL)
            server.start()
        progress(clients)
    finally:
        clients.stop()
    with connect(f"sqlite:///{tmp_path}/store.db") as store:
        clients.check(store)


def test_a_graceful_end_loses_no_request(serve: Serve, tmp_path: Path) -> None:
    """At SIGTERM a server answers what it has begun, closes the store and exits with 0; clients see no error at all."""
    server = serve()
    clients = Clients(server.url, 2)
    try:
        progress(clients)
        assert server.end() == 0
        server.start()
        progress(clients)
    finally:
        clients.stop()
    with connect(f"sqlite:///{tmp_path}/store.db") as store:
        clients.check(store)


def test_a_database_that_restarts_under_load(serve: Serve, require: Any) -> None:
    """When PostgreSQL is killed and comes back, server and clients recover by themselves, and `/ready` tells of it."""
    require("PostgreSQL's programs", PrivatePostgres.programs() is not None)
    database = PrivatePostgres()
    try:
        database.start()
        server = serve(database.url)
        assert server.get("/ready")[0] == 200
        clients = Clients(server.url)
        try:
            progress(clients)
            database.kill(signal.SIGQUIT)
            wait_until(lambda: server.get("/ready")[0] == 503, "the server does not notice")
            database.start()
            progress(clients)
            wait_until(lambda: server.get("/ready")[0] == 200, "the server does not see that the store is back")
        finally:
            clients.stop()
        with connect(database.url) as store:
            clients.check(store)
    finally:
        database.stop()


def test_slow_and_half_open_clients_block_nobody(serve: Serve) -> None:
    """Two hundred connections that send nothing, or half a request, do not keep others from being served."""
    server = serve()
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
    try:
        for number, one in enumerate(idle):
            if number % 2:
                one.sendall(b"POST /execution/v1/call HTTP/1.1\r\nHost: x\r\nContent-Le")
        with connect(server.url, secret=SECRET) as store:
            task = store.task_store(SCOPE)
            for number in range(20):
                task.set("k", number)
            assert task.get("k") == 19
    finally:
        for one in idle:
            one.close()


def workers(server: ServeProcess) -> list[int]:
    """Return the ids of the processes that have started, from the log."""
    started = [line["message"] for line in server.logs() if "Started server process" in line["message"]]
    return [int(text.partition("[")[2].partition("]")[0]) for text in started]


def test_several_processes_share_port_store_and_metrics(serve: Serve) -> None:
    """With several workers, one that is killed is replaced, and the metrics are those of all of them."""
    server = serve(None, "--workers", "2")
    with connect(server.url, secret=SECRET) as store:
        task = store.task_store(SCOPE)
        for number in range(30):
            task.set("k", number)
        wait_until(lambda: len(workers(server)) == 2, "there are not two processes")
        os.kill(workers(server)[0], signal.SIGKILL)
        wait_until(lambda: len(workers(server)) > 2, "no process took its place")
        assert task.increment("k") == 30
    text = server.get("/metrics")[1]
    counted = [line for line in text.splitlines() if line.startswith("milepost_http_requests_total") and "call" in line]
    assert sum(float(line.rpartition(" ")[2]) for line in counted) >= 30
    assert server.end() == 0


def test_logs_hold_no_secrets(serve: Serve) -> None:
    """The log is JSON lines; requests are logged with the names of their calls, without keys, values or credentials."""
    server = serve(None, "--log-requests")
    with connect(server.url, secret=SECRET) as store:
        store.task_store(SCOPE).set("a-private-key", "a private value")
        with pytest.raises(ValueError, match="twice"):
            store.metastore._send("/execution/v1/call", b'{"a-private-key": 1, "a-private-key": 2}')  # type: ignore[attr-defined]
    server.end()
    requests = [line for line in server.logs() if line["message"] == "request" and line["route"] == "/execution/v1/call"]
    assert [(line["status"], line.get("calls")) for line in requests] == [(200, ["Put"]), (422, None)]
    assert "private" not in "".join(server.lines)
    assert SECRET not in "".join(server.lines)


def test_behind_nginx(serve: Serve, tmp_path: Path, require: Any) -> None:
    """S-04, S-05: behind nginx, below a path, all keys arrive as they are; a server that is down is waited for."""
    require("nginx")
    server = serve()
    with (
        nginx(tmp_path, server.url) as port,
        connect(f"http://127.0.0.1:{port}/milepost", secret=SECRET) as store,
    ):
        task = store.task_store(SCOPE)
        keys = ["a/b", "a//b", "..", "a%2Fb", "d#x", "d?x=1", "é", "\n"]
        for number, key in enumerate(keys):
            task.set(key, number)
        task.set("large", "x" * 60_000)
        assert task.get_many(keys) == {key: number for number, key in enumerate(keys)}
        server.end()
        threading.Timer(0.3, server.start).start()
        task.set("k", "after")
        assert task.get("k") == "after"
        wait_until(lambda: server.process and server.process.poll() is None, "the server has not come back")


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--host", "0.0.0.0"], {}, "secret"),
        (["--url", "memory://"], {}, "memory://"),
        (["--url", "http://127.0.0.1:1"], {}, "is a server already"),
        (["--host", "0.0.0.0"], {"MILEPOST__SERVER__SECRET": "short"}, "16 characters"),
        ([], {"MILEPOST__SERVER__SECRET_FILE": "/does/not/exist"}, "cannot be read"),
        (["--port", "70000"], {}, "65535"),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, arguments: list[str], environment: dict[str, str], said: str) -> None:
    """An address that others reach without a secret, or a store that cannot be served: exit code 2 and one clear line."""
    given = os.environ | {"MILEPOST_HOME": str(tmp_path)} | environment
    command = [sys.executable, "-m", "milepost", "serve", *arguments]
    done = subprocess.run(command, env=given, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_secret_of_its_own(tmp_path: Path) -> None:
    """On loopback a server without a configured secret makes one that only this user can read, and clients here find it."""
    from milepost.server.serve import own_secret

    environment = {"MILEPOST_HOME": str(tmp_path / "home")}
    secret = own_secret(environment)
    assert own_secret(environment) == secret
    assert len(secret) >= 32
    assert (tmp_path / "home" / "server-secret").stat().st_mode & 0o777 == 0o600


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is a StoreUnreachableError after the client's patience, for all calls."""
    monkeypatch.setattr("milepost.remote.client.PATIENCE_SECONDS", 0.2)
    with connect(f"http://127.0.0.1:{free_port()}", secret=SECRET) as store:
        began = time.monotonic()
        for call in (lambda: store.task_store(SCOPE).get("k"), lambda: store.task_store(SCOPE).increment("k")):
            with pytest.raises(StoreUnreachableError, match="cannot reach the server") as caught:
                call()
            assert type(caught.value) is StoreUnreachableError
        assert time.monotonic() - began < 60
