"""Where a task goes when it is made: its DAG, its group, its defaults, its final id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.errors import MilepostError
from milepost.scopes import MAX_ID_CHARS, check_text
from milepost.sdk.errors import DagDefinitionError

if TYPE_CHECKING:
    from milepost.sdk.dag import DAG
    from milepost.sdk.group import TaskGroup
    from milepost.sdk.location import Location

__all__ = [
    "Detached",
    "checked_id",
    "current_build",
    "current_dag",
    "detached",
    "enter_dag",
    "leave_dag",
    "place",
    "prefixed",
]

_open_dags: list[DAG] = []
_builds: list[Detached] = []


class Detached(NamedTuple):
    """An operator being made for one mapped instance: it belongs to a DAG and is not added to it."""

    dag: DAG
    where: Location


@contextmanager
def detached(dag: DAG, where: Location) -> Iterator[None]:
    """Make operators that stand in no DAG.

    Args:
        dag: The DAG that they name as theirs.
        where: The line of the mapped task.
    """
    _builds.append(Detached(dag, where))
    try:
        yield
    finally:
        _builds.pop()


def current_build() -> Detached | None:
    """Return the surrounding `detached`, if any."""
    return _builds[-1] if _builds else None


def enter_dag(dag: DAG) -> None:
    """Begin a ``with`` block of a DAG."""
    _open_dags.append(dag)


def leave_dag() -> None:
    """End the innermost ``with`` block of a DAG."""
    _open_dags.pop()


def current_dag() -> DAG | None:
    """Return the DAG whose ``with`` block is the innermost."""
    return _open_dags[-1] if _open_dags else None


def checked_id(text: Any, what: str, where: Location) -> str:
    """Return an id that obeys the rules.

    Raises:
        DagDefinitionError: It does not; the message names the line.
    """
    try:
        return check_text(text, what, MAX_ID_CHARS)
    except (MilepostError, TypeError) as error:
        raise DagDefinitionError(str(error), where) from None


def place(arguments: Mapping[str, Any], where: Location) -> tuple[DAG, TaskGroup | None, dict[str, Any]]:
    """Return where a task goes: the DAG, the group, and the defaults that reach it.

    Args:
        arguments: The arguments of the call; ``dag``, ``task_group`` and ``default_args`` are read.
        where: The line of the call.

    Raises:
        DagDefinitionError: There is no DAG around the call, or a default is of the wrong kind.
    """
    group = arguments.get("task_group")
    dag = arguments.get("dag") or (group.dag if group is not None else current_dag())
    if dag is None:
        raise DagDefinitionError("a task needs a DAG: make it inside `with DAG(…):` or give dag=…", where)
    if group is None:
        group = dag.open_group
    defaults = dict(dag.default_args)
    if group is not None:
        defaults.update(group.defaults())
    own = arguments.get("default_args") or {}
    if not isinstance(own, Mapping):
        raise DagDefinitionError(f"default_args takes a dict, not {own!r}", where)
    defaults.update(own)
    return dag, group, defaults


def prefixed(task_id: Any, group: TaskGroup | None, where: Location) -> str:
    """Return a task's final id, with the prefix of its group.

    Raises:
        DagDefinitionError: The id breaks the rules.
    """
    text = checked_id(task_id, "task_id", where)
    return text if group is None else checked_id(group.prefix + text, "task_id", where)
