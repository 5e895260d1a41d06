"""External jobs: intents and the ids of jobs (SPEC section 9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from milepost import calls
from milepost.calls import Handle
from milepost.errors import DamagedEntryError, VersionConflictError
from milepost.job_records import DROPPED, KNOWN, OPEN, Intent
from milepost.metastore.operations.base import Batch, Environment, Operation, guard_read, guard_write, owner_of
from milepost.retention import NEVER
from milepost.scopes import TaskScope

__all__ = ["intend", "keep", "read", "token_of"]

_WIDTH = len(Intent._fields)
_STATES = (OPEN, KNOWN, DROPPED)


def _intent(key: str, row: Sequence[Any]) -> Intent | None:
    """Return the intent in a row.

    Raises:
        DamagedEntryError: Someone damaged it.
    """
    if row[0] is None:
        return None
    intent = Intent(*row[:_WIDTH])
    texts = (intent.token, intent.version)
    if type(intent.submission) is not int or not all(type(text) is str for text in texts) or intent.state not in _STATES:
        raise DamagedEntryError(key, "what is recorded of its job cannot be read")
    return intent if _readable(intent.params) else intent._replace(params=None)


def _readable(params: Any) -> bool:
    try:
        return params is None or isinstance(json.loads(params), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def read(call: calls.ReadIntent, _: Environment) -> Operation[tuple[Intent | None, tuple[Any, Any] | None]]:
    """See `milepost.calls.ReadIntent`."""
    handle = call.handle
    intent: Intent | None = None
    entry: tuple[Any, Any] | None = None
    for _try in range(2):
        owner = yield from owner_of(handle)
        if owner is not None:
            ((*row, value, encoding),) = yield "intent_read", (owner, call.key)
            intent = _intent(call.key, row)
            entry = None if encoding is None else (value, encoding)
        if not (yield from guard_read(handle)):
            break
    return intent, entry


def _load(handle: Handle, key: str) -> Operation[tuple[int, Sequence[Any], Intent | None]]:
    """Check the fence, keep other writers of the instance out, and load the intent and what tokens are made of."""
    owner = yield from guard_write(handle, create=True, alone=True)
    assert owner is not None
    (row,) = yield "intent_load", (owner, key)
    return owner, row[_WIDTH:], _intent(key, row)


def _moved(handle: Handle, key: str) -> VersionConflictError:
    return VersionConflictError(
        f"another call decided on the job under {key!r} of {handle.scope} at the same time; one call at a time for a key"
    )


def intend(call: calls.Intend, _: Environment) -> Operation[Intent]:
    """See `milepost.calls.Intend`."""
    handle, key = call.handle, call.key
    assert isinstance(handle.scope, TaskScope)
    owner, (generation, incarnation, run, run_created), intent = yield from _load(handle, key)
    if intent is not None and intent.version == call.version:
        return intent  # the request was sent twice
    if call.expected != (None if intent is None else intent.version):
        raise _moved(handle, key)
    if intent is not None and not call.new:
        if intent.state != OPEN:
            raise _moved(handle, key)
        yield "intent_again", (owner, key, call.version, handle.writer)
        return intent._replace(version=call.version)
    submission = 1 if intent is None else intent.submission + 1
    # Where a run has no incarnation, its record stands for it: a run that was deleted and made anew has another.
    token = token_of(handle.scope, key, incarnation or f"{run} {run_created}", generation, submission)
    yield "entry_delete", (owner, key)
    yield "intent_put", (owner, key, submission, generation, token, call.params, call.version, handle.writer)
    return Intent(submission, token, OPEN, None, call.params, call.version)


def keep(call: calls.KeepJob, _: Environment) -> Operation[Intent]:
    """See `milepost.calls.KeepJob`."""
    handle, item = call.handle, call.item
    owner, _rest, intent = yield from _load(handle, item.key)
    if intent is None or intent.version not in (call.expected, item.version):
        raise _moved(handle, item.key)
    if call.adopted and intent.state != OPEN and intent.version != item.version:
        raise _moved(handle, item.key)
    if call.entry and intent.version != item.version:
        yield "entry_put", Batch([item], (owner, NEVER, handle.writer))
    yield "intent_close", (owner, item.key, call.job, item.version)
    return intent._replace(state=KNOWN, job=call.job, version=item.version)


def token_of(scope: TaskScope, key: str, incarnation: str, generation: int, submission: int) -> str:
    """Return the token of a submission: 35 lowercase letters, digits and one hyphen, so that most services take it.

    Args:
        scope: The task instance.
        key: The key of the id.
        incarnation: Tells the run from others of the same id.
        generation: How often the instance was cleared.
        submission: The number of the submission.
    """
    parts = [scope.dag_id, scope.run_id, scope.task_id, scope.map_index, key, incarnation, generation, submission]
    return f"mp-{blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()}"
