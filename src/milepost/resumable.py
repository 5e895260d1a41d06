"""`ResumableJobMixin`: operators that submit one job to another system and wait for it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from milepost.accessors import TaskStoreAccessor
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.job_records import JobDecision

if TYPE_CHECKING:
    from milepost.accessors.jobs import JobRequest

__all__ = ["ResumableJobMixin"]


class ResumableJobMixin(ABC):
    """Makes an operator submit its job once, however often it is tried again.

    The names are those of Airflow 3.3's mixin, so that an operator written for it works. ``execute`` returns what
    `execute_resumable` returns; the methods say how the other system is asked. Any of them may be asynchronous where
    ``execute`` is and awaits `aexecute_resumable`. `TaskStoreAccessor.submit_once` says what happens when.

    Optional, beyond Airflow's:

    * ``find_job(self, token, context)`` returns the id of the job that was submitted with a token, or `NOT_FOUND`. It
      closes the gap between a submission and its record where the service does not know each token once.
    * ``cancel_job(self, external_id, context)`` ends a job that is replaced while it runs (``on_changed = "resubmit"``).

    Args:
        durable: Whether to remember the job, by default `True`; `False` submits one at every attempt.
        kwargs: The operator's arguments.

    Attributes:
        external_id_key: The key under which the id is stored.
        fingerprint_fields: Names of the operator's attributes that the job depends on; they are compared between attempts.
        on_unknown: ``resubmit`` or ``fail``, as in `TaskStoreAccessor.submit_once`.
        on_changed: ``reattach``, ``fail`` or ``resubmit``, as there.
        submission_token: Inside `submit_job`: the token of the submission, to be given to a service that knows each token
            once, or to tag the job with. Elsewhere `None`.

    .. versionadded:: 0.1
    """

    external_id_key: str = "remote_job_id"
    fingerprint_fields: Sequence[str] = ()
    on_unknown: str = "resubmit"
    on_changed: str = "reattach"
    submission_token: str | None = None
    find_job: ClassVar[Any] = None
    cancel_job: ClassVar[Any] = None

    def __init__(self, *, durable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if durable is None:
            # Airflow's own operators get `default_args` along with their arguments, and nobody has looked into them for us.
            durable = (kwargs.get("default_args") or {}).get("durable", True)
        self.durable = durable

    @abstractmethod
    def submit_job(self, context: Any) -> Any:
        """Submit the job and return its id, any value that can be stored; `submission_token` is set."""

    @abstractmethod
    def get_job_status(self, external_id: Any, context: Any) -> Any:
        """Return how the job stands, in the other system's words. Raise if it cannot be asked; nothing is submitted."""

    @abstractmethod
    def is_job_active(self, status: Any) -> bool:
        """Tell whether a job with this status is still to end."""

    @abstractmethod
    def is_job_succeeded(self, status: Any) -> bool:
        """Tell whether a job with this status has succeeded. Neither active nor succeeded: it has failed or is gone."""

    @abstractmethod
    def poll_until_complete(self, external_id: Any, context: Any) -> Any:
        """Wait until the job has ended; raise if it failed."""

    @abstractmethod
    def get_job_result(self, external_id: Any, context: Any) -> Any:
        """Return the result of a job that has succeeded."""

    def resume_decision(self, context: Any) -> JobDecision:
        """Submit the job, or find that it is there already, and do not wait for it.

        For operators that wait in a way of their own, or defer.

        Args:
            context: The task's context.

        Returns:
            What was decided; ``job_id`` is the job, ``status`` whether it still has to be waited for.

        Raises:
            JobConflictError: As in `TaskStoreAccessor.submit_once`, like all else.
        """
        from milepost.accessors.jobs import resume  # few processes need it, and all would pay for it

        self._refuse_asynchronous()
        return resume(_task_store(context), self._request(context, self._status))

    async def aresume_decision(self, context: Any) -> JobDecision:
        """As `resume_decision`; the methods may be asynchronous."""
        from milepost.accessors.jobs import aresume

        return await aresume(_task_store(context), self._request(context, self._astatus))

    def execute_resumable(self, context: Any) -> Any:
        """Submit the job unless it is there already, wait for it, and return its result. ``execute`` calls this.

        Args:
            context: The task's context.

        Returns:
            What `get_job_result` returns, on every path.
        """
        self._refuse_asynchronous()
        if not self.durable:
            job = self._submit(_random_token(), context)
        else:
            decision = self.resume_decision(context)
            job = decision.job_id
            if decision.status == "done":
                return self.get_job_result(job, context)
        self.poll_until_complete(job, context)
        return self.get_job_result(job, context)

    async def aexecute_resumable(self, context: Any) -> Any:
        """As `execute_resumable`; the methods may be asynchronous."""
        if not self.durable:
            job = await _value(self._submit(_random_token(), context))
        else:
            decision = await self.aresume_decision(context)
            job = decision.job_id
            if decision.status == "done":
                return await _value(self.get_job_result(job, context))
        await _value(self.poll_until_complete(job, context))
        return await _value(self.get_job_result(job, context))

    # -- how the core asks ------------------------------------------------------------------------------------------

    def _refuse_asynchronous(self) -> None:
        import inspect

        for name in _METHODS:
            if inspect.iscoroutinefunction(getattr(self, name)):
                raise UnsupportedTypeError(f"{name} is asynchronous: execute has to be too, and to await aexecute_resumable")

    def _request(self, context: Any, status: Any) -> JobRequest:
        from milepost.accessors.jobs import JobRequest

        find, cancel = self.find_job, self.cancel_job
        fields = self.fingerprint_fields
        if isinstance(fields, str):
            raise UnsupportedTypeError(f"fingerprint_fields takes several names, not one str; say ({fields!r},)")
        return JobRequest.checked(
            self.external_id_key,
            lambda token: self._submit(token, context),
            params={name: getattr(self, name) for name in fields} if fields else None,
            find=None if find is None else lambda token: find(token, context),
            status=lambda job: status(job, context),
            cancel=None if cancel is None else lambda job: cancel(job, context),
            on_unknown=self.on_unknown,
            on_changed=self.on_changed,
        )

    def _submit(self, token: str, context: Any) -> Any:
        self.submission_token = token
        try:
            job = self.submit_job(context)
        except BaseException:
            self.submission_token = None
            raise
        if hasattr(job, "__await__"):
            return self._submitted(job)
        self.submission_token = None
        return job

    async def _submitted(self, job: Any) -> Any:
        try:
            return await job
        finally:
            self.submission_token = None

    def _status(self, job: Any, context: Any) -> Any:
        status = self.get_job_status(job, context)
        return status if hasattr(status, "__await__") else self._meaning(status)

    async def _astatus(self, job: Any, context: Any) -> str:
        return self._meaning(await _value(self.get_job_status(job, context)))

    def _meaning(self, status: Any) -> str:
        if self.is_job_active(status):
            return "active"
        return "done" if self.is_job_succeeded(status) else "gone"


_METHODS = ("submit_job", "get_job_status", "find_job", "cancel_job", "poll_until_complete", "get_job_result")


async def _value(thing: Any) -> Any:
    return await thing if hasattr(thing, "__await__") else thing


def _random_token() -> str:
    return f"mp-{os.urandom(16).hex()}"


def _task_store(context: Any) -> TaskStoreAccessor:
    for name in ("task_store", "task_state_store"):
        store = context.get(name) if isinstance(context, Mapping) else None
        if isinstance(store, TaskStoreAccessor):
            return store
    raise InvalidValueError(
        "the context has no task_store of Milepost, so the job could not be remembered; run the operator under Milepost, "
        "or make it with durable=False"
    )
