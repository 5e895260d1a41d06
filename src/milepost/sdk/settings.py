"""The arguments that every task takes, read from the call and from ``default_args``, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.references import asset_scope, is_alias
from milepost.sdk.errors import DagDefinitionError
from milepost.sdk.rules import TriggerRule

if TYPE_CHECKING:
    from milepost.sdk.location import Location

__all__ = ["SCHEDULER_ONLY", "TASK_ARGUMENTS", "TaskSettings", "check_params", "read_settings"]

SCHEDULER_ONLY: Final = frozenset(
    {
        "catchup",
        "description",
        "doc_md",
        "end_date",
        "max_active_runs",
        "max_active_tasks",
        "owner",
        "pool",
        "priority_weight",
        "queue",
        "schedule",
        "start_date",
        "tags",
    }
)
"""Arguments that only a scheduler or a web page reads: accepted, without effect here."""


class TaskSettings(NamedTuple):
    """How a task is run.

    Args:
        retries: How often it is tried again after the first attempt.
        retry_delay: The wait before each retry.
        execution_timeout: How long an attempt may run; `None` means as long as it likes.
        trigger_rule: When it runs, in terms of the tasks before it.
        inlets: Assets that it reads.
        outlets: Assets that it writes.
        params: Parameters of this task, over those of the DAG.
        multiple_outputs: Whether it returns a dict whose items are used one by one.
    """

    retries: int = 0
    retry_delay: timedelta = timedelta(0)
    execution_timeout: timedelta | None = None
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    inlets: tuple[Any, ...] = ()
    outlets: tuple[Any, ...] = ()
    params: Mapping[str, Any] | None = None
    multiple_outputs: bool = False


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a number of retries: an int of at least 0")
    return value


def _delay(value: Any) -> timedelta:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            value = timedelta(seconds=value)
        except (ValueError, OverflowError):  # NaN, and more than a timedelta holds
            value = None
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise ValueError("a timedelta or a number of seconds, not negative")
    return value


def _timeout(value: Any) -> timedelta:
    limit = _delay(value)
    if not limit:
        raise ValueError("a timedelta or a number of seconds above zero")
    return limit


def _rule(value: Any) -> TriggerRule:
    try:
        return TriggerRule(value)
    except ValueError:
        raise ValueError(f"one of {', '.join(TriggerRule)}") from None


def _assets(value: Any) -> tuple[Any, ...]:
    things = tuple(value) if isinstance(value, (list, tuple, set, frozenset)) else (value,)
    for thing in things:
        if not is_alias(thing):
            try:
                asset_scope(thing)
            except TypeError as error:
                raise ValueError(f"assets, references to assets and aliases ({error})") from None
    return things


def check_params(value: Any) -> dict[str, Any]:
    """Return the parameters as a dict.

    Raises:
        ValueError: Not a mapping with `str` keys; the message says what it should be.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("a dict whose keys are str")
    return dict(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("True or False")
    return value


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "retries": _count,
    "retry_delay": _delay,
    "execution_timeout": _timeout,
    "trigger_rule": _rule,
    "inlets": _assets,
    "outlets": _assets,
    "params": check_params,
    "multiple_outputs": _flag,
}

TASK_ARGUMENTS: Final = frozenset(_READERS) | SCHEDULER_ONLY
"""What every task takes beside its id, and what ``default_args`` may therefore hold."""


def read_settings(given: Mapping[str, Any], defaults: Mapping[str, Any], task: str, where: Location) -> TaskSettings:
    """Return the settings of one task.

    Args:
        given: The arguments of the call; `None` counts as not given, and so do names that are no settings.
        defaults: ``default_args``, already merged.
        task: The task's id, for messages.
        where: The line of the call, for messages.

    Returns:
        The settings, checked.

    Raises:
        DagDefinitionError: A value is not what the argument takes.
    """
    values: dict[str, Any] = {}
    for name, reader in _READERS.items():
        value = given.get(name)
        if value is None:
            value = defaults.get(name)
        if value is None:
            continue
        try:
            values[name] = reader(value)
        except (TypeError, ValueError) as error:
            wanted = str(error)
            raise DagDefinitionError(f"{name} of task {task!r} is {value!r}; it takes {wanted}", where) from None
    return TaskSettings(**values)
