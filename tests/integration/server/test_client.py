"""The client: lost answers, forks, closing."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest

from milepost import (
    ConfigurationError,
    OutcomeUnknownError,
    Store,
    StoreClosedError,
    StoreError,
    TaskScope,
    VersionConflictError,
    connect,
)
from tests.support.serving import SECRET

SCOPE = TaskScope("dag", "run", "task")


def whole(stream: socket.socket) -> bytes:
    """Return one request or answer, nothing at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = stream.recv(65_536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        part = stream.recv(65_536)
        assert part, "the connection ended in the middle"
        body += part
    return head + b"\r\n\r\n" + body


class Dropper:
    """Stands before a server: it passes requests on, and loses as many answers as it is told to.

    Args:
        url: The server.
    """

    def __init__(self, url: str) -> None:
        self._server = urlsplit(url)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}{self._server.path}"
        self.to_lose = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        """Pass requests of one connection on."""
        with socket.create_connection((self._server.hostname, self._server.port)) as server:
            while data := whole(client):
                server.sendall(data)
                answer = whole(server)
                if self.to_lose:
                    self.to_lose -= 1
                    return
                client.sendall(answer)

    def close(self) -> None:
        """Stop."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def dropper(url: str) -> Iterator[Dropper]:
    """A server whose answers get lost."""
    made = Dropper(url)
    yield made
    made.close()


def test_answers_that_are_lost(dropper: Dropper, behind: Store) -> None:
    """What is safe to repeat is repeated; a write with a version is recognised; of the rest nobody knows."""
    with connect(dropper.url, secret=SECRET) as store:
        task = store.task_store(SCOPE)
        for lost in (1, 2):
            dropper.to_lose = lost
            task.set("k", lost)
            assert task.get("k") == lost
        dropper.to_lose = 1
        assert task.increment("n", 5) == 5
        assert task.get("n") == 5
        dropper.to_lose = 1
        version = task.compare_and_set("c", 1, version=None)
        assert task.entry("c").version == version  # type: ignore[union-attr]
        with pytest.raises(VersionConflictError):
            task.compare_and_set("c", 2, version=None)
        dropper.to_lose = 1
        with pytest.raises(OutcomeUnknownError, match="read before you repeat it"):
            store.instances.clear(SCOPE)
    assert [key for key, _ in behind.task_store(SCOPE).items()] == []


FORKING = """
import os, sys
from milepost import TaskScope, connect
store = connect(sys.argv[1], secret=sys.argv[2])
task = store.task_store(TaskScope("dag", "run", "task"))
task.increment("n")
child = os.fork()
for _ in range(20):
    task.increment("n")
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(task.get("n"))
"""


def test_after_a_fork(url: str) -> None:
    """Parent and child go on after a fork, each with connections of its own."""
    done = subprocess.run([sys.executable, "-c", FORKING, url, SECRET], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "41\n"), done.stderr


async def test_a_closed_store(url: str) -> None:
    """Calls after closing, blocking or not, raise StoreClosedError; closing twice is no error."""
    store = connect(url, secret=SECRET)
    task = await store.atask_store(SCOPE)
    await task.aset("k", 1)
    await store.aclose()
    store.close()
    with pytest.raises(StoreClosedError):
        task.get("k")
    with pytest.raises(StoreClosedError):
        await task.aget("k")


def test_verify_goes_to_the_server(launcher: Store) -> None:
    """Verifying checks the store behind the server."""
    launcher.verify()


class Elsewhere(BaseHTTPRequestHandler):
    """A server that has nothing of Milepost's, like Airflow's API server beside ``/milepost``."""

    def do_POST(self) -> None:
        """Answer."""
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b'{"detail":"Not Found"}')


def test_a_url_that_lacks_its_path_is_told_of_it() -> None:
    """A 404 that is none of Milepost's own has the hint at the path that a store has in Airflow's API server."""
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with connect(url, secret=SECRET) as store, pytest.raises(StoreError, match=r"HTTP 404: .* it is below /milepost\.$"):
            store.runs.list()


def test_a_missing_credential_names_all_places_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside Airflow it is set elsewhere."""
    monkeypatch.delenv("MILEPOST_TOKEN", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"\[server\] secret or secret_file; inside Airflow \[milepost\] secret, AIRFLOW__"
    ):
        connect("http://192.0.2.1:8470")
