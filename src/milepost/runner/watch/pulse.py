"""Notices when a trigger blocks the event loop, which stops everything else, the answer to a signal included."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

__all__ = ["BLOCKED_TICKS", "LAST_TICKS", "TICK_SECONDS", "Pulse"]

TICK_SECONDS: Final = 1.0
BLOCKED_TICKS: Final = 5
"""A loop that stood still for so many ticks in a row is blocked."""
LAST_TICKS: Final = 15
"""How long a signal may wait for a blocked loop."""


class Pulse:
    """A thread that looks whether the event loop moves. Made and used in the main thread.

    It counts its own ticks instead of asking a clock, so that a process that was stopped as a whole was not blocked.

    Args:
        file: The DAG file, to name a line of it.
        blocked: Called in the thread with the place at which the loop has stood still for a while.
        leave: Called in the thread when the loop does not answer a signal: the first time with `False`, to stop what can be
            stopped from there, and with `True` when the process has to end.

    Attributes:
        told: Whether a signal has come.
    """

    def __init__(self, file: str, blocked: Callable[[str], None], leave: Callable[[bool], None]) -> None:
        self._file = file
        self._blocked = blocked
        self._leave = leave
        self._beats = 0
        self.told = False
        self._over = threading.Event()
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="milepost-pulse", daemon=True)
        self._task: asyncio.Task[None] | None = None

    def start(self, signals: Sequence[int]) -> None:
        """Begin to look. The loop handles the signals; here it is only noted that there was one."""
        for number in signals:
            # The loop learns of it by way of the wake-up descriptor, whatever this function does.
            signal.signal(number, self._on_signal)
        self._task = asyncio.get_running_loop().create_task(self._beat())
        self._thread.start()

    def stop(self) -> None:
        """Look no longer."""
        self._over.set()
        if self._task is not None:
            self._task.cancel()
        if self._thread.is_alive():
            self._thread.join()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.told = True

    async def _beat(self) -> None:
        while True:
            self._beats += 1
            await asyncio.sleep(TICK_SECONDS)

    def _look(self) -> None:
        seen, still, unanswered = 0, 0, 0
        while not self._over.wait(TICK_SECONDS):
            if self._beats != seen:
                seen, still, unanswered = self._beats, 0, 0
                continue
            still += 1
            if still == BLOCKED_TICKS:
                self._blocked(self._place())
            if self.told and still > 1:
                unanswered += 1
                if unanswered == 1:
                    self._leave(False)
                elif unanswered == LAST_TICKS:
                    self._leave(True)

    def _place(self) -> str:
        """Return where the main thread is: the innermost line of the DAG file, else of anything."""
        frame: Any = sys._current_frames().get(self._main)
        innermost = frame
        while frame is not None and frame.f_code.co_filename != self._file:
            frame = frame.f_back
        found = frame or innermost
        return "?" if found is None else f"{found.f_code.co_filename}:{found.f_lineno}"
