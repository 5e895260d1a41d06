"""What all calls share: handles, rows, versions, and the calls that every metastore needs first."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from milepost.errors import DamagedEntryError
from milepost.scopes import AssetScope, TaskScope, activate_command
from milepost.values import decode

__all__ = [
    "PLAIN",
    "Call",
    "Handle",
    "Item",
    "Stored",
    "new_version",
    "stored_value",
]

PLAIN: Final = 0
"""The encoding of a row whose value is the JSON text itself."""

R_co = TypeVar("R_co", covariant=True)


def new_version() -> str:
    """Draw a version: 96 random bits, so no two writes ever share one."""
    return os.urandom(12).hex()


def stored_value(key: str, text: Any, encoding: Any) -> Any:
    """Return what a stored text stands for.

    Raises:
        DamagedEntryError: It cannot be read.
    """
    if encoding != PLAIN:
        raise DamagedEntryError(key, f"its encoding {encoding!r} is unknown to this release")
    try:
        return decode(text)
    except ValueError as error:
        raise DamagedEntryError(key, str(error)) from error


class Handle:
    """One accessor's view of one owner of keys. Calls may cache the owner's number in it.

    Args:
        scope: The task instance or the asset.
        writer: The writer as rows hold it (`Writer.encode`).
        logged: Whether deletes and edits of task state go to the change log (people's do).
        instance_id: The number of the task instance behind the calls, where an attempt makes them.
        fence: The fence that this attempt holds; `None` with ``instance_id`` `None`: unfenced.
        attempt: That attempt, for messages.
        owner_id: The number under which the owner's keys are stored, once known.
        fixed: Whether it is this owner and no other, should one be recorded anew under the scope.
        running: Whether it opens anything only while the attempt runs: that of a token does.
        warns: Whether to log a warning when a read meets a deactivated asset. It is logged once.

    A read that meets a deactivated asset sets ``deactivated``, for a server to tell its client.
    """

    __slots__ = (
        "attempt",
        "deactivated",
        "fence",
        "fixed",
        "instance_id",
        "logged",
        "owner_id",
        "running",
        "scope",
        "warns",
        "writer",
    )

    def __init__(
        self,
        scope: TaskScope | AssetScope,
        writer: str,
        *,
        logged: bool = False,
        instance_id: int | None = None,
        fence: int | None = None,
        attempt: int | None = None,
        owner_id: int | None = None,
        fixed: bool = False,
        running: bool = False,
        warns: bool = False,
    ) -> None:
        self.scope = scope
        self.writer = writer
        self.logged = logged
        self.instance_id = instance_id
        self.fence = fence
        self.attempt = attempt
        self.owner_id = owner_id
        self.fixed = fixed
        self.running = running
        self.warns = warns
        self.deactivated = False

    def meet_deactivated(self) -> None:
        """Note that a read found nothing because the asset is deactivated; where one has asked for it, log that, once.

        It looks like a first run.
        """
        self.deactivated = True
        if self.warns and isinstance(self.scope, AssetScope):
            import logging  # rarely needed, and not cheap to load

            self.warns = False
            logging.getLogger("milepost").warning(
                "the asset %s is deactivated, so reads find nothing; its state comes back with: %s",
                self.scope,
                activate_command(self.scope),
                extra={"action": "read"},
            )


class Stored(NamedTuple):
    """A live row, as stored."""

    key: Any
    value: Any
    encoding: Any
    version: Any
    created_at: Any
    updated_at: Any
    expires_at: Any
    default_day: Any
    writer: Any


class Item(NamedTuple):
    """One value to write: key, text, encoding, and the version that the writer drew."""

    key: str
    text: str
    encoding: int
    version: str


class Call(Generic[R_co]):
    """The base of all calls; ``R_co`` is what the answer is.

    ``repeatable``: running the call twice in a row is as good as running it once, so that it may be sent again where nobody
    knows whether it took effect. The others raise `OutcomeUnknownError` then.
    """

    __slots__ = ()
    repeatable: ClassVar[bool] = True
