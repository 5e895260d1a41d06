"""`ResumableJobMixin`: the same result on every path, with Airflow's names (SPEC 9)."""

# ruff: noqa: D102  (the mixin says what the methods are for)

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import milepost
from milepost import NOT_FOUND, JobConflictError, Store, TaskScope, connect
from milepost.sdk import DAG, BaseOperator, ResumableJobMixin
from tests.support.services import LostError, Service

SCOPE = TaskScope("d", "r", "t")


class Work(ResumableJobMixin, BaseOperator):
    """As an operator for Airflow 3.3 is written."""

    external_id_key = "work_id"

    def __init__(self, *, service: Service, table: str = "orders", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.service = service
        self.table = table
        self.polled: list[Any] = []
        self.cancelled: list[Any] = []

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> Any:
        assert self.submission_token is not None
        return self.service.submit(self.submission_token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return self.service.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "active"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "done"

    def poll_until_complete(self, external_id: Any, context: Any) -> str:
        self.polled.append(external_id)
        return "not the result"

    def get_job_result(self, external_id: Any, context: Any) -> str:
        return f"result of {external_id}"


class Full(Work):
    """With all that Milepost adds."""

    fingerprint_fields = ("table",)
    on_changed = "resubmit"

    def find_job(self, token: str, context: Any) -> Any:
        return self.service.find(token)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.cancelled.append(external_id)


class Slow(Full):
    """The same, asynchronous."""

    async def execute(self, context: Any) -> Any:
        return await self.aexecute_resumable(context)

    async def submit_job(self, context: Any) -> Any:
        await asyncio.sleep(0)
        return super().submit_job(context)

    async def get_job_status(self, external_id: Any, context: Any) -> str:  # type: ignore[override]
        return super().get_job_status(external_id, context)

    async def is_job_active(self, status: str) -> bool:  # type: ignore[override]
        return super().is_job_active(status)

    async def is_job_succeeded(self, status: str) -> bool:  # type: ignore[override]
        return super().is_job_succeeded(status)

    async def find_job(self, token: str, context: Any) -> Any:
        return super().find_job(token, context)

    async def cancel_job(self, external_id: Any, context: Any) -> None:  # type: ignore[override]
        super().cancel_job(external_id, context)

    async def poll_until_complete(self, external_id: Any, context: Any) -> str:  # type: ignore[override]
        return super().poll_until_complete(external_id, context)

    async def get_job_result(self, external_id: Any, context: Any) -> str:  # type: ignore[override]
        return super().get_job_result(external_id, context)


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory."""
    with connect("memory://") as found:
        yield found


@pytest.fixture
def service() -> Service:
    """A service that knows each token once."""
    return Service()


def make(kind: type[Work], service: Service, **arguments: Any) -> Work:
    """Make an operator in a DAG of its own."""
    with DAG("d"):
        return kind(task_id="t", service=service, **arguments)


def attempt(store: Store, number: int) -> dict[str, Any]:
    """Open an attempt and return its context."""
    return store.instances.open(SCOPE, number)


def run(operator: Work, context: Any) -> Any:
    """Run an operator as the runner does."""
    result = operator.execute(context)
    return asyncio.run(_wait(result)) if hasattr(result, "__await__") else result


async def _wait(thing: Any) -> Any:
    return await thing


KINDS = pytest.mark.parametrize("kind", [Work, Full, Slow])


@KINDS
def test_every_path_returns_the_result(store: Store, service: Service, kind: type[Work]) -> None:
    """Fresh, reattached, already succeeded and resubmitted: the result is that of `get_job_result`, polled where needed."""
    results, polled = [], []
    for number, status in ((1, "active"), (2, "active"), (3, "done"), (4, "gone")):
        if "j1" in service.jobs:
            service.jobs["j1"] = status
        operator = make(kind, service)
        results.append(run(operator, attempt(store, number)))
        polled.append(operator.polled)
        assert operator.submission_token is None
    assert results == ["result of j1", "result of j1", "result of j1", "result of j2"]
    assert polled == [["j1"], ["j1"], [], ["j2"]]
    assert store.task_store(SCOPE).get("work_id") == "j2"


def test_a_job_without_an_id_is_waited_for_and_forgotten(
    store: Store, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Where `submit_job` returns `None`, as Airflow allows, the attempt goes on and warns; the next one submits."""

    class Nameless(Work):
        def submit_job(self, context: Any) -> Any:
            job = super().submit_job(context)
            return job if job == "j1" else None

    results, polled = [], []
    for number in (1, 2, 3):
        operator = make(Nameless, service)
        results.append(run(operator, attempt(store, number)))
        polled.append(operator.polled)
        service.jobs["j1"] = "gone"
    assert results == ["result of j1", "result of None", "result of None"]
    assert polled == [["j1"], [None], [None]]
    assert "submit_job returned no id, so that a later attempt cannot know whether there is a job" in caplog.text
    assert store.task_store(SCOPE).keys() == []


@pytest.mark.parametrize("kind", [Full, Slow])
def test_a_job_whose_answer_was_lost_is_found(store: Store, service: Service, kind: type[Work]) -> None:
    """`find_job` finds by token what was cut off; the decision says that it was adopted."""
    service.lose = ["answer"]
    operator = make(kind, service)
    with pytest.raises(LostError):
        run(operator, attempt(store, 1))
    assert operator.submission_token is None
    assert run(make(kind, service), attempt(store, 2)) == "result of j1"
    assert service.asked == 1
    assert list(service.jobs) == ["j1"]


@pytest.mark.parametrize("kind", [Full, Slow])
def test_a_job_with_other_parameters_is_cancelled_and_replaced(
    store: Store, service: Service, kind: type[Work], caplog: pytest.LogCaptureFixture
) -> None:
    """With ``on_changed = "resubmit"`` the job that still runs is cancelled before another is submitted; the log says so."""
    run(make(kind, service), attempt(store, 1))
    caplog.clear()
    operator = make(kind, service, table="customers")
    with caplog.at_level(logging.INFO, "milepost.jobs"):
        assert run(operator, attempt(store, 2)) == "result of j2"
    assert [record.action for record in caplog.records] == ["job_cancelled", "job_resubmitted"]
    assert "key 'work_id': cancelled job j1, which is no longer wanted" in caplog.text
    assert operator.cancelled == ["j1"]
    assert run(make(kind, service, table="customers"), attempt(store, 3)) == "result of j2"


def test_a_job_that_cannot_be_cancelled_is_asked_about_again(
    store: Store, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Where `cancel_job` raises, nothing is submitted and the log says why; once the job is gone, another one is."""

    class Fails(Full):
        def cancel_job(self, external_id: Any, context: Any) -> None:
            raise LostError(external_id)

    run(make(Fails, service), attempt(store, 1))
    with pytest.raises(LostError):
        run(make(Fails, service, table="customers"), attempt(store, 2))
    assert list(service.jobs) == ["j1"]
    assert "LostError while cancelling job j1, which is no longer wanted; nothing was submitted" in caplog.text
    service.jobs["j1"] = "gone"
    assert run(make(Fails, service, table="customers"), attempt(store, 3)) == "result of j2"


def test_a_stale_attempt_cancels_nothing(store: Store, service: Service) -> None:
    """The fence is checked before a job is cancelled: it may be its successor's by now."""
    run(make(Full, service), attempt(store, 1))
    old = attempt(store, 2)
    operator = make(Full, service, table="customers")
    answer = service.status

    def superseded(job: Any) -> str:
        attempt(store, 3)
        return answer(job)

    service.status = superseded  # type: ignore[method-assign]
    with pytest.raises(milepost.StaleAttemptError):
        run(operator, old)
    assert operator.cancelled == []


def test_without_cancel_the_old_job_is_announced(store: Store, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Where the operator cannot cancel, the log says that the old job is left running."""

    class Leaves(Full):
        cancel_job = None

    run(make(Leaves, service), attempt(store, 1))
    with caplog.at_level(logging.WARNING, "milepost.jobs"):
        run(make(Leaves, service, table="customers"), attempt(store, 2))
    assert "job j1 is no longer wanted and is left running" in caplog.text


def test_choices_of_the_class_count(store: Store, service: Service) -> None:
    """``on_unknown = "fail"`` and ``on_changed = "fail"`` fail the attempt and submit nothing."""

    class Careful(Work):
        on_unknown = "fail"
        on_changed = "fail"
        fingerprint_fields = ("table",)

    service.lose = ["answer"]
    with pytest.raises(LostError):
        run(make(Careful, service), attempt(store, 1))
    with pytest.raises(JobConflictError, match="cut off while submitting"):
        run(make(Careful, service), attempt(store, 2))
    store.task_store(SCOPE).set("work_id", "j1")
    assert run(make(Careful, service), attempt(store, 3)) == "result of j1"
    with pytest.raises(JobConflictError, match=r"\(table\)"):
        run(make(Careful, service, table="customers"), attempt(store, 4))


@KINDS
def test_not_durable_submits_each_time(store: Store, service: Service, kind: type[Work]) -> None:
    """``durable=False`` stores nothing and submits at every attempt, under a token that nobody has had."""
    for number in (1, 2):
        assert run(make(kind, service, durable=False), attempt(store, number)) == f"result of j{number}"
    assert store.task_store(SCOPE).keys() == []
    assert store.stats().intents == 0
    assert len({token for token, _ in service.tokens}) == 2


def test_not_durable_counts_for_the_decision_too(store: Store, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """`resume_decision` with ``durable=False`` remembers nothing either, needs no store, and says so in the log."""
    with caplog.at_level(logging.INFO, "milepost.jobs"):
        for context in (attempt(store, 1), attempt(store, 2), {}):
            decision = make(Full, service, durable=False).resume_decision(context)
            assert (decision.action, decision.status, decision.submission) == ("fresh", "active", None)
            assert (decision.token, decision.job_id) == service.tokens[-1]
    assert store.task_store(SCOPE).keys() == []
    assert store.stats().intents == 0
    said = "key 'work_id': submitted job j{}: durable=False, so that no later attempt knows of it"
    assert [record.getMessage() for record in caplog.records] == [
        "d/r/t, " + said.format(1),
        "d/r/t, " + said.format(2),
        said.format(3),
    ]


def test_durable_can_be_a_default_of_the_dag(service: Service) -> None:
    """``default_args`` reach the mixin's argument."""
    with DAG("d", default_args={"durable": False}):
        assert Work(task_id="t", service=service).durable is False
        assert Work(task_id="u", service=service, durable=True).durable is True
    with DAG("d"):
        assert Work(task_id="t", service=service).durable is True
        assert Work(task_id="u", service=service, default_args={"durable": False}).durable is False


def test_defaults_that_come_along_with_the_arguments(service: Service) -> None:
    """An operator of Airflow passes ``default_args`` on: what they say of ``durable`` counts, an argument more."""

    class Airflows:
        def __init__(self, **_: Any) -> None:
            pass

    class Operator(ResumableJobMixin, Airflows):
        submit_job = get_job_status = is_job_active = is_job_succeeded = None  # type: ignore[assignment]
        poll_until_complete = get_job_result = None  # type: ignore[assignment]

    assert [Operator(default_args=given).durable for given in (None, {}, {"durable": False})] == [True, True, False]
    assert Operator(default_args={"durable": False}, durable=True).durable is True


def test_the_decision_without_waiting(store: Store, service: Service) -> None:
    """`resume_decision` submits or finds the job and does not wait, so that an operator can defer."""
    seen = []
    for number, status in ((1, None), (2, "active"), (3, "done"), (4, "gone")):
        if status is not None:
            service.jobs["j1"] = status
        operator = make(Full, service)
        decision = operator.resume_decision(attempt(store, number))
        assert operator.polled == []
        seen.append((decision.action, decision.job_id, decision.status, decision.submission))
    assert seen == [
        ("fresh", "j1", "active", 1),
        ("reattached", "j1", "active", 1),
        ("already_succeeded", "j1", "done", 1),
        ("resubmitted", "j2", "active", 2),
    ]
    service.lose = ["answer"]
    store.instances.clear(SCOPE)
    with pytest.raises(LostError):
        asyncio.run(make(Slow, service).aresume_decision(attempt(store, 5)))
    decision = asyncio.run(make(Slow, service).aresume_decision(attempt(store, 6)))
    assert (decision.action, decision.job_id) == ("adopted", "j3")
    assert decision.token == service.tokens[-1][0]


def test_a_context_without_our_store_is_refused(service: Service) -> None:
    """Without a task store the job could not be remembered: an error says so, and nothing is submitted."""
    for context in ({}, {"task_store": {}}, None):
        with pytest.raises(ValueError, match="durable=False"):
            make(Work, service).execute(context)
    assert service.tokens == []


def test_airflows_longer_name_of_the_store(store: Store, service: Service) -> None:
    """A context that has the store only under Airflow 3.3's name works too."""
    context = {"task_state_store": attempt(store, 1)["task_store"]}
    assert make(Work, service).execute(context) == "result of j1"


def test_mistakes_are_named(store: Store, service: Service) -> None:
    """Odd ``fingerprint_fields``, a method that is missing, and asynchronous methods in a blocking `execute`."""

    class Half(ResumableJobMixin, BaseOperator):
        def execute(self, context: Any) -> Any:
            return self.execute_resumable(context)

    class Mixed(Slow):
        def execute(self, context: Any) -> Any:
            return self.execute_resumable(context)

    fields: list[tuple[Any, Any, type[Exception], str]] = [
        ("table", "orders", TypeError, r"say \('table',\)"),
        (1, "orders", TypeError, "fingerprint_fields takes names of attributes, not int"),
        (("tabel",), "orders", ValueError, "fingerprint_fields has 'tabel', and Odd has no such attribute"),
        ((1,), "orders", ValueError, "fingerprint_fields has 1, and Odd"),
        (("table",), {"orders"}, TypeError, r"fingerprint_fields: .*\['table'\] is a set"),
        (("table",), float("nan"), ValueError, r"fingerprint_fields: .*\['table'\] is nan"),
    ]
    for given, table, error, said in fields:
        odd = type("Odd", (Work,), {"fingerprint_fields": given})
        with pytest.raises(error, match=said):
            make(odd, service, table=table).execute(attempt(store, 1))
    with pytest.raises(TypeError, match="abstract"), DAG("d"):
        Half(task_id="t")
    with pytest.raises(TypeError, match="submit_job is asynchronous"):
        make(Mixed, service).execute(attempt(store, 2))
    assert service.tokens == []


def test_an_asynchronous_method_in_disguise_is_an_error(store: Store, service: Service) -> None:
    """In a blocking `execute`, a plain method that returns a coroutine is refused: nobody would await its answer."""

    async def asynchronous(*_: Any) -> None: ...

    cases = [(name, durable) for name in ("submit_job", "poll_until_complete", "get_job_result") for durable in (1, 0)]
    cases += [(name, 1) for name in ("get_job_status", "is_job_active", "is_job_succeeded")]
    for name, durable in cases:
        if name.endswith(("status", "active", "succeeded")):
            run(make(Work, service), store.instances.open(SCOPE))
            service.jobs = dict.fromkeys(service.jobs, "done")
        disguised = type("Odd", (Work,), {name: lambda *_: asynchronous()})
        operator = make(disguised, service, durable=bool(durable))
        with pytest.raises(TypeError, match=f"{name} is asynchronous"):
            operator.execute(store.instances.open(SCOPE))
        assert operator.submission_token is None
        store.instances.clear(SCOPE)


def test_not_found_is_importable_from_both() -> None:
    """`NOT_FOUND` and the mixin are the same objects in `milepost` and `milepost.sdk`."""
    assert milepost.sdk.NOT_FOUND is NOT_FOUND
    assert milepost.sdk.ResumableJobMixin is milepost.ResumableJobMixin
