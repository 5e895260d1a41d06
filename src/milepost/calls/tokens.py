"""Tokens of people and tools, which open the REST API. The metastore never sees one, only its digest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from milepost.calls.base import Call
from milepost.token_records import TokenRecord

__all__ = ["CreateToken", "FindToken", "ListTokens", "NoteToken", "RevokeToken"]


@dataclass(eq=False, slots=True)
class CreateToken(Call[TokenRecord]):
    """Record a token.

    Args:
        name: Names it for people, for good: also a revoked one keeps its name.
        digest: The SHA-256 of the token, in hexadecimal digits.
        role: ``viewer``, ``editor`` or ``admin``.
        writer: Who makes it, as rows hold it.

    Raises:
        ConflictError: There is or was one of this name.
    """

    repeatable: ClassVar[bool] = False

    name: str
    digest: str
    role: str
    writer: str


@dataclass(eq=False, slots=True)
class FindToken(Call[TokenRecord | None]):
    """The record of a token that has not been revoked, or `None`."""

    digest: str


@dataclass(eq=False, slots=True)
class ListTokens(Call[list[TokenRecord]]):
    """All records by name, revoked ones too."""


@dataclass(eq=False, slots=True)
class RevokeToken(Call[TokenRecord]):
    """Have a token open nothing any more; nothing if it is so already.

    Raises:
        NotFoundError: No such token.
    """

    name: str
    writer: str


@dataclass(eq=False, slots=True)
class NoteToken(Call[None]):
    """Note that a token is in use."""

    digest: str
