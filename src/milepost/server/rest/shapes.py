"""What the OpenAPI document says of bodies and answers. Values are any JSON but null, so they are not modelled."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["asset_collection", "body", "conditional", "errors", "json_answer", "record", "run", "runs", "task_collection"]

_VALUE: Final = {"description": "Any JSON value but null.", "title": "Value"}
_ERROR: Final = {
    "type": "object",
    "required": ["error", "message", "detail"],
    "properties": {
        "error": {"type": "string", "description": "The class of the error."},
        "message": {"type": "string", "description": "What is wrong, and what to do."},
        "detail": {"description": "The message; at 422 a list of what is wrong where."},
    },
}
_WHY: Final = {
    401: "No token, or one that is unknown or was revoked",
    403: "The role does not allow it",
    404: "No such task instance, asset, run or key",
    409: "The state does not allow it",
    412: "Another version is there",
    413: "The request is too large",
    422: "Something in the request is wrong",
    503: "The store cannot be reached",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route; those that every route has are added."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in sorted({401, 403, 422, 503, *statuses}):
        described[status] = {"description": _WHY[status], "content": {"application/json": {"schema": _ERROR}}}
    return described


def json_answer(schema: dict[str, Any], description: str = "Done") -> dict[str, Any]:
    """Describe an answer with a body."""
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _object(properties: dict[str, Any], needed: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if needed is None else needed}


def _maybe(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Final = {"type": "string"}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_WRITER: Final = _object(
    {
        "kind": _TEXT,
        "dag_id": _maybe(_TEXT),
        "run_id": _maybe(_TEXT),
        "task_id": _maybe(_TEXT),
        "map_index": _maybe({"type": "integer"}),
    }
)
_ENTRY: Final = {
    "key": _TEXT,
    "value": _VALUE,
    "updated_at": _INSTANT,
    "created_at": _INSTANT,
    "version": _maybe(_TEXT),
    "writer": _maybe({"type": "object"}),
    "damaged": _maybe(_TEXT),
}
task: Final = _object(
    {**_ENTRY, "expires_at": _maybe(_INSTANT), "never_expires": {"type": "boolean"}, "map_index": {"type": "integer"}}
)
asset: Final = _object({**_ENTRY, "last_updated_by": _maybe(_WRITER)})
record: Final = {"type": "object"}
_PARAMS: Final = {"description": "What the run was started with: an object, as a rule; null where nobody has said."}
run: Final = _object(
    {
        "dag_id": _TEXT,
        "run_id": _TEXT,
        "incarnation": _maybe(_TEXT),
        "state": _maybe(_TEXT),
        "params": _PARAMS,
        "logical_date": _maybe(_INSTANT),
        "holder": _maybe(_TEXT),
        "held_until": _maybe(_INSTANT),
        "created_at": _INSTANT,
        "updated_at": _INSTANT,
        "event": _maybe({"type": "object"}),
        "damaged": _maybe(_TEXT),
    }
)
runs: Final = _object({"dag_runs": {"type": "array", "items": run}, "next_cursor": _maybe(_TEXT)})


def _collection(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    parts = {name: {"type": "array", "items": entry}, "total_entries": {"type": "integer"}, "next_cursor": _maybe(_TEXT)}
    return {"anyOf": [_object(parts, [name]), entry]}


task_collection: Final = _collection("task_state_store", task)
asset_collection: Final = _collection("asset_state_store", asset)


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": text}


_ABSENT: Final = _header("If-None-Match", "`*`: only if the key is absent.")
_VERSIONS: Final = _header("If-Match", "Only over one of these versions (`ETag`); `*`: only if the key is there.")


def conditional(extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe the conditions that an edit of a key takes; ``extra``: what else is said of it."""
    return {**(extra or {}), "parameters": [_VERSIONS, _ABSENT]}


def body(*, expires: bool = False, **others: dict[str, Any]) -> dict[str, Any]:
    """Describe the body of a request: a value, or ``others``."""
    properties: dict[str, Any] = others or {"value": _VALUE}
    if expires:
        properties["expires_at"] = {
            "anyOf": [_INSTANT, {"type": "null"}, {"type": "string", "const": "default"}],
            "default": "default",
            "description": "An instant with offset; null: never; default: as configured.",
        }
    needed = [] if others and "key" not in others else [name for name in properties if name != "expires_at"]
    schema = {**_object(properties, needed), "additionalProperties": False}
    return {"requestBody": {"required": bool(needed), "content": {"application/json": {"schema": schema}}}}
