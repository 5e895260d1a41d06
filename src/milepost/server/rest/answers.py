"""What the REST API answers: entries with the value as it is stored, records, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from milepost.accessors.base import read_row
from milepost.calls import Stored
from milepost.clock import from_micros
from milepost.entry import DamagedValue, Writer
from milepost.errors import AuthenticationError, DamagedEntryError, InvalidValueError, MilepostError, VersionConflictError
from milepost.remote.problems import problem_of, status_of
from milepost.run_records import RunRecord
from milepost.scopes import TaskScope
from milepost.server.logs import OUTAGES
from milepost.values import loads_strict

__all__ = ["Raw", "answer", "asset_entry", "etag", "plain", "problem", "refusal", "run_entry", "task_entry"]

_AIRFLOWS: Final = ("task", "watcher", "api")
"""The kinds of writers that Airflow's clients know."""


class Raw(str):
    """JSON text that is sent as it is."""

    __slots__ = ()


def dumps(thing: Any) -> str:
    """Return JSON text; `Raw` parts stay as they are."""
    if type(thing) is Raw:
        return thing
    if isinstance(thing, Mapping):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{dumps(part)}" for key, part in thing.items()) + "}"
    if isinstance(thing, list | tuple):
        return "[" + ",".join(map(dumps, thing)) + "]"
    return json.dumps(thing, ensure_ascii=False, allow_nan=False)


def answer(thing: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with a body."""
    return Response(dumps(thing).encode(errors="backslashreplace"), status, headers, "application/json")


def moment(value: datetime | None) -> str | None:
    """Return an instant as Airflow writes it."""
    return None if value is None else value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def plain(thing: Any) -> Any:
    """Return a record as JSON data."""
    if is_dataclass(thing) and not isinstance(thing, type):
        return {field.name: plain(getattr(thing, field.name)) for field in fields(thing)}
    if isinstance(thing, datetime):
        return moment(thing)
    if hasattr(thing, "_asdict"):
        return {name: plain(part) for name, part in thing._asdict().items()}
    if isinstance(thing, list | tuple):
        return [plain(one) for one in thing]
    return thing


def etag(version: str) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def _shared(row: Stored, own: TaskScope | None, *, whole: bool) -> dict[str, Any]:
    """Return what entries of both kinds have; ``whole``: a damaged one is an error, not marked."""
    entry = read_row(row, own)
    if isinstance(entry, DamagedValue):
        if whole:
            raise DamagedEntryError(entry.key, entry.reason)
        epoch = moment(from_micros(0))
        return {
            "key": entry.key,
            "value": None,
            "updated_at": epoch,
            "created_at": epoch,
            "version": None,
            "writer": None,
            "damaged": entry.reason,
        }
    return {
        "key": entry.key,
        "value": Raw(row.value),
        "updated_at": moment(entry.updated_at),
        "created_at": moment(entry.created_at),
        "version": entry.version,
        "writer": plain(entry.writer),
        "damaged": None,
        "expires_at": moment(entry.expires_at),
        "never_expires": entry.never_expires,
    }


def task_entry(row: Stored, scope: TaskScope, *, whole: bool = True) -> dict[str, Any]:
    """Return an entry of a task instance."""
    shared = _shared(row, scope, whole=whole)
    return {"expires_at": None, "never_expires": False, **shared, "map_index": scope.map_index}


def asset_entry(row: Stored, *, whole: bool = True) -> dict[str, Any]:
    """Return an entry of an asset; writers of kinds that Airflow's clients do not know are named as ``api`` for them."""
    shared = {name: part for name, part in _shared(row, None, whole=whole).items() if "expire" not in name}
    return {**shared, "last_updated_by": None if shared["writer"] is None else last_updated_by(Writer.decode(row.writer))}


def run_entry(record: RunRecord) -> dict[str, Any]:
    """Return a run, its parameters as the JSON that they are; damaged ones as text."""
    shown: dict[str, Any] = plain(record)
    if record.params is not None:
        try:
            loads_strict(record.params)
            shown["params"] = Raw(record.params)
        except InvalidValueError:
            return shown
    return shown


def last_updated_by(writer: Writer) -> dict[str, Any]:
    """Return a writer as Airflow tells it."""
    return {
        "kind": writer.kind if writer.kind in _AIRFLOWS else "api",
        "dag_id": writer.dag_id,
        "run_id": writer.run_id,
        "task_id": writer.task_id,
        "map_index": writer.map_index,
    }


def problem(error: MilepostError, *, conditional: bool = False, where: str = "body") -> Response:
    """Return the answer to a request that cannot be fulfilled.

    Args:
        error: Why.
        conditional: Whether the request said what it expects to find.
        where: The part of the request that holds what is wrong, if something in it is.
    """
    body = problem_of(error)
    status = 412 if conditional and isinstance(error, VersionConflictError) else status_of(error)
    headers = {}
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    if status == 503:
        headers["retry-after"] = "1"
        OUTAGES.tell(error)
    message = body["detail"]
    detail = [{"loc": [where], "msg": message, "type": "value_error"}] if status == 422 else message
    return refusal(status, body["error"], message, detail, headers)


def refusal(status: int, error: str, message: str, detail: Any = None, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in its one shape: its class, a line for people, and what Airflow's clients look for."""
    body = {"error": error, "message": message, "detail": message if detail is None else detail}
    return JSONResponse(body, status, headers)
