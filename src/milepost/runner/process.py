"""The processes of attempts, as the runner sees them: started, read from, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from milepost.runner.tokens import attempt_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from milepost.runner.plan import Start
    from milepost.runner.spec import AttemptSpec

__all__ = ["AttemptProcess", "Lines", "Reaper", "how_it_died", "launch"]

_CHUNK: Final = 65_536


class Reaper:
    """The process that kills attempts when the runner is gone; see `milepost.runner.reaper`."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process = self._spawn()

    @staticmethod
    def _spawn() -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("reaper.py")
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def __enter__(self) -> Reaper:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._input.close()
        self._process.wait()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def add(self, group: int) -> None:
        """Put a process group on the list."""
        self._groups.add(group)
        self._write(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Take a process group off the list."""
        self._groups.discard(group)
        self._write(f"-{group}\n")

    def _write(self, line: str) -> None:
        try:
            self._input.write(line.encode())
        except BrokenPipeError:  # somebody killed it: another one takes over
            self._input.close()
            self._process.wait()
            self._process = self._spawn()
            self._input.write("".join(f"+{group}\n" for group in self._groups).encode())


class Lines:
    """Cuts what comes out of a pipe into lines.

    Args:
        stream: The reading end; it is made non-blocking.
        show: Gets each line without its end.
    """

    def __init__(self, stream: IO[bytes] | int, show: Callable[[str], None]) -> None:
        self._stream = stream
        self.fd = stream if isinstance(stream, int) else stream.fileno()
        self._show = show
        self._rest = b""
        os.set_blocking(self.fd, False)

    def _read(self) -> bytes | None:
        """Return what is there: nothing at the end of the pipe, `None` if more may come."""
        try:
            return os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return None

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _CHUNK:  # a line without end is shown in pieces
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._show(line.decode(errors="replace"))

    def pump(self) -> bool:
        """Pass on what is there.

        Returns:
            Whether more may come; `False` at the end of the pipe.
        """
        data = self._read()
        if data:
            self._take(data)
        return data != b""

    def close(self) -> None:
        """Pass on what is left, without waiting for more, and close the pipe."""
        # Bounded, since a process that left the attempt's group may hold the other end and go on writing.
        for _ in range(1024):
            data = self._read()
            if not data:
                break
            self._take(data)
        if self._rest:
            self._show(self._rest.decode(errors="replace"))
        if isinstance(self._stream, int):
            os.close(self._stream)
        else:
            self._stream.close()


@dataclass
class AttemptProcess:
    """A running attempt.

    Args:
        start: What was to be started.
        process: The process; it leads a session and a process group of its own.
        outputs: Its pipes.
        timeout: Seconds that the task may run, if there is a limit.
        began: When the task's own code began, by the runner's clock; `None` while the process is still starting.
        stop_reason: Why it was told to stop, if it was.
        kill_at: When it is killed if it has not stopped by then.
        error: The last error that it told of.
    """

    start: Start
    process: subprocess.Popen[bytes]
    outputs: list[Lines]
    timeout: float | None
    launched: float
    began: float | None = None
    stop_reason: str | None = None
    kill_at: float | None = None
    error: str | None = None
    news: list[str] = field(default_factory=list)

    def deadline(self) -> float | None:
        """Return when something has to be done about it, by the runner's clock."""
        if self.kill_at is not None:
            return self.kill_at
        if self.timeout is None or self.began is None:
            return None
        return self.began + self.timeout

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            # Nobody is left in it; macOS answers so for a group of zombies.
            return

    def exited(self) -> bool:
        """Tell whether the process has ended; it stays unreaped, so that its number stays its own."""
        if self.process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, options) is not None

    def reap(self, reaper: Reaper) -> int:
        """Kill what is left of the group, pass on the last output, and collect the exit code."""
        self.signal(signal.SIGKILL)
        for lines in self.outputs:
            lines.close()
        # Before its number becomes free for others.
        reaper.remove(self.process.pid)
        return self.process.wait()


def launch(
    spec: Callable[[int], AttemptSpec],
    start: Start,
    *,
    reaper: Reaper,
    path: list[str],
    timeout: float | None,
    now: float,
    out: Callable[[str], None],
    err: Callable[[str], None],
) -> AttemptProcess:
    """Start an attempt.

    Args:
        spec: Makes what to tell it, from the number of the descriptor for its news.
        start: What is to be started.
        reaper: Kills it if the runner dies.
        path: The runner's ``sys.path``, so that both find the same modules.
        timeout: Seconds that the task may run.
        now: The time, by the runner's clock.
        out: Gets the lines of its standard output.
        err: Gets the lines of its standard error.

    Returns:
        The running attempt.
    """
    news_in, news_out = os.pipe()
    index = "" if start.map_index < 0 else f"[{start.map_index}]"
    # Garbage collection is off while modules are imported, which make none; the attempt turns it on again.
    boot = (
        f"import gc, sys; gc.disable(); sys.path[:] = {json.dumps(path)}; "
        "from milepost.runner.attempt import leave, main; leave(main)"
    )
    # The last arguments are for people who look at the list of processes.
    command = [sys.executable, "-c", boot, "milepost", f"{start.task_id}{index}", f"attempt {start.attempt}"]
    try:
        data = spec(news_out).dump()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(news_out,),
            start_new_session=True,
            bufsize=0,
            env=attempt_environment(),
        )
    except BaseException:
        os.close(news_in)
        raise
    finally:
        os.close(news_out)
    assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - all three are pipes
    # It does nothing until it has been told what to do, and by then the reaper knows of it.
    reaper.add(process.pid)
    attempt = AttemptProcess(start, process, [], timeout, launched=now)
    attempt.outputs += [
        Lines(process.stdout, out),
        Lines(process.stderr, err),
        Lines(news_in, attempt.news.append),
    ]
    _send(process.stdin, data)
    return attempt


def _send(stream: IO[Any], data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[stream.write(view) :]
        stream.close()
    except BrokenPipeError:
        stream.close()  # it has died already, which is noticed where its end is waited for


def how_it_died(code: int) -> str:
    """Return what an exit code says of a process that recorded no end itself."""
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"
    return f"the process exited with code {code} before it recorded how it ended"
