"""The OpenAPI document of the execution API."""

from __future__ import annotations

from typing import Any, Final

from milepost import __version__, errors
from milepost.remote.incoming import CALLS

__all__ = ["document"]

_PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
_REFUSALS: Final = {
    401: "No credential, an unknown one, or a token that has expired.",
    403: "The credential does not open this, whether or not it exists.",
    404: "What was asked for by name does not exist.",
    409: "The state has moved on: the attempt is stale, another version is there, or something holds it.",
    408: "The request took too long.",
    413: "The request is larger than the server allows.",
    422: "The request is not valid; the detail says where.",
    503: "The store cannot be reached or used right now.",
}


def _answers(status: int, text: str, schema: Any, refused: tuple[int, ...]) -> dict[str, Any]:
    """Return the answers of a route: the good one, and those of the refusals that it knows."""
    good: dict[str, Any] = {"description": text}
    if schema is not None:
        good["content"] = {"application/json": {"schema": schema}}
    bad = {
        str(code): {"description": _REFUSALS[code], "content": {"application/json": {"schema": _PROBLEM}}}
        for code in refused
    }
    return {str(status): good, **bad}


def _body(schema: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def document() -> dict[str, Any]:
    """Return the document."""
    token = {
        "type": "object",
        "required": ["token", "seconds"],
        "properties": {"token": {"type": "string"}, "seconds": {"type": "integer", "description": "how long it lasts"}},
    }
    texts = {"type": "array", "items": {"type": "string"}}
    assets = {"type": "array", "items": {"type": "array", "minItems": 3, "maxItems": 3, "items": {}}}
    wanted = {
        "type": "object",
        "required": ["scope", "attempt"],
        "additionalProperties": False,
        "properties": {
            "scope": {
                "type": "array",
                "minItems": 4,
                "maxItems": 4,
                "items": {},
                "description": "dag_id, run_id, task_id, map_index",
            },
            "attempt": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
            "incarnation": {"type": ["string", "null"]},
            "inlets": {**assets, "description": "id, name and URI of each"},
            "outlets": assets,
            "aliases": texts,
            "results": {**texts, "description": "tasks of the same run whose results the attempt may read"},
        },
    }
    call = {"type": "array", "minItems": 1, "description": f"name and fields; names: {', '.join(CALLS)}"}
    every = tuple(_REFUSALS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Milepost execution API",
            "version": __version__,
            "description": "For workers and those who start them. Its client is milepost.connect('http://…'). Keys never "
            "travel in paths.",
        },
        "security": [{"bearer": []}],
        "paths": {
            "/execution/v1/call": {
                "post": {
                    "operationId": "call",
                    "summary": "Run one call, or several in order",
                    "requestBody": _body({"anyOf": [call, {"type": "array", "minItems": 1, "items": call}]}),
                    "responses": _answers(200, "The answer; of several calls, a list of answers and errors.", {}, every),
                }
            },
            "/execution/v1/token": {
                "post": {
                    "operationId": "token",
                    "summary": "Exchange the worker secret for the token of one attempt",
                    "requestBody": _body(wanted),
                    "responses": _answers(200, "The token.", token, (401, 403, 408, 413, 422)),
                }
            },
            "/execution/v1/renew": {
                "post": {
                    "operationId": "renew",
                    "summary": "Prolong a token while its attempt runs",
                    "responses": _answers(200, "A new token.", token, every),
                }
            },
            "/execution/v1/verify": {
                "post": {
                    "operationId": "verify",
                    "summary": "Check the schema of the store",
                    "responses": _answers(204, "It is as it should be.", None, (401, 408, 413, 503)),
                }
            },
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["error", "detail"],
                    "properties": {
                        "error": {"type": "string", "description": f"one of {', '.join(errors.__all__)}, or of HTTP's own"},
                        "detail": {"type": "string"},
                        "arguments": {"type": "array", "items": {"type": ["string", "integer"]}},
                    },
                }
            },
        },
    }
