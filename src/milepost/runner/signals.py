"""Signals as bytes in a pipe, so that one wait covers them and everything else."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType, TracebackType

__all__ = ["SignalPipe"]

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Be there: only a signal with a handler wakes the pipe."""


class SignalPipe:
    """While entered, signals that stop the runner and those of ended children arrive here.

    Outside of the main thread Python hands out no signals: the pipe stays silent and ``poll`` says how often to look.

    Attributes:
        fd: Becomes readable when a signal came in.
        poll: The longest wait in seconds between two looks at the children; `None` where signals come in.
    """

    def __init__(self) -> None:
        self.fd = -1
        self.poll: float | None = None
        self._write_end = -1
        self._before: dict[int, Any] = {}
        self._wakeup = -1

    def __enter__(self) -> SignalPipe:
        self.fd, self._write_end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_end, False)
        if threading.current_thread() is not threading.main_thread():
            self.poll = 0.05
            return self
        for number in (*_STOPPING, signal.SIGCHLD):
            if number != signal.SIGCHLD and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup, a job in the background: meant to be ignored
            self._before[number] = signal.signal(number, _nothing)
        self._wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before:
            signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            # None stands for a handler that was not set from Python, which cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        os.close(self.fd)
        os.close(self._write_end)

    def drain(self) -> list[int]:
        """Return the signals to stop that came in since the last call."""
        try:
            data = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        return [number for number in data if number in _STOPPING]
