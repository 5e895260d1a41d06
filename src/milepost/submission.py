"""One external job, never two: what to do next, decided without I/O (SPEC section 9).

Before a job is submitted to another system, an *intent* with a token is durable. `next_step` looks at the intent, at the id
that is stored and at what the other system has answered so far, and says what to do or to ask next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

from milepost.errors import InvalidValueError
from milepost.job_records import DROPPED, NOT_FOUND, OPEN, Action, Intent
from milepost.values import canonical

__all__ = [
    "ABSENT",
    "ON_CHANGED",
    "ON_UNKNOWN",
    "STATUSES",
    "Adopt",
    "Find",
    "Refuse",
    "Situation",
    "Status",
    "Step",
    "Submit",
    "Use",
    "check_choice",
    "fingerprint",
    "fingerprints",
    "next_step",
    "shown",
]

STATUSES: Final = ("active", "done", "gone")
ON_UNKNOWN: Final = ("resubmit", "fail")
ON_CHANGED: Final = ("reattach", "fail", "resubmit")

_SHOWN = 100
_NAMED = 10


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""No id is stored, or a question has not been asked: every other value can be an id."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is known when a decision is made.

    Attributes:
        intent: The latest submission, if any.
        job: The id under the key, or `ABSENT`.
        params: The `fingerprints` of the parameters as they are now; `None`: not given.
        found: What ``find`` answered; `ABSENT`: it was not asked.
        status: What ``status`` answered; `None`: it was not asked.
        can_find: Whether there is a ``find``.
        can_status: Whether there is a ``status``.
        on_unknown: ``resubmit`` or ``fail``.
        on_changed: ``reattach``, ``fail`` or ``resubmit``.
    """

    intent: Intent | None = None
    job: Any = ABSENT
    params: str | None = None
    found: Any = ABSENT
    status: str | None = None
    can_find: bool = False
    can_status: bool = False
    on_unknown: str = "resubmit"
    on_changed: str = "reattach"

    @property
    def changed(self) -> list[str]:
        """Names of parameters that are not as they were for that job; empty where one of the two is not known."""
        intent = self.intent
        if intent is None or (self.job is not ABSENT and intent.job != fingerprint(self.job)):
            return []
        return _difference(intent.params, self.params)


class Find(NamedTuple):
    """Ask ``find`` for the job with this token."""

    token: str


class Status(NamedTuple):
    """Ask ``status`` how the job stands."""

    job: Any


class Adopt(NamedTuple):
    """Store this id as that of the open intent, and decide anew."""

    job: Any


class Submit(NamedTuple):
    """Submit a job.

    Attributes:
        new: Whether it is another job than the one before: it gets a number and a token of its own.
        action: ``fresh`` or ``resubmitted``.
        reason: Why.
        warning: What may go wrong, for the log.
        replaces: The id of a job that still runs and is no longer wanted, or `ABSENT`.
    """

    new: bool
    action: Action
    reason: str
    warning: str | None = None
    replaces: Any = ABSENT


class Use(NamedTuple):
    """Nothing is to be submitted: the job is there."""

    job: Any
    action: Action
    status: Literal["active", "done"]
    reason: str
    warning: str | None = None


class Refuse(NamedTuple):
    """Nothing may be submitted; a person has to look."""

    reason: str


Step = Find | Status | Adopt | Submit | Use | Refuse


def next_step(now: Situation) -> Step:
    """Return what to ask or to do next."""
    if now.job is not ABSENT:
        return _with_id(now)
    intent = now.intent
    if intent is None:
        return Submit(True, "fresh", "no job was submitted before")
    if intent.state == DROPPED and intent.job is None:
        reason = "an earlier attempt was cut off while submitting, and that was cleared"
        return Submit(True, "resubmitted", reason, f"{reason}: if its job exists, nobody waits for it")
    if intent.state != OPEN:
        return Submit(True, "resubmitted", "the earlier job was cleared; if it still runs, nobody waits for it")
    if not now.can_find:
        return _unknown(now, intent)
    if now.found is ABSENT:
        return Find(intent.token)
    if now.found is not NOT_FOUND:
        return Adopt(now.found)
    # What was not found is not active: parameters that changed need no further decision.
    reason = "an earlier attempt was cut off while submitting, and its job is not there"
    return Submit(bool(now.changed), "resubmitted", reason + _because(now.changed))


def _with_id(now: Situation) -> Step:
    """Decide about a job whose id is stored."""
    job, intent = now.job, now.intent
    if intent is not None and intent.state == OPEN:
        return Adopt(job)  # found by its token, or someone has looked it up and stored it
    if now.status is None and now.can_status:
        return Status(job)
    if now.status == "gone":
        return Submit(True, "resubmitted", f"job {shown(job)} has failed or is gone")
    adopted = now.found is not ABSENT
    changed = now.changed
    if now.status == "done":
        if changed:
            return Submit(True, "resubmitted", f"job {shown(job)} has succeeded{_because(changed)}")
        return Use(job, "adopted" if adopted else "already_succeeded", "done", f"job {shown(job)} has succeeded")
    reason = f"job {shown(job)} is active" if now.can_status else f"job {shown(job)} was submitted"
    if changed and now.on_changed == "fail":
        return Refuse(
            f"{reason}{_because(changed)}; wait for it, or end it and clear the task, or say on_changed='reattach' or "
            "'resubmit'"
        )
    if changed and now.on_changed == "resubmit":
        return Submit(True, "resubmitted", f"{reason}{_because(changed)}", replaces=job)
    warning = f"{reason} with what it was given then{_because(changed)}; its result is used" if changed else None
    return Use(job, "adopted" if adopted else "reattached", "active", reason, warning)


def _unknown(now: Situation, intent: Intent) -> Step:
    """Decide where an earlier attempt was cut off while submitting and the other system cannot be asked."""
    changed = now.changed
    cut = "an earlier attempt was cut off while submitting"
    unknown = f"{cut}, and there is no find to ask for its job{_because(changed)}"
    if now.on_unknown == "fail" or (changed and now.on_changed == "fail"):
        return Refuse(
            f"{unknown}; look for the job with the token {intent.token}: if it is there, store its id under the key "
            "(milepost task-store set), if not, delete the key (milepost task-store delete); then run the task again"
        )
    if changed and now.on_changed == "resubmit":
        return Submit(True, "resubmitted", cut + _because(changed), f"{unknown}: if it is there, it is left running")
    return Submit(
        False,
        "resubmitted",
        cut,
        f"{unknown}; submitting again with the same token, {intent.token}: two jobs may now run if the service does not "
        "know tokens",
    )


def _because(changed: list[str]) -> str:
    if not changed:
        return ""
    names = [shown(name) for name in changed[:_NAMED]]
    if len(changed) > _NAMED:
        names.append(f"and {len(changed) - _NAMED} more")
    return f", and its parameters have changed ({', '.join(names)})"


def shown(job: Any) -> str:
    """Return the id of a job, or a name, for people: on one line, and shortened."""
    text = repr(job) if not isinstance(job, str) or not job.isprintable() or not job.strip() else job
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def fingerprint(value: Any) -> str:
    """Return 16 letters that stand for a JSON value, type included."""
    return blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def fingerprints(params: Any) -> str | None:
    """Return what is remembered of a job's parameters: a fingerprint of each, by name. Their values are not kept.

    Args:
        params: A JSON value. What is no dict is one parameter named ``params``.

    Returns:
        JSON text; `None` for `None`.

    Raises:
        ValueError: Something in it is no JSON value; the message names the path.
        TypeError: As for ``ValueError``, for types.
    """
    if params is None:
        return None
    canonical(params)  # as a whole first, so that an error names the whole path
    named = params if isinstance(params, dict) else {"params": params}
    return json.dumps({name: fingerprint([value]) for name, value in sorted(named.items())}, separators=(",", ":"))


def _difference(before: str | None, now: str | None) -> list[str]:
    if before is None or now is None or before == now:
        return []
    old, new = json.loads(before), json.loads(now)
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of several words that a caller may give.

    Raises:
        ValueError: It is another.
    """
    if value not in choices:
        raise InvalidValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return str(value)
