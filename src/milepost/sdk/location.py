"""Where in the user's file something was written, for messages that name the line."""

from __future__ import annotations

import sys
from typing import NamedTuple

__all__ = ["Location", "call_site"]

_HERE = __file__.removesuffix("location.py")


class Location(NamedTuple):
    """A line of a file.

    Args:
        file: The path, as Python knows it.
        line: The number of the line, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def call_site() -> Location:
    """Return the innermost line on the stack that is not part of this package: the user's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno)
