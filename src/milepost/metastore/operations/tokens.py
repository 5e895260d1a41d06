"""Tokens of people and tools, of which only digests are known."""

from __future__ import annotations

from milepost import calls
from milepost.errors import ConflictError, NotFoundError
from milepost.metastore.operations.base import Environment, Operation
from milepost.metastore.operations.records import token_record
from milepost.token_records import TokenRecord

__all__ = ["create", "find", "list_all", "note", "revoke"]


def create(call: calls.CreateToken, _: Environment) -> Operation[TokenRecord]:
    """See `milepost.calls.CreateToken`."""
    if not (yield "token_insert", (call.digest, call.name, call.role)):
        raise ConflictError(f"there is or was a token {call.name!r}; names of tokens are not used again")
    yield "change_event", ("event", "create_token", None, call.name, call.writer)
    rows = yield "token_get", (call.name,)
    return token_record(rows[0])


def find(call: calls.FindToken, _: Environment) -> Operation[TokenRecord | None]:
    """See `milepost.calls.FindToken`."""
    rows = yield "token_find", (call.digest,)
    return token_record(rows[0]) if rows else None


def list_all(_: calls.ListTokens, __: Environment) -> Operation[list[TokenRecord]]:
    """See `milepost.calls.ListTokens`."""
    return [token_record(row) for row in (yield "token_list", ())]


def revoke(call: calls.RevokeToken, _: Environment) -> Operation[TokenRecord]:
    """See `milepost.calls.RevokeToken`."""
    if (yield "token_revoke", (call.name,)):
        yield "change_event", ("event", "revoke_token", None, call.name, call.writer)
    rows = yield "token_get", (call.name,)
    if not rows:
        raise NotFoundError(f"there is no token {call.name!r}; see `milepost tokens list`")
    return token_record(rows[0])


def note(call: calls.NoteToken, _: Environment) -> Operation[None]:
    """See `milepost.calls.NoteToken`."""
    yield "token_note", (call.digest,)
