"""The program in processes of its own without an interpreter's start for each: forked from one that has imported it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["PROGRAM", "Forked", "forked"]

PROGRAM = str(Path(sys.executable).with_name("milepost"))
_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter reads once, when it starts."""


class Forked:
    """Starts a process that has imported the command line, and has it fork for each command."""

    def __init__(self) -> None:
        self._at_start = {**_at_start(os.environ), "PYTHONWARNINGS": "error"}
        self._socket, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
            cwd=Path(__file__).parents[2],
            env=os.environ | self._at_start,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def run(
        self,
        args: Sequence[str | bytes],
        *,
        given: bytes = b"",
        environment: Mapping[str, str],
        folder: Path,
        timeout: float,
    ) -> tuple[int, bytes, bytes]:
        """Run one command; return its exit code (negative: a signal), standard output and standard error.

        Raises:
            TimeoutError: It took longer than so many seconds (in a new interpreter: `subprocess.TimeoutExpired`).
        """
        if _at_start(environment) != self._at_start:
            done = subprocess.run(
                [PROGRAM, *args], input=given, capture_output=True, env=environment, cwd=folder, timeout=timeout
            )
            return done.returncode, done.stdout, done.stderr
        words = [os.fsencode(word).decode("latin-1") for word in (PROGRAM, *args)]
        message = json.dumps({"args": words, "environment": dict(environment), "folder": str(folder)}).encode()
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(given)
            files[0].seek(0)
            self._socket.settimeout(timeout)
            socket.send_fds(self._socket, [len(message).to_bytes(8, "big")], [file.fileno() for file in files])
            self._socket.sendall(message)
            code = int.from_bytes(_exactly(self._socket, 8), "big", signed=True)
            for file in files:
                file.seek(0)
            return code, files[1].read(), files[2].read()

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(60)


@pytest.fixture(scope="session")
def forked() -> Iterator[Forked]:
    """The process that commands are forked from, one per process of the test run."""
    made = Forked()
    yield made
    made.close()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


def _exactly(end: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        if not (piece := end.recv(count - len(got))):
            raise EOFError
        got += piece
    return got


def _serve(end: socket.socket) -> dict[str, Any] | None:
    """Fork for each command; return, in the new process, what it is to run, and nothing at the end."""
    while True:
        size, handles, _, _ = socket.recv_fds(end, 8, 3)
        if not size:
            return None
        job = json.loads(_exactly(end, int.from_bytes(size, "big")))
        if not (child := os.fork()):
            for number, handle in enumerate(handles):
                os.dup2(handle, number)
                os.close(handle)
            return dict(job)
        for handle in handles:
            os.close(handle)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        end.sendall(code.to_bytes(8, "big", signed=True))


def _main() -> None:
    for package in ("milepost.cli", "milepost.metastore", "milepost.runner"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    from milepost.cli import main

    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        main(["task-store", "get", "dag", "run", "task", "key", "--url", "sqlite:////dev/null/none.db"])
    gc.collect()
    gc.freeze()  # so that no collection in a child copies all of this
    with socket.socket(fileno=int(sys.argv[1])) as end:
        job = _serve(end)
    if job is not None:
        os.setsid()
        os.environ.clear()
        os.environ.update(job["environment"])
        time.tzset()
        os.chdir(job["folder"])
        sys.path[0] = str(Path(PROGRAM).parent)
        sys.argv = [os.fsdecode(word.encode("latin-1")) for word in job["args"]]
        sys.exit(main())


if __name__ == "__main__":
    _main()
