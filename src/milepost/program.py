"""Several calls in a row, written once for blocking and for asynchronous use.

A program is a generator that yields calls and receives their answers, or what was raised instead, an interrupt too,
thrown at the ``yield``: so its ``finally`` may yield calls that tidy up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from milepost.abc import Metastore
from milepost.calls import Call

__all__ = ["Program", "arun", "run"]

R = TypeVar("R")
Program = Generator[Call[Any], Any, R]


def run(metastore: Metastore, program: Program[R]) -> R:
    """Run a program to its end and return its result."""
    try:
        call = next(program)
        while True:
            try:
                answer = metastore.call(call)
            except BaseException as error:  # noqa: BLE001  (the program decides, and raises it again)
                call = program.throw(error)
            else:
                call = program.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def arun(metastore: Metastore, program: Program[R]) -> R:
    """Run a program to its end without blocking the event loop."""
    try:
        call = next(program)
        while True:
            try:
                answer = await metastore.acall(call)
            except BaseException as error:  # noqa: BLE001  (the program decides, and raises it again)
                call = program.throw(error)
            else:
                call = program.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
