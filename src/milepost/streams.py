"""Standard output and standard error that go nowhere, instead of raising, once nobody takes what is written."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["discard", "steady_streams"]


def discard(stream: TextIO) -> None:
    """Have a stream write to nowhere, with what waits in its buffer."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return  # no file stands behind it
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, number)
    finally:
        os.close(null)


class _Steady:
    """Passes on to a stream until writing to it fails; from then on nothing is shown.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        if self._gone:
            return len(text)
        try:
            return self._stream.write(text)
        except OSError:
            self._give_up()
            return len(text)

    def flush(self) -> None:
        """Pass on what waits, or drop it."""
        if self._gone:
            return
        try:
            self._stream.flush()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        self._gone = True
        discard(self._stream)


@contextmanager
def steady_streams() -> Iterator[None]:
    """Keep a process going whose output goes nowhere: a pipe that was closed, a terminal that is gone, a full disk."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", _Steady(before[0])), cast("TextIO", _Steady(before[1]))
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout, sys.stderr = before
