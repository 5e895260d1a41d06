"""What a store tells about one key, and who wrote it; options and states of task instances."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, cast

from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.scopes import TaskScope

__all__ = [
    "FINISH_STATES",
    "OPEN_STATES",
    "DamagedValue",
    "Entry",
    "InstanceState",
    "TaskOptions",
    "Writer",
    "WriterKind",
    "one_line",
]

WriterKind = Literal["task", "watcher", "api", "cli", "python"]
InstanceState = Literal["none", "running", "up_for_retry", "deferred", "success", "failed", "skipped", "cleared"]

FINISH_STATES: Final = frozenset({"success", "failed", "skipped", "up_for_retry", "deferred"})
"""What `Instances.finish` takes."""

OPEN_STATES: Final = frozenset({"running", "up_for_retry", "deferred"})
"""States of an instance that will go on; collection spares its entries (SPEC section 8)."""


MAX_REASON_CHARS: Final = 1_000


def one_line(reason: str) -> str:
    """Return a reason for people as every database holds it: one line, without NUL and lone surrogates, bounded."""
    if not isinstance(reason, str):
        raise UnsupportedTypeError(f"a reason must be a str, not {type(reason).__name__}")
    line = " ".join(reason.replace("\0", " ").split())
    if len(line) > MAX_REASON_CHARS:
        line = f"{line[: MAX_REASON_CHARS - 1]}…"
    return line.encode(errors="replace").decode()


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote something. The record outlives the run it names.

    Args:
        kind: ``task``, ``watcher``, ``api``, ``cli`` or ``python``.
        dag_id: Of the writing task instance, where ``kind`` is ``task``; so are the next four.
        run_id: The run.
        task_id: The task.
        map_index: The position in a mapped task, -1 if not mapped.
        attempt: The attempt, counted from 1.
        user: The name behind an ``api`` write, or of the watcher, where known.

    .. versionadded:: 0.1
    """

    kind: WriterKind
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    attempt: int | None = None
    user: str | None = None

    @classmethod
    def of_task(cls, scope: TaskScope, attempt: int) -> Writer:
        """Return the writer that an attempt of a task instance is."""
        return cls("task", scope.dag_id, scope.run_id, scope.task_id, scope.map_index, attempt)

    def encode(self, own: TaskScope | None = None) -> str:
        """Return the text that rows hold.

        Args:
            own: The scope that the row belongs to; a task that writes its own state needs to store its attempt only.
        """
        if self.kind == "task":
            parts = [self.dag_id, self.run_id, self.task_id, self.map_index, self.attempt]
            if own is not None and parts[:4] == [own.dag_id, own.run_id, own.task_id, own.map_index]:
                return f"task:{self.attempt}"
            return "task:" + json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        return self.kind if self.user is None else f"{self.kind}:{self.user}"

    @classmethod
    def decode(cls, text: str, own: TaskScope | None = None) -> Writer:
        """Return the writer that a row's text stands for.

        Args:
            text: What `encode` returned.
            own: The scope that the row belongs to.

        Raises:
            ValueError: The text is not one of Milepost's.
        """
        kind, _, detail = text.partition(":")
        if kind == "task":
            if own is not None and not detail.startswith("["):
                return cls.of_task(own, int(detail))
            parts = json.loads(detail)
            if not isinstance(parts, list) or len(parts) != 5:
                raise ValueError(f"unknown writer {text!r}")
            dag_id, run_id, task_id, map_index, attempt = parts
            return cls("task", dag_id, run_id, task_id, map_index, attempt)
        if kind in ("watcher", "api", "cli", "python"):
            return cls(cast("WriterKind", kind), user=detail or None)
        raise ValueError(f"unknown writer {text!r}")

    def __str__(self) -> str:
        if self.kind != "task":
            return self.kind if self.user is None else f"{self.kind} ({self.user})"
        index = "" if self.map_index is None or self.map_index < 0 else f"[{self.map_index}]"
        return f"task {self.dag_id}/{self.run_id}/{self.task_id}{index} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One live key with all that is known of it.

    Args:
        key: The key.
        value: The value.
        version: An opaque text that no other write ever has.
        created_at: When the key came into being (aware, UTC).
        updated_at: When it was last written or touched (aware, UTC).
        expires_at: When it goes (aware, UTC); `None` without explicit retention and for `NEVER_EXPIRE`.
        never_expires: Whether it was written with `NEVER_EXPIRE`; asset entries always are.
        writer: Who wrote it last.

    .. versionadded:: 0.1
    """

    key: str
    value: Any
    version: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    never_expires: bool
    writer: Writer


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """Stands in a list for the value of a row that cannot be read.

    Args:
        key: The key, with bytes that are no text escaped.
        reason: What is wrong.

    .. versionadded:: 0.1
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of one task, recorded when an attempt opens; `None` leaves a choice to the configuration.

    Args:
        clear_on_success: Drop the instance's keys when it succeeds.
        on_clear: ``"discard"`` or ``"keep"``: what a clear does with the keys.

    .. versionadded:: 0.1
    """

    clear_on_success: bool | None = None
    on_clear: Literal["discard", "keep"] | None = None

    def __post_init__(self) -> None:
        if self.clear_on_success not in (True, False, None):
            raise InvalidValueError(f"clear_on_success must be True, False or None, got {self.clear_on_success!r}")
        if self.on_clear not in ("discard", "keep", None):
            raise InvalidValueError(f"on_clear must be 'discard', 'keep' or None, got {self.on_clear!r}")
