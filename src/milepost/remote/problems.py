"""Errors over HTTP: one JSON shape that a client turns back into the same exception.

``{"error": "StaleAttemptError", "detail": "the message", "arguments": […]}``; the arguments are those of the exception
where they are more than its message.
"""

from __future__ import annotations

from typing import Any, Final

from milepost import errors
from milepost.errors import MilepostError

__all__ = ["error_of", "problem_of", "status_of"]

_STATUS: Final[tuple[tuple[type[MilepostError], int], ...]] = (
    (errors.AuthenticationError, 401),
    (errors.ForbiddenError, 403),
    (errors.NotFoundError, 404),
    (errors.ConflictError, 409),
    (errors.DamagedEntryError, 409),
    (errors.InvalidKeyError, 422),
    (errors.InvalidValueError, 422),
    (errors.UnsupportedTypeError, 422),
    (errors.BackendUnsupportedError, 422),
    (errors.ConfigurationError, 422),
    (errors.StoreError, 503),
)


def status_of(error: MilepostError) -> int:
    """Return the HTTP status for an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 422)


def problem_of(error: MilepostError) -> dict[str, Any]:
    """Return what travels for an error."""
    body: dict[str, Any] = {"error": type(error).__name__, "detail": _clean(str(error))}
    arguments = error.__reduce__()[1]
    if arguments != (str(error),) and all(type(one) in (str, int) for one in arguments):
        body["arguments"] = [_clean(one) if type(one) is str else one for one in arguments]
    return body


def _clean(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def error_of(status: int, body: Any) -> MilepostError | None:
    """Return the error that an answer stands for; `None` where it is not one of a Milepost server.

    Args:
        status: The HTTP status.
        body: The parsed body.
    """
    if not isinstance(body, dict) or not isinstance(body.get("error"), str) or not isinstance(body.get("detail"), str):
        return None
    cls: type[MilepostError] | None = getattr(errors, body["error"]) if body["error"] in errors.__all__ else None
    if cls is None:  # of a newer server: what is nearest to it
        cls = next((kind for kind, code in _STATUS if code == status), errors.StoreError)
    arguments = body.get("arguments")
    if isinstance(arguments, list):
        try:
            return cls(*arguments)
        except TypeError:
            return MilepostError(body["detail"])
    return cls(body["detail"])
