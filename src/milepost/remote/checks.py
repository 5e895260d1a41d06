"""The rules for the fields of calls that come in over HTTP. In Python, the accessors apply them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from milepost import calls
from milepost.calls import Call, Handle
from milepost.calls.lifecycle import MAX_RESULT_BYTES
from milepost.checks import INSTANCE_STATES, RUN_STATES, check_state
from milepost.clock import MAX_MICROS
from milepost.entry import FINISH_STATES, Writer
from milepost.errors import InvalidValueError, ValueTooLargeError
from milepost.retention import NEVER
from milepost.scopes import MAX_ID_CHARS, MAX_KEY_CHARS, MAX_MAP_INDEX, AssetScope, check_key, check_text
from milepost.token_records import ROLES

__all__ = ["CHECKS", "check_call"]

_YEAR_SECONDS: Final = 86_400 * 366
_MOST: Final = 2**31 - 1

Check = Callable[[Any], Any]


_OF_TASKS: Final = (calls.Intend, calls.KeepJob, calls.ReadIntent, calls.PastRun, calls.Touch)
_OF_ASSETS: Final = (
    calls.Advance,
    calls.Stage,
    calls.History,
    calls.Rollback,
    calls.AssetArchives,
    calls.RestoreAsset,
)

_STATES: Final[dict[type[Call[Any]], Collection[str]]] = {
    calls.Finish: sorted(FINISH_STATES),
    calls.HoldRun: ("success", "failed"),
    calls.ListRuns: RUN_STATES,
    calls.RunPage: RUN_STATES,
    calls.ListInstances: INSTANCE_STATES,
    calls.InstancePage: INSTANCE_STATES,
}
"""The states that a call may name."""


def check_call(call: Call[Any]) -> Call[Any]:
    """Return a call whose parts fit each other.

    Raises:
        InvalidValueError: They do not.
    """
    name = type(call).__name__
    handle = getattr(call, "handle", None)
    if isinstance(handle, Handle) and isinstance(handle.scope, AssetScope):
        if handle.owner_id is None:
            raise InvalidValueError(f"the handle of {name} is on an asset and has to have its number")
        try:
            Writer.decode(handle.writer)
        except ValueError:
            raise InvalidValueError(f"the handle of {name} is on an asset and has to name its writer in full") from None
        if isinstance(call, _OF_TASKS) or (isinstance(call, calls.Clear) and call.all_map_indices):
            raise InvalidValueError(f"{name} is about a task instance here, and its handle is on an asset")
    elif isinstance(call, _OF_ASSETS):
        raise InvalidValueError(f"{name} is about an asset, and its handle is on a task instance")
    if isinstance(call, calls.EntryPage) and isinstance(call.scope, AssetScope) and call.scope.asset_id is None:
        raise InvalidValueError("EntryPage takes an asset by its number")
    if (known := _STATES.get(type(call))) and (state := getattr(call, "state", None)) is not None:
        check_state(state, known)
    return call


def _text(what: str, limit: int) -> Check:
    def check(text: Any) -> Any:
        return check_text(text, what, limit) if type(text) is str else text

    return check


def _between(what: str, least: float, most: float) -> Check:
    def check(number: Any) -> Any:
        if type(number) in (int, float) and not least <= number <= most:
            raise InvalidValueError(f"{what} must be {least} to {most}, got {number}")
        return number

    return check


def _keys(keys: list[str]) -> list[str]:
    return [check_key(key) for key in keys]


def _prefix(prefix: str) -> str:
    return prefix if prefix == "" else check_text(prefix, "prefix", MAX_KEY_CHARS)


def _retention(micros: int) -> int:
    if micros != NEVER and not 0 < micros <= MAX_MICROS:
        raise InvalidValueError("retention must be microseconds above 0, -1 (never) or null, and end before the year 10000")
    return micros


def _writer(text: str) -> str:
    try:
        if text.startswith("task:") and text[5:].isdigit():
            return text
        Writer.decode(check_text(text, "writer", 4_000))
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"the writer is unknown: {error}") from None
    return text


def _result_text(text: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_RESULT_BYTES:
        raise ValueTooLargeError(size, MAX_RESULT_BYTES, "the most that a result may have", None)
    return text


def _rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if any(type(cell) is str and "\0" in cell for row in rows for cell in row):
        raise InvalidValueError("a row holds a text with NUL, which not every database can keep")
    return rows


def _role(role: str) -> str:
    if role not in ROLES:
        raise InvalidValueError(f"a role is one of {', '.join(ROLES)}")
    return role


CHECKS: Final[dict[str, Check]] = {
    "key": check_key,
    "keys": _keys,
    "prefix": _prefix,
    "dag_id": _text("dag_id", MAX_ID_CHARS),
    "run_id": _text("run_id", MAX_ID_CHARS),
    "task_id": _text("task_id", MAX_ID_CHARS),
    "map_index": _between("map_index", -1, MAX_MAP_INDEX),
    "attempt": _between("attempt", 1, _MOST),
    "incarnation": _text("incarnation", MAX_ID_CHARS),
    "item": _text("item", MAX_ID_CHARS),
    "item_name": _text("item_name", 1_500),
    "holder": _text("holder", 1_500),
    "dead_holder": _text("dead_holder", 1_500),
    "name": _text("name", 1_500),
    "version": _text("version", 64),
    "expected": _text("expected", 64),
    "what": _text("what", MAX_ID_CHARS),
    "kind": _text("kind", MAX_ID_CHARS),
    "rows": _rows,
    "role": _role,
    "digest": _text("digest", 64),
    "expires_at": _between("expires_at", 0, MAX_MICROS),
    "offset": _between("offset", 0, _MOST),
    "writer": _writer,
    "retention": _retention,
    "ttl": _between("ttl", 0.001, _YEAR_SECONDS),
    "limit": _between("limit", 1, _MOST),
    "batch": _between("batch", 1, _MOST),
    "encoding": _between("encoding", 0, 1_000),
}
"""What a field of this name must obey, in whichever call; `None` is let through before."""
