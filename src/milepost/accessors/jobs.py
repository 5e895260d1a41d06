"""`submit_once`: runs what `milepost.submission` decides, against a metastore and the user's functions."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from milepost import calls
from milepost.accessors.base import Accessor
from milepost.accessors.telemetry import observed
from milepost.calls import Item, new_version, stored_value
from milepost.errors import (
    InvalidValueError,
    JobConflictError,
    StaleAttemptError,
    UnsupportedTypeError,
    VersionConflictError,
)
from milepost.job_records import OPEN, Intent, JobDecision
from milepost.program import Ask, Program, arun, run
from milepost.scopes import Scope, check_key
from milepost.submission import (
    ABSENT,
    ON_CHANGED,
    ON_UNKNOWN,
    STATUSES,
    Adopt,
    Find,
    Refuse,
    Situation,
    Status,
    Submit,
    Use,
    check_choice,
    fingerprint,
    fingerprints,
    next_step,
    shown,
)

__all__ = ["JobRequest", "aresume", "decide", "open_submission", "resume", "submit_forgotten"]

Function = Callable[[Any], Any]

_TRIES = 20


class JobRequest(NamedTuple):
    """What a job is and how its service is asked.

    Args:
        key: The key of its id.
        submit: Gets the token, returns the id.
        find: Gets the token, returns the id or `NOT_FOUND`.
        status: Gets the id, returns ``active``, ``done`` or ``gone``.
        cancel: Gets the id of a job that is replaced while it runs.
        params: The `fingerprints` of its parameters.
        on_unknown: What to do where an earlier submission's outcome is not known and there is no ``find``.
        on_changed: What to do where the parameters changed while the job runs.
        method: What the names of an operator's methods end in, for messages; a function of a task has no such name.
    """

    key: str
    submit: Function
    find: Function | None = None
    status: Function | None = None
    cancel: Function | None = None
    params: str | None = None
    on_unknown: str = "resubmit"
    on_changed: str = "reattach"
    method: str = ""

    @classmethod
    def checked(
        cls,
        key: str,
        submit: Function,
        *,
        params: Any,
        find: Function | None,
        status: Function | None,
        on_unknown: str,
        on_changed: str,
        cancel: Function | None = None,
        method: str = "",
    ) -> JobRequest:
        """Return a request whose parts are what they must be.

        Raises:
            TypeError: A function is none, or the key or a parameter is of a type that cannot be stored.
            ValueError: A choice is none of those there are, or the key or a parameter cannot be stored.
        """
        if not callable(submit):
            raise UnsupportedTypeError(f"submit takes a function, not {type(submit).__name__}")
        for name, function in (("find", find), ("status", status), ("cancel", cancel)):
            if function is not None and not callable(function):
                raise UnsupportedTypeError(f"{name} takes a function or None, not {type(function).__name__}")
        try:
            compared = fingerprints(params)
        except (ValueError, TypeError) as error:
            kind = UnsupportedTypeError if isinstance(error, TypeError) else InvalidValueError
            raise kind(f"{'fingerprint_fields' if method else 'params'}: {error}") from error
        return cls(
            check_key(key),
            submit,
            find,
            status,
            cancel,
            compared,
            check_choice("on_unknown", on_unknown, ON_UNKNOWN),
            check_choice("on_changed", on_changed, ON_CHANGED),
            method,
        )


def resume(accessor: Accessor, request: JobRequest) -> JobDecision:
    """Submit the job, or find that it is there already.

    Raises:
        JobConflictError: Nothing may be submitted before a person has looked.
        StaleAttemptError: This attempt is no longer the current one.
    """
    for name, function in (("submit", request.submit), ("find", request.find), ("status", request.status)):
        if inspect.iscoroutinefunction(function):
            raise UnsupportedTypeError(f"{name} is asynchronous; that takes the call whose name begins with 'a'")
    return run(accessor._metastore, decide(accessor, request))


async def aresume(accessor: Accessor, request: JobRequest) -> JobDecision:
    """As `resume`; the functions may be asynchronous."""
    return await arun(accessor._metastore, decide(accessor, request))


def open_submission(accessor: Accessor, key: str) -> Intent | None:
    """Return the submission under a key of which nobody knows yet whether its job exists, if there is one.

    Raises:
        DamagedEntryError: Someone damaged what is recorded of it.
    """
    intent, _ = accessor._metastore.call(calls.ReadIntent(accessor._handle, check_key(key)))
    return intent if intent is not None and intent.state == OPEN else None


def decide(accessor: Accessor, request: JobRequest) -> Program[JobDecision]:
    """Return the program of `resume`."""
    return observed(_Job(accessor, request).work(), accessor.scope, request.key)


def submit_forgotten(request: JobRequest, scope: Scope | None) -> Program[JobDecision]:
    """Return a program that submits a job which nothing remembers, under a token that nobody has had."""
    return observed(_forgotten(request, scope), scope, request.key)


def _forgotten(request: JobRequest, scope: Scope | None) -> Program[JobDecision]:
    token = f"mp-{os.urandom(16).hex()}"
    job = yield Ask("submit_job", request.submit, token)
    reason = "durable=False, so that no later attempt knows of it"
    where = f"{scope}, " if scope is not None else ""
    said = f"{where}key {request.key!r}: submitted job {shown(job)}: {reason}"
    _logger().info("%s", said, extra={"action": "job_fresh"})
    return JobDecision("fresh", job, "active", reason, token=token)


class _Job:
    """One call of `submit_once`."""

    def __init__(self, accessor: Accessor, request: JobRequest) -> None:
        self.accessor = accessor
        self.handle = accessor._handle
        self.request = request

    def work(self) -> Program[JobDecision]:
        """Look, decide, do."""
        for _ in range(_TRIES):
            decision = yield from self._try()
            if decision is not None:
                return decision
        raise VersionConflictError(f"{self._where}: met another call on that key {_TRIES} times; giving up")

    def _try(self) -> Program[JobDecision | None]:
        """Do it once; `None`: another call on the key came in between, and nothing was submitted."""
        request = self.request
        intent, stored = yield calls.ReadIntent(self.handle, request.key)
        now = Situation(
            intent=intent,
            job=ABSENT if stored is None else stored_value(request.key, *stored),
            params=request.params,
            can_find=request.find is not None,
            can_status=request.status is not None,
            on_unknown=request.on_unknown,
            on_changed=request.on_changed,
        )
        while True:
            step = next_step(now)
            if isinstance(step, Find):
                now = replace(now, found=self._found((yield Ask(self._find, request.find or _never, step.token))))
            elif isinstance(step, Status):
                now = replace(now, status=self._status((yield Ask("status", request.status or _never, step.job))))
            elif isinstance(step, Adopt):
                assert now.intent is not None
                try:
                    kept = yield self._keep(self._item(step.job, self._find), step.job, now.intent, adopted=True)
                except VersionConflictError:
                    return None
                now = replace(now, intent=kept, job=step.job)
            elif isinstance(step, Use):
                self._log(step.warning)
                return self._decided(step.action, step.job, step.status, step.reason, now.intent)
            elif isinstance(step, Refuse):
                raise JobConflictError(f"{self._where}: {step.reason}; nothing was submitted")
            else:
                return (yield from self._submit(step, now.intent))

    def _submit(self, step: Submit, intent: Intent | None) -> Program[JobDecision | None]:
        request, handle = self.request, self.handle
        if step.replaces is not ABSENT:
            yield from self._cancel(step.replaces)
        expected = None if intent is None else intent.version
        try:
            intent = yield calls.Intend(handle, request.key, new_version(), expected, step.new, request.params)
        except VersionConflictError:
            return None
        self._log(step.warning)
        # The transaction before this line has checked the fence: nothing may come between the two.
        job: Any = ABSENT
        try:
            job = yield Ask(self._submits, request.submit, intent.token)
            if job is None and request.method:  # an operator's, which may do without: so it is in Airflow
                self._log(f"{self._submits} returned no id, so that a later attempt cannot know whether there is a job")
                return self._decided(step.action, job, "active", step.reason, intent, submitted=True)
            intent = yield self._keep(self._item(job, self._submits), job, intent)
        except GeneratorExit:
            raise  # nobody waits for the end of this call any more
        except BaseException as error:
            self._log(self._left_open(job, error))
            raise
        return self._decided(step.action, job, "active", step.reason, intent, submitted=True)

    def _cancel(self, job: Any) -> Program[None]:
        """End a job that another one replaces; if that raises, nothing is submitted."""
        cancel = self.request.cancel
        if cancel is None:
            self._log(f"job {shown(job)} is no longer wanted and is left running: nothing here can end it")
            return
        yield calls.Check(self.handle)
        try:
            yield Ask("cancel_job", cancel, job)
        except BaseException as error:
            self._log(
                f"{type(error).__name__} while cancelling job {shown(job)}, which is no longer wanted; nothing was "
                "submitted, and the next attempt asks how it stands"
            )
            raise
        said = f"cancelled job {shown(job)}, which is no longer wanted"
        _logger().info("%s: %s", self._where, said, extra={"action": "job_cancelled"})

    def _keep(self, item: Item, job: Any, intent: Intent, *, adopted: bool = False) -> calls.KeepJob:
        return calls.KeepJob(self.handle, item, fingerprint(job), intent.version, adopted)

    def _item(self, job: Any, source: str) -> Item:
        if job is None:
            raise InvalidValueError(f"{source} returned None; it has to return the id of the job")
        try:
            return self.accessor._item(self.request.key, job)
        except (ValueError, TypeError) as error:
            kind = UnsupportedTypeError if isinstance(error, TypeError) else InvalidValueError
            raise kind(f"{source} returned an id that cannot be stored: {error}") from error

    def _found(self, found: Any) -> Any:
        # No service calls a job so: they are answers to "is there one?" and to "which ones?".
        if found is None or isinstance(found, bool) or (isinstance(found, list | dict) and not found):
            raise InvalidValueError(
                f"{self._find} returned {found!r}; it has to return the id of the job, or milepost.NOT_FOUND"
            )
        return found

    def _status(self, status: Any) -> str:
        if not isinstance(status, str) or status not in STATUSES:
            raise InvalidValueError(f"status returned {status!r}; it has to return one of {', '.join(map(repr, STATUSES))}")
        return str(status)

    # -- what people read -----------------------------------------------------------------------------------------

    @property
    def _find(self) -> str:
        return f"find{self.request.method}"

    @property
    def _submits(self) -> str:
        return f"submit{self.request.method}"

    @property
    def _where(self) -> str:
        return f"{self.handle.scope}, key {self.request.key!r}"

    def _left_open(self, job: Any, error: BaseException) -> str:
        """Say what an interrupted submission means for the next attempt."""
        if job is not ABSENT:
            what = f"job {shown(job)} was submitted, and its id could not be stored"
        else:
            what = "whether the job was submitted is not known"
        if isinstance(error, VersionConflictError) and job is not ABSENT:
            return f"{what} by this call: another call on that key has taken over, under the same token"
        if self.request.find is not None:
            then = f"asks {self._find} for it"
        elif self.request.on_unknown == "fail":
            then = "fails until a person has looked (on_unknown='fail')"
        else:
            then = "submits it again with the same token"
        if isinstance(error, StaleAttemptError):
            then += "; if the task was cleared, it submits another job, and nobody waits for this one"
        return f"{type(error).__name__} while submitting: {what}; the next attempt {then}"

    def _log(self, warning: str | None) -> None:
        if warning is not None:
            _logger().warning("%s: %s", self._where, warning, extra={"action": "job_warning"})

    def _decided(
        self,
        action: Any,
        job: Any,
        status: Any,
        reason: str,
        intent: Intent | None,
        *,
        submitted: bool = False,
    ) -> JobDecision:
        number, token = (None, None) if intent is None else (intent.submission, intent.token)
        if submitted:
            said = f"submitted job {shown(job)} (submission {number}): {reason}"
        else:
            said = f"nothing to submit, {_FOUND if action == 'adopted' else ''}{reason}"
        _logger().info("%s: %s", self._where, said, extra={"action": f"job_{action}"})
        return JobDecision(action, job, status, reason, number, token)


_FOUND = "an earlier attempt was cut off while submitting and its job was found by its token: "


def _never(_: Any) -> Any:  # pragma: no cover - steps ask only what there is
    raise AssertionError


def _logger() -> Any:
    import logging  # not cheap to load

    return logging.getLogger("milepost.jobs")
