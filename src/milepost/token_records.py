"""What a store tells about the tokens of people and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

__all__ = ["ROLES", "Role", "TokenRecord"]

Role = Literal["viewer", "editor", "admin"]

ROLES: Final[Sequence[Role]] = get_args(Role)
"""What a token may do, each role all that those before it may."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is recorded of one token. The token itself is not: only its digest is.

    Args:
        name: Its name; what is written with it is on record under this name.
        role: ``viewer``, ``editor`` or ``admin``.
        created_at: When it was made (aware, UTC); so are the next two.
        last_used_at: When it was last used, to about ten minutes; `None`: never.
        revoked_at: When it was revoked; `None`: it is valid.
        damaged: What of the record cannot be read, where somebody damaged it; such a token opens nothing.

    .. versionadded:: 0.1
    """

    name: str
    role: Role
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    damaged: str | None = None
