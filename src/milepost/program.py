"""Several calls in a row, written once for blocking and for asynchronous use.

A program is a generator that yields calls, or questions to the user's own functions, and receives their answers, or what
was raised instead, an interrupt too, thrown at the ``yield``: so its ``finally`` may yield calls that tidy up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from milepost.abc import Metastore
from milepost.calls import Call
from milepost.errors import UnsupportedTypeError

__all__ = ["Ask", "Program", "arun", "run"]

R = TypeVar("R")


class Ask(NamedTuple):
    """Have a function of the user's answer; an asynchronous one only where the program runs asynchronously.

    Args:
        name: What it is called, for messages.
        function: The function.
        argument: What it gets.
    """

    name: str
    function: Callable[[Any], Any]
    argument: Any


Program = Generator[Call[Any] | Ask, Any, R]


def _blocking(ask: Ask) -> Any:
    answer = ask.function(ask.argument)
    if hasattr(answer, "__await__"):
        if hasattr(answer, "close"):
            answer.close()  # nobody will await it
        raise UnsupportedTypeError(f"{ask.name} is asynchronous; that takes the call whose name begins with 'a'")
    return answer


async def _awaiting(ask: Ask) -> Any:
    answer = ask.function(ask.argument)
    return await answer if hasattr(answer, "__await__") else answer


def run(metastore: Metastore | None, program: Program[R]) -> R:
    """Run a program to its end and return its result. One that makes no calls needs no metastore."""
    try:
        call = next(program)
        while True:
            try:
                answer = _blocking(call) if isinstance(call, Ask) else metastore.call(call)  # type: ignore[union-attr]
            except BaseException as error:  # noqa: BLE001  (the program decides, and raises it again)
                call = program.throw(error)
            else:
                call = program.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def arun(metastore: Metastore | None, program: Program[R]) -> R:
    """Run a program to its end without blocking the event loop."""
    try:
        call = next(program)
        while True:
            try:
                answer = await (_awaiting(call) if isinstance(call, Ask) else metastore.acall(call))  # type: ignore[union-attr]
            except BaseException as error:  # noqa: BLE001  (the program decides, and raises it again)
                call = program.throw(error)
            else:
                call = program.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
