"""Who calls the REST API: tokens with roles."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from typing import Final, NamedTuple

from fastapi import Depends, Request, Security, params
from fastapi.security import HTTPBearer

from milepost import calls
from milepost.abc import Metastore
from milepost.entry import Writer
from milepost.errors import AuthenticationError, ForbiddenError
from milepost.token_records import ROLES, Role, TokenRecord
from milepost.tokens import PREFIX, digest_of

__all__ = ["TokenAuth", "needs", "token_of", "writer_of"]

_SECONDS: Final = 3.0
"""How long a token that was found is not looked up again: so long a revoked one goes on to open the API."""

_USED_SECONDS: Final = 600.0
"""How exact the time of the last use is."""

_CACHED: Final = 1024

_scheme = HTTPBearer(auto_error=False, description="A token of `milepost tokens create`.")


class _Known(NamedTuple):
    digest: str
    record: TokenRecord
    until: float


class TokenAuth:
    """Knows the tokens of a store.

    Args:
        metastore: Where their digests are.
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._noted: dict[str, float] = {}

    async def who(self, credential: str) -> TokenRecord:
        """Return the record of a token.

        Raises:
            AuthenticationError: It is unknown or revoked.
        """
        if not credential.startswith(PREFIX):
            raise AuthenticationError("this is no token of the REST API: an administrator makes one with `milepost tokens`")
        digest = digest_of(credential)
        known = self._known.get(digest)
        now = time.monotonic()
        # The look-up is by a digest, which tells nobody who measures it anything of a token; the comparison is constant.
        if known is not None and known.until > now and hmac.compare_digest(known.digest, digest):
            return known.record
        record = await self._metastore.acall(calls.FindToken(digest))
        if record is None:
            self._known.pop(digest, None)
            raise AuthenticationError("this token is unknown or was revoked")
        if record.damaged is not None:
            raise AuthenticationError("the record of this token is damaged; an administrator revokes it and makes another")
        self._known[digest] = _Known(digest, record, now + _SECONDS)
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        await self._note(digest, now)
        return record

    async def _note(self, digest: str, now: float) -> None:
        """Note now and then that a token is in use."""
        if now - self._noted.get(digest, -_USED_SECONDS) < _USED_SECONDS:
            return
        if len(self._noted) >= _CACHED:
            self._noted.clear()
        self._noted[digest] = now
        await self._metastore.acall(calls.NoteToken(digest))


def token_of(request: Request) -> TokenRecord:
    """Return the token of a request, which was looked up before its route."""
    record: TokenRecord = request.scope["milepost.token"]
    return record


def writer_of(request: Request) -> Writer:
    """Return who is on record for what a request writes."""
    return Writer("api", user=token_of(request).name)


def needs(role: Role) -> list[params.Depends]:
    """Return what makes a route ask for a role."""
    least = ROLES.index(role)

    async def check(request: Request) -> None:
        own = token_of(request)
        if ROLES.index(own.role) < least:
            raise ForbiddenError(f"this needs the role {role}; the token {own.name!r} has the role {own.role}")

    return [Security(_scheme), Depends(check)]
