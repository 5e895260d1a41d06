"""Checks of arguments that several public calls take: one clear error each, before anything is asked of a store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, get_args

from milepost.entry import InstanceState
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.scopes import MAX_ID_CHARS, TaskScope, check_text

__all__ = [
    "INSTANCE_STATES",
    "RUN_STATES",
    "RunState",
    "check_attempt",
    "check_flag",
    "check_incarnation",
    "check_number",
    "check_run",
    "check_scope",
    "check_state",
]

RunState = Literal["running", "success", "failed"]
RUN_STATES: Final[tuple[str, ...]] = get_args(RunState)
INSTANCE_STATES: Final[tuple[str, ...]] = get_args(InstanceState)


def check_scope(scope: object) -> TaskScope:
    """Return ``scope`` if it is a task instance.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(scope, TaskScope):
        raise UnsupportedTypeError(f"a TaskScope is needed here, not {type(scope).__name__}")
    return scope


def check_run(dag_id: object, run_id: object) -> tuple[str, str]:
    """Return the ids of a run if they obey the rules.

    Raises:
        TypeError: One is no `str`.
        InvalidKeyError: One breaks the rules.
    """
    return check_text(dag_id, "dag_id", MAX_ID_CHARS), check_text(run_id, "run_id", MAX_ID_CHARS)


def check_state(state: object, known: Collection[str]) -> str:
    """Return a state if it is one of those that there are: a mistyped one would select nothing, in silence.

    Raises:
        TypeError: No `str`.
        ValueError: Another one.
    """
    if not isinstance(state, str):
        raise UnsupportedTypeError(f"state must be a str, not {type(state).__name__}")
    if state not in known:
        raise InvalidValueError(f"state must be one of {', '.join(known)}, got {state[:60]!r}")
    return state


def check_number(number: object, what: str, least: int, most: int = 2**31 - 1) -> int:
    """Return an exact `int` that lies in its bounds.

    Raises:
        TypeError: No `int`; a `bool` is none.
        ValueError: Out of bounds.
    """
    if type(number) is not int:
        raise UnsupportedTypeError(f"{what} must be an int, not {type(number).__name__}")
    if not least <= number <= most:
        raise InvalidValueError(f"{what} must be {least} to {most}, got {number}")
    return number


def check_attempt(attempt: object) -> int:
    """Return the number of an attempt, 1 to 2**31-1.

    Raises:
        TypeError: No `int`.
        ValueError: Out of bounds.
    """
    return check_number(attempt, "attempt", 1)


def check_incarnation(incarnation: object) -> str | None:
    """Return an incarnation, which obeys the rules of ids, or `None`.

    Raises:
        TypeError: No `str`.
        InvalidKeyError: It breaks the rules.
    """
    return None if incarnation is None else check_text(incarnation, "incarnation", MAX_ID_CHARS)


def check_flag(flag: object, what: str) -> bool:
    """Return an exact `bool`.

    Raises:
        TypeError: Something else, which would be true or false by accident.
    """
    if type(flag) is not bool:
        raise UnsupportedTypeError(f"{what} must be True or False, not {type(flag).__name__}")
    return flag
