"""External jobs: what is about to be submitted, and the ids of what was (SPEC section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from milepost.calls.base import Call, Handle, Item
from milepost.job_records import Intent

__all__ = ["Intend", "KeepJob", "ReadIntent"]


@dataclass(eq=False, slots=True)
class ReadIntent(Call[tuple[Intent | None, tuple[Any, Any] | None]]):
    """The latest submission under a key, and text and encoding of the id that is stored there, from one moment.

    Raises:
        StaleAttemptError: The attempt is not the current one.
        DamagedEntryError: Someone damaged the stored intent.
    """

    handle: Handle
    key: str


@dataclass(eq=False, slots=True)
class Intend(Call[Intent]):
    """Record that a job is about to be submitted. Durable when it returns; the answer has the token to use.

    A new submission gets the next number and a token of its own, and the id of the job before it goes from the key, all in
    one transaction. Sent twice, it is recognised by ``version``.

    Args:
        handle: Who submits.
        key: Under which key the id will be stored.
        version: Drawn by the caller.
        expected: The version of the intent that the caller decided on; `None`: there was none.
        new: Whether another job is wanted than the intent's; otherwise it stays as it is, token included.
        params: For a new one: the fingerprints of its parameters.

    Raises:
        StaleAttemptError: The attempt is not the current one.
        VersionConflictError: The intent is not the one that was decided on, or no longer open where it is to go on.
    """

    handle: Handle
    key: str
    version: str
    expected: str | None
    new: bool
    params: str | None = None


@dataclass(eq=False, slots=True)
class KeepJob(Call[Intent]):
    """Store the id of a job under its key, kept until it is deleted, and close the intent, in one transaction.

    Args:
        handle: Who submitted it.
        item: The id as an entry; its version becomes that of the intent too.
        job: The fingerprint of the id.
        expected: The version of the intent.
        adopted: Whether the job was not submitted just now but found: then only while the intent is open, as somebody may
            have cleared it meanwhile.
        entry: Whether to write the entry; not where a backend of the user's has it.

    Raises:
        StaleAttemptError: The attempt is not the current one.
        VersionConflictError: The intent is not that one: another call on the same key came in between.
    """

    handle: Handle
    item: Item
    job: str
    expected: str
    adopted: bool = False
    entry: bool = True
