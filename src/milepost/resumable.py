"""`ResumableJobMixin`: operators that submit one job to another system and wait for it."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from milepost.accessors import TaskStoreAccessor
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.job_records import JobDecision
from milepost.program import Ask, Program, arun, run

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
      If it raises, nothing is submitted, and the next attempt asks again how the job stands.

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
    fingerprint_fields: Collection[str] = ()
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Airflow's metaclass fills in `default_args` for an `__init__` of a class's own, and relies on having done so.
        operators = [one for one in cls.__mro__ if hasattr(type(one), "_apply_defaults")]
        if not operators:
            return
        if cls.__mro__.index(operators[-1]) < cls.__mro__.index(ResumableJobMixin):
            raise UnsupportedTypeError(
                f"{cls.__name__} names {operators[-1].__name__} before the mixin; the mixin comes first: "
                f"class {cls.__name__}(ResumableJobMixin, {operators[-1].__name__})"
            )
        if not hasattr(inherited := cls.__init__, "__wrapped__") and "__init__" not in cls.__dict__:

            @functools.wraps(inherited)
            def own(self: Any, **kwargs: Any) -> None:
                inherited(self, **kwargs)

            cls.__init__ = own  # type: ignore[method-assign]

    @abstractmethod
    def submit_job(self, context: Any) -> Any:
        """Submit the job and return its id, any value that can be stored; `submission_token` is set.

        With `None`, as in Airflow, the job is waited for by this attempt, and no later one knows of it.
        """

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

        For operators that wait in a way of their own, or defer. With ``durable=False`` a job is submitted each time.

        Args:
            context: The task's context.

        Returns:
            What was decided; ``job_id`` is the job, ``status`` whether it still has to be waited for.

        Raises:
            JobConflictError: As in `TaskStoreAccessor.submit_once`, like all else.
        """
        work = _Work(self, context, run)
        return run(work.metastore, work.decide())

    async def aresume_decision(self, context: Any) -> JobDecision:
        """As `resume_decision`; the methods may be asynchronous."""
        work = _Work(self, context, arun)
        return await arun(work.metastore, work.decide())

    def execute_resumable(self, context: Any) -> Any:
        """Submit the job unless it is there already, wait for it, and return its result. ``execute`` calls this.

        Args:
            context: The task's context.

        Returns:
            What `get_job_result` returns, on every path.
        """
        work = _Work(self, context, run)
        return run(work.metastore, work.execute())

    async def aexecute_resumable(self, context: Any) -> Any:
        """As `execute_resumable`; the methods may be asynchronous."""
        work = _Work(self, context, arun)
        return await arun(work.metastore, work.execute())


class _Work:
    """One call of an operator's. It is no part of the mixin, whose private names could meet those of an operator.

    Args:
        operator: The operator.
        context: The task's context.
        runs: `run` or `arun`: runs programs of the operator's methods.
    """

    def __init__(self, operator: ResumableJobMixin, context: Any, runs: Any) -> None:
        self.operator = operator
        self.context = context
        self.runs = runs
        if runs is run:
            import inspect

            for name in _METHODS:
                if inspect.iscoroutinefunction(getattr(operator, name)):
                    raise UnsupportedTypeError(
                        f"{name} is asynchronous: execute has to be too, and to await aexecute_resumable"
                    )
        self.store = _task_store(context)
        if self.store is None and operator.durable:
            raise InvalidValueError(
                "the context has no task_store of Milepost, so the job could not be remembered; run the operator under "
                "Milepost, or make it with durable=False"
            )
        self.metastore = None if self.store is None else self.store._metastore

    def execute(self) -> Program[Any]:
        """Decide, wait, and fetch the result."""
        decision = yield from self.decide()
        if decision.status == "active":
            yield self._ask("poll_until_complete", decision.job_id)
        return (yield self._ask("get_job_result", decision.job_id))

    def decide(self) -> Program[JobDecision]:
        """Submit the job, or find that it is there already."""
        from milepost.accessors.jobs import decide, submit_forgotten  # few processes need it, and all would pay for it

        request = self._request()
        if self.store is None or not self.operator.durable:
            return (yield from submit_forgotten(request, None if self.store is None else self.store.scope))
        return (yield from decide(self.store, request))

    def _ask(self, method: str, argument: Any) -> Ask:
        function = getattr(self.operator, method)
        return Ask(method, lambda given: function(given, self.context), argument)

    def _submit(self, token: str) -> Program[Any]:
        operator = self.operator
        operator.submission_token = token
        try:
            return (yield Ask("submit_job", operator.submit_job, self.context))
        finally:
            operator.submission_token = None

    def _status(self, job: Any) -> Program[str]:
        operator = self.operator
        status = yield self._ask("get_job_status", job)
        if (yield Ask("is_job_active", operator.is_job_active, status)):
            return "active"
        return "done" if (yield Ask("is_job_succeeded", operator.is_job_succeeded, status)) else "gone"

    def _request(self) -> JobRequest:
        from milepost.accessors.jobs import JobRequest

        operator = self.operator
        return JobRequest.checked(
            operator.external_id_key,
            lambda token: self.runs(None, self._submit(token)),
            params=_fingerprinted(operator),
            find=None if operator.find_job is None else self._ask("find_job", None).function,
            status=lambda job: self.runs(None, self._status(job)),
            cancel=None if operator.cancel_job is None else self._ask("cancel_job", None).function,
            on_unknown=operator.on_unknown,
            on_changed=operator.on_changed,
            method="_job",
        )


_METHODS = (
    "submit_job",
    "get_job_status",
    "is_job_active",
    "is_job_succeeded",
    "find_job",
    "cancel_job",
    "poll_until_complete",
    "get_job_result",
)


def _fingerprinted(operator: ResumableJobMixin) -> dict[str, Any] | None:
    fields: Any = operator.fingerprint_fields
    if isinstance(fields, str):
        raise UnsupportedTypeError(f"fingerprint_fields takes several names, not one str; say ({fields!r},)")
    if fields is None:
        return None
    if not isinstance(fields, Collection):
        raise UnsupportedTypeError(f"fingerprint_fields takes names of attributes, not {type(fields).__name__}")
    for name in fields:
        if not isinstance(name, str) or not hasattr(operator, name):
            raise InvalidValueError(f"fingerprint_fields has {name!r}, and {type(operator).__name__} has no such attribute")
    return {name: getattr(operator, name) for name in fields} or None


def _task_store(context: Any) -> TaskStoreAccessor | None:
    for name in ("task_store", "task_state_store"):
        store = context.get(name) if isinstance(context, Mapping) else None
        if isinstance(store, TaskStoreAccessor):
            return store
    return None
