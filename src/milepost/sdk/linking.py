"""``>>``, ``<<`` and `chain`: which task comes before which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from milepost.sdk.errors import DagDefinitionError

if TYPE_CHECKING:
    from milepost.sdk.node import Task

__all__ = ["Linkable", "chain"]


class Linkable(ABC):
    """Something that has a place in the order of tasks: a task, the result of one, or a group of them."""

    __slots__ = ()

    @abstractmethod
    def roots(self) -> list[Task]:
        """Return the tasks that what comes before is linked to."""

    @abstractmethod
    def leaves(self) -> list[Task]:
        """Return the tasks that what comes after is linked to."""

    def set_downstream(self, others: Any) -> None:
        """Put one thing, or each of a list, directly after this one."""
        for other in _things(others):
            _link(self, other)

    def set_upstream(self, others: Any) -> None:
        """Put one thing, or each of a list, directly before this one."""
        for other in _things(others):
            _link(other, self)

    def __rshift__(self, other: Any) -> Any:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: Any) -> Any:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Linkable:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Linkable:
        self.set_downstream(other)
        return self


def _things(value: Any) -> Iterator[Linkable]:
    if isinstance(value, Linkable):
        yield value
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            yield from _things(part)
    else:
        hint = "; call it first" if callable(value) else ""
        raise DagDefinitionError(f"{value!r} is no task, so it cannot be put before or after one{hint}")


def _link(first: Linkable, second: Linkable) -> None:
    for before in first.leaves():
        for after in second.roots():
            if before is after:
                raise DagDefinitionError(f"task {before.task_id!r} cannot come before itself")
            if before.dag is not after.dag:
                raise DagDefinitionError(f"task {before.task_id!r} and task {after.task_id!r} belong to different DAGs")
            before.downstream_task_ids[after.task_id] = None
            after.upstream_task_ids[before.task_id] = None


def chain(*tasks: Any) -> None:
    """Put each argument directly before the next.

    Args:
        tasks: Tasks, results, groups, or lists of them.
            Two lists that follow one another are linked pair by pair.

    Raises:
        DagDefinitionError: Two lists that follow one another differ in length, or something is no task.

    .. versionadded:: 0.1
    """
    for first, second in pairwise(tasks):
        if isinstance(first, Linkable):
            first.set_downstream(second)
        elif isinstance(second, Linkable):
            second.set_upstream(first)
        elif isinstance(first, Sequence) and isinstance(second, Sequence):
            if len(first) != len(second):
                raise DagDefinitionError(
                    f"chain() got lists of {len(first)} and {len(second)} in a row; give lists of one length"
                )
            for one, other in zip(first, second, strict=True):
                chain(one, other)
        else:
            next(_things([first, second, None]))
