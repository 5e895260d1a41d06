"""Tokens of people and tools: what opens the REST API of a server, and how far."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost import calls
from milepost.errors import InvalidValueError
from milepost.scopes import MAX_ID_CHARS, check_text
from milepost.token_records import ROLES, Role, TokenRecord

if TYPE_CHECKING:
    from builtins import list as List  # noqa: N812  (the class has a method named list)

    from milepost.abc import Metastore
    from milepost.entry import Writer

__all__ = ["PREFIX", "NewToken", "Tokens", "digest_of"]

PREFIX: Final = "milepost_"
"""How every token begins, so that scanners for leaked credentials and people can tell what one is."""


class NewToken(NamedTuple):
    """A token that was just made, the only time that it can be seen, and its record.

    .. versionadded:: 0.1
    """

    token: str
    record: TokenRecord

    def __repr__(self) -> str:
        return f"NewToken(token='***', record={self.record!r})"


def digest_of(token: str) -> str:
    """Return what is stored of a token.

    A plain SHA-256 does: a token has 256 random bits, so nobody can guess tokens and compare.
    """
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


class Tokens:
    """Makes, lists and revokes tokens. In Python: ``store.tokens``.

    Every method has a twin whose name starts with ``a``, which does not block the event loop.

    Args:
        metastore: Where they are recorded.
        writer: Who acts.

    .. versionadded:: 0.1
    """

    def __init__(self, metastore: Metastore, writer: Writer) -> None:
        self._metastore = metastore
        self._writer = writer.encode()

    def create(self, name: str, *, role: Role) -> NewToken:
        """Make a token.

        Args:
            name: Names it for people, at most 250 characters, and never again another one.
            role: ``viewer``, ``editor`` or ``admin``.

        Returns:
            The token, which is shown this once, and its record.

        Raises:
            ValueError: An empty or too long name, or another role.
            ConflictError: There is or was a token of this name.
        """
        token, call = self._create(name, role)
        return NewToken(token, self._metastore.call(call))

    async def acreate(self, name: str, *, role: Role) -> NewToken:
        """As `create`."""
        token, call = self._create(name, role)
        return NewToken(token, await self._metastore.acall(call))

    def _create(self, name: str, role: Role) -> tuple[str, calls.CreateToken]:
        if role not in ROLES:
            raise InvalidValueError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
        token = PREFIX + secrets.token_urlsafe(32)
        return token, calls.CreateToken(_name(name), digest_of(token), role, self._writer)

    def list(self) -> List[TokenRecord]:
        """Return all records by name, revoked ones too."""
        return self._metastore.call(calls.ListTokens())

    async def alist(self) -> List[TokenRecord]:
        """As `list`."""
        return await self._metastore.acall(calls.ListTokens())

    def revoke(self, name: str) -> TokenRecord:
        """Have a token open nothing any more. Servers that have just seen it notice within seconds.

        Raises:
            NotFoundError: There is no token of this name.
        """
        return self._metastore.call(calls.RevokeToken(_name(name), self._writer))

    async def arevoke(self, name: str) -> TokenRecord:
        """As `revoke`."""
        return await self._metastore.acall(calls.RevokeToken(_name(name), self._writer))


def _name(name: str) -> str:
    return check_text(name, "the name of a token", MAX_ID_CHARS)
