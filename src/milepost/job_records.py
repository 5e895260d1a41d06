"""Records of external jobs: submissions, and what was decided about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

__all__ = ["DROPPED", "KNOWN", "NOT_FOUND", "OPEN", "Action", "Intent", "JobDecision", "NotFound"]

Action = Literal["fresh", "reattached", "already_succeeded", "resubmitted", "adopted"]

OPEN: Final = "open"
KNOWN: Final = "known"
DROPPED: Final = "dropped"


class NotFound:
    """The type of `NOT_FOUND`, of which there is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NOT_FOUND"

    def __reduce__(self) -> str:
        return "NOT_FOUND"

    def __copy__(self) -> NotFound:
        return self

    def __deepcopy__(self, _: Any) -> NotFound:
        return self


NOT_FOUND: Final = NotFound()
"""What ``find`` answers where the other system has no job with that token.

.. versionadded:: 0.1
"""


@dataclass(frozen=True)
class JobDecision:
    """What was decided about an external job, and done.

    Attributes:
        action: ``fresh``: the first job was submitted; ``resubmitted``: another one was, or the same one again;
            ``reattached``: an earlier attempt's job is still active; ``already_succeeded``: it is done; ``adopted``: an
            earlier attempt was cut off while submitting, and its job was found by its token.
        job_id: The id of the job.
        status: ``active`` or ``done``.
        reason: Why, in words.
        submission: The number of the submission; `None` where the id was stored by other means, or ``durable`` is false.
        token: The token of that submission.

    .. versionadded:: 0.1
    """

    action: Action
    job_id: Any
    status: Literal["active", "done"]
    reason: str
    submission: int | None = None
    token: str | None = None


class Intent(NamedTuple):
    """The latest submission under a key, as it is stored.

    Attributes:
        submission: Its number, which rises whenever a new job is wanted.
        token: What the other system knows it by.
        state: ``open``: nobody here knows whether the job exists; ``known``: its id was stored; ``dropped``: forgotten.
        job: The `fingerprint` of that id.
        params: What `fingerprints` made of the parameters, as JSON text.
        version: Drawn by whoever wrote the row last.
    """

    submission: int
    token: str
    state: str
    job: str | None
    params: str | None
    version: str
