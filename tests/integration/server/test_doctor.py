"""`milepost doctor` and `milepost db` with the URL of a server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from milepost import ManualClock, Store, TaskScope, connect
from milepost.cli.doctor_server import server_checks
from tests.support.private import free_port
from tests.support.serving import SECRET, Served


def found(url: str) -> dict[str, tuple[str, str]]:
    """Return status and text of each check by its name."""
    return {check.name: (check.status, check.text) for check in server_checks(url)}


@pytest.fixture(autouse=True)
def credential(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worker secret is configured."""
    monkeypatch.setenv("MILEPOST_HOME", str(tmp_path))
    monkeypatch.setenv("MILEPOST__SERVER__SECRET", SECRET)
    monkeypatch.delenv("MILEPOST_TOKEN", raising=False)


def test_a_server_in_order(url: str) -> None:
    """Doctor tells that the server answers, what it is, that it reaches its store, whom it lets in, and its clock."""
    checks = found(url)
    assert {name: status for name, (status, _) in checks.items()} == dict.fromkeys(
        ("transport", "server", "readiness", "credential", "schema", "clock"), "ok"
    )
    assert "the worker secret" in checks["credential"][1]


def test_credentials(url: str, launcher: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says where the credential is from, what it is, and which one is not accepted."""
    token = launcher.metastore.token(TaskScope("d", "r", "t"), 1).token  # type: ignore[attr-defined]
    for given, status, said in (
        (token, "ok", "environment variable MILEPOST_TOKEN: the token of an attempt"),
        ("unknown", "fail", "environment variable MILEPOST_TOKEN: the credential is unknown to this server"),
        ("milepost_x", "fail", "environment variable MILEPOST_TOKEN: a token of the REST API"),
        ("", "fail", "a server needs a credential"),
    ):
        monkeypatch.setenv("MILEPOST_TOKEN", given)
        checks = found(url)
        assert checks["credential"][0] == status, checks
        assert checks["credential"][1].startswith(said)
        assert ("clock" in checks) == (status == "ok")


def test_clocks_that_differ(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's clock that is far from this machine's is a warning: expiry counts on it."""
    with connect("memory://", clock=ManualClock()) as store:
        status, text = found(served.add(store))["clock"]
    assert status == "warn"
    assert "behind this one" in text


@contextmanager
def answering(data: bytes) -> Iterator[str]:
    """Something that answers each connection with the same bytes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                stream, _ = listening.accept()
            except OSError:
                return
            with stream:
                stream.recv(65_536)
                stream.sendall(data)

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"SSH-2.0-x\r\n", "no HTTP"),
        (b"", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not as a Milepost server does"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 1\r\n\r\n<", "HTTP 502"),
    ],
)
def test_what_is_no_server(data: bytes, said: str) -> None:
    """Whatever answers in the place of a server is told apart from one, without an exception."""
    with answering(data) as url:
        assert found(url)["server"][0] == "fail"
        assert said in found(url)["server"][1]


def test_what_does_not_answer() -> None:
    """A server that is not there, and a URL that is none, are each one failed check."""
    port = free_port()
    assert found(f"http://127.0.0.1:{port}")["server"] == (
        "fail",
        f"http://127.0.0.1:{port} cannot be reached: Connection refused",
    )
    assert found("http://a b")["configuration"][0] == "fail"


def test_at_the_command_line(url: str) -> None:
    """`doctor` leaves with 0 where all is well; `db verify` and `stats` ask the server, `db upgrade` is refused."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "milepost", *arguments, "--url", url]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    done = run("doctor", "--json")
    assert (done.returncode, json.loads(done.stdout)["ok"]) == (0, True)
    assert run("db", "verify").stdout == f"{url} is in order\n"
    refused = run("db", "upgrade")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "run this with the url of the database behind it" in refused.stderr
