"""Records from rows, of which some may be damaged: what cannot be read is marked, and hides no other row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, get_args

from milepost.asset_records import AssetRecord, AssetReference
from milepost.clock import MAX_MICROS, MIN_MICROS, from_micros
from milepost.entry import InstanceState, Writer
from milepost.metastore.operations.base import readable_scope
from milepost.run_records import Archive, InstanceRecord, Outcome, RunEvent, RunRecord
from milepost.scopes import Scope, TaskScope, key_text
from milepost.token_records import ROLES, TokenRecord
from milepost.values import loads_strict

__all__ = [
    "archive_record",
    "asset_record",
    "instance_record",
    "outcome_record",
    "readable_scope",
    "readable_time",
    "run_record",
    "token_record",
]

_EPOCH: Final = from_micros(0)
_RUN_STATES: Final = (None, "running", "success", "failed")


class _Columns:
    """Reads the columns of one row and notes those that it cannot read."""

    def __init__(self) -> None:
        self._bad: list[str] = []

    def _note(self, name: str, value: Any) -> None:
        self._bad.append(f"{name} is of type {type(value).__name__}, or not what it may be")

    def text(self, name: str, value: Any, known: Sequence[Any] = ()) -> Any:
        """Return a text, or what stands for it; `None` stays."""
        if (value is None or type(value) is str) and (not known or value in known):
            return value
        self._note(name, value)
        return key_text(value) if isinstance(value, str | bytes | bytearray | memoryview) else repr(value)

    def number(self, name: str, value: Any, least: int, otherwise: int) -> int:
        """Return a whole number."""
        if type(value) is int and least <= value < 2**31:
            return value
        self._note(name, value)
        return otherwise

    def identity(self, name: str, value: Any) -> int:
        """Return the number of a record; 0, which none has, where there is none."""
        if type(value) is int and value > 0:
            return value
        self._note(name, value)
        return 0

    def time(self, name: str, value: Any) -> datetime:
        """Return a time; the epoch where there is none."""
        if type(value) is int and 0 <= value <= MAX_MICROS:
            return from_micros(value)
        self._note(name, value)
        return _EPOCH

    def maybe(self, name: str, value: Any) -> datetime | None:
        """Return a time that may be missing."""
        return None if value is None else self.time(name, value)

    def date(self, name: str, value: Any) -> datetime | None:
        """Return a time that a user has given, also one before 1970."""
        if type(value) is int and MIN_MICROS <= value < 0:
            return from_micros(value)
        return self.maybe(name, value)

    def writer(self, name: str, value: Any, own: TaskScope | None) -> Writer:
        """Return a writer; ``python`` where it is none."""
        try:
            return Writer.decode(value, own)
        except (ValueError, TypeError, AttributeError):
            self._note(name, value)
            return Writer("python")

    def json(self, name: str, value: Any) -> Any:
        """Return JSON as the text that it is, damaged or not."""
        try:
            if value is not None:
                loads_strict(value)
        except (ValueError, TypeError):
            self._note(name, value)
            return value if type(value) is str else repr(value)
        return value

    def scope(self, *parts: Any) -> TaskScope:
        """Return a task instance."""
        scope = readable_scope(*parts)
        if (scope.dag_id, scope.run_id, scope.task_id, scope.map_index) != parts:
            self._note("task instance", parts)
        return scope

    @property
    def damage(self) -> str | None:
        """What could not be read; `None` if all could."""
        return "; ".join(self._bad) or None


def archive_record(scope: Scope, rows: Sequence[Sequence[Any]]) -> Archive:
    """Return an archive from its rows: number, cause, time, writer and key of each."""
    number, cause, at, writer, *_ = rows[0]
    read = _Columns()
    return Archive(
        id=read.identity("number", number),
        scope=scope,
        cause=read.text("cause", cause),
        at=read.time("time", at),
        writer=read.writer("writer", writer, scope if isinstance(scope, TaskScope) else None),
        keys=tuple(key_text(row[4]) for row in rows),
        damaged=read.damage,
    )


def asset_record(row: Sequence[Any], references: Sequence[AssetReference], aliases: Sequence[str]) -> AssetRecord:
    """Return the record of an asset."""
    number, name, uri, active, created, updated, at, writer, cause = row
    read = _Columns()
    return AssetRecord(
        id=number,
        name=read.text("name", name) or "",
        uri=read.text("uri", uri) or "",
        active=bool(active),
        created_at=read.time("created_at", created),
        updated_at=read.time("updated_at", updated),
        references=tuple(references),
        aliases=tuple(aliases),
        deactivated_at=read.maybe("deactivated_at", at),
        deactivated_by=None if writer is None else read.writer("deactivated_by", writer, None),
        cause=read.text("cause", cause),
        damaged=read.damage,
    )


def instance_record(row: Sequence[Any]) -> InstanceRecord:
    """Return the record of a task instance."""
    dag_id, run_id, task_id, map_index, state, attempt, incarnation, item_name, created, opened, finished, updated = row
    read = _Columns()
    return InstanceRecord(
        scope=read.scope(dag_id, run_id, task_id, map_index),
        state=read.text("state", state, get_args(InstanceState)),
        attempt=read.number("attempt", attempt, 0, 0),
        incarnation=read.text("incarnation", incarnation),
        item_name=read.text("item name", item_name),
        created_at=read.time("created_at", created),
        opened_at=read.maybe("opened_at", opened),
        finished_at=read.maybe("finished_at", finished),
        updated_at=read.time("updated_at", updated),
        damaged=read.damage,
    )


def run_record(row: Sequence[Any]) -> RunRecord:
    """Return the record of a run."""
    dag_id, run_id, incarnation, state, params, logical_date, holder, held_until, created, updated, *event = row
    read = _Columns()
    return RunRecord(
        dag_id=read.text("dag_id", dag_id),
        run_id=read.text("run_id", run_id),
        incarnation=read.text("incarnation", incarnation),
        state=read.text("state", state, _RUN_STATES),
        params=read.json("params", params),
        logical_date=read.date("logical_date", logical_date),
        holder=read.text("holder", holder),
        held_until=read.maybe("held_until", held_until),
        created_at=read.time("created_at", created),
        updated_at=read.time("updated_at", updated),
        event=None if event[0] is None else RunEvent(*event),
        damaged=read.damage,
    )


def outcome_record(dag_id: str, run_id: str, row: Sequence[Any]) -> Outcome:
    """Return how an attempt ended; what cannot be read of it is shown as text, or stands as 0."""
    task_id, map_index, attempt, state, error, at = row
    read = _Columns()
    return Outcome(
        scope=readable_scope(dag_id, run_id, task_id, map_index),
        attempt=read.number("attempt", attempt, 0, 0),
        state=read.text("state", state) or "",
        error=read.text("error", error),
        at=read.time("at", at),
    )


def readable_time(value: Any) -> datetime | None:
    """Return a time, or `None` where there is none."""
    return from_micros(value) if type(value) is int and 0 <= value <= MAX_MICROS else None


def token_record(row: Sequence[Any]) -> TokenRecord:
    """Return the record of a token from its row."""
    name, role, created, used, revoked = row
    read = _Columns()
    return TokenRecord(
        name=read.text("name", name),
        role=read.text("role", role, ROLES),
        created_at=read.time("created_at", created),
        last_used_at=read.maybe("last_used_at", used),
        revoked_at=read.maybe("revoked_at", revoked),
        damaged=read.damage,
    )
