"""The processes of a server."""

from __future__ import annotations

import json
import logging
import shlex
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from uvicorn.supervisors import Multiprocess

from milepost import StoreUnreachableError
from milepost.config import load_server_settings
from milepost.server import serve
from milepost.server.logs import JsonLines, trace_of
from milepost.server.serve import _application, _Processes


def test_the_socket_goes_before_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a server of several processes ends, nobody connects any more to a socket that none of them looks at."""
    seen: list[int] = []
    monkeypatch.setattr(Multiprocess, "terminate_all", lambda self: seen.append(self.sockets[0].fileno()))
    processes: Any = _Processes.__new__(_Processes)
    processes.sockets = [socket.create_server(("127.0.0.1", 0))]
    processes.terminate_all()
    assert seen == [-1]


def test_a_process_that_cannot_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One process of several that finds no store logs one line and ends, so that another one tries; a single one raises."""
    (tmp_path / "file").write_text("")
    url = f"sqlite:///{tmp_path}/file/store.db"
    with pytest.raises(StoreUnreachableError):
        _application(url, load_server_settings({"workers": 1}, {}), ["secret"])
    with pytest.raises(SystemExit) as ended:
        _application(url, load_server_settings({"workers": 2}, {}), ["secret"])
    assert ended.value.code == 1
    (record,) = [record for record in caplog.records if record.name == "milepost.server"]
    assert record.getMessage().startswith("this process cannot start, another one will try: cannot create the store")
    assert record.exc_info is None


@pytest.mark.parametrize("place", ["secret_file", "milepost.cfg", "state folder"])
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_with_the_secret_that_others_can_read(
    place: str, mode: int, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that starts warns once of a file with its secret that others can read, and says how to mend that."""
    for name in ("MILEPOST_CONFIG", "MILEPOST__SERVER__SECRET", "MILEPOST__SERVER__SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILEPOST_HOME", str(tmp_path))
    path = tmp_path / ("server-secret" if place == "state folder" else "a file")
    path.write_text("[server]\nsecret = 0123456789abcdef" if place == "milepost.cfg" else "0123456789abcdef")
    path.chmod(mode)
    if place == "milepost.cfg":
        monkeypatch.setenv("MILEPOST_CONFIG", str(path))

    def bind(_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(serve, "_bind", bind)
    monkeypatch.setattr(serve.uvicorn, "Config", lambda *_, **__: None)  # it would set up logging
    with pytest.raises(InterruptedError):
        serve.serve(
            f"sqlite:///{tmp_path}/store.db",
            load_server_settings({"secret_file": str(path)} if place == "secret_file" else {}),
        )
    said = f"{path} holds the worker secret, and others can read it (mode {mode:04o}): chmod go-rwx {shlex.quote(str(path))}"
    assert [record.getMessage() for record in caplog.records if record.name == "milepost.server"] == [said] * warned


def test_tracebacks_without_what_is_stored() -> None:
    """The log of an unexpected error has its class, those behind it, and where they come from, and not what they say."""

    def fail() -> None:
        try:
            {}["a private key"]
        except KeyError as error:
            raise RuntimeError("a private value") from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    record = logging.LogRecord("milepost", 40, "", 0, "failed", None, (type(caught.value), caught.value, caught.tb))
    trace = json.loads(JsonLines().format(record))["traceback"]
    assert [word in trace for word in ("builtins.KeyError\n", "in fail", "KeyError: ", "RuntimeError: ")] == [
        True,
        True,
        False,
        False,
    ]
    assert trace.endswith("builtins.RuntimeError\n")
    assert trace_of(OSError(28, "No space left on device")) == "builtins.OSError: [Errno 28] No space left on device\n"


def test_processes_that_cannot_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose processes fail while they start is an error, not a quiet end."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")  # it is set, and is to be as before then
    failed = [SimpleNamespace(exitcode=code) for code in (0, 3)]
    monkeypatch.setattr(_Processes, "run", lambda self: setattr(self, "processes", failed))
    monkeypatch.setattr(serve.signal, "signal", lambda *_: None)
    settings = load_server_settings({"workers": 2, "port": 0, "secret": "a-secret-for-a-test"}, {})
    with pytest.raises(serve.StoreError, match="could not start"):
        serve.serve(f"sqlite:///{tmp_path}/store.db", settings)
