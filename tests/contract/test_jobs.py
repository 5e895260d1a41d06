"""External jobs: `submit_once` against a service that knows each token once, and against others (SPEC 9)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from milepost import (
    NOT_FOUND,
    DamagedEntryError,
    InvalidValueError,
    JobConflictError,
    UnsupportedTypeError,
    Writer,
)
from tests.contract.conftest import SCOPE, as_writer, real, sql
from tests.contract.jobs import VARIANTS, attempt
from tests.support.services import LostError, Service

__all__ = ["VARIANTS"]

ADOPTED = "nothing to submit, an earlier attempt was cut off while submitting and its job was found by its token: "


def test_the_first_attempt_submits_and_later_ones_find_it(store: Any, service: Service) -> None:
    """The id is an ordinary entry that never expires; retries get it back while the job is active, and when it is done."""
    task = attempt(store, 1)
    assert task.submit_once("job", service.submit, status=service.status) == "j1"
    assert task.get("job") == "j1"
    assert task.entry("job").never_expires
    assert attempt(store, 2).submit_once("job", service.submit, status=service.status) == "j1"
    service.jobs["j1"] = "done"
    assert attempt(store, 3).submit_once("job", service.submit, status=service.status) == "j1"
    assert service.jobs == {"j1": "done"}


def test_without_status_a_job_is_active(store: Any, service: Service) -> None:
    """Where nobody can be asked, the stored id is used."""
    attempt(store, 1).submit_once("job", service.submit)
    service.jobs["j1"] = "gone"
    assert attempt(store, 2).submit_once("job", service.submit) == "j1"


def test_falsy_ids_are_ids(store: Any) -> None:
    """S-01: an id that is 0 or empty is an id; it comes back with its type and is not submitted again."""
    calls: list[Any] = []
    for job in (0, "", False, 0.0, [], {}, 2**70, {"pid": 1, "started": "é"}):
        for number in (1, 2):
            task = attempt(store, number)
            got = task.submit_once(repr(job), lambda _, job=job: calls.append(job) or job, status=lambda _: "active")
            assert got == job
            assert type(got) is type(job)
        store.instances.delete_run("dag", "run")
    assert len(calls) == 8


def test_a_job_that_is_gone_is_submitted_anew_under_a_new_token(store: Any, service: Service) -> None:
    """A service that knows each token once must not hand back the job that failed."""
    attempt(store, 1).submit_once("job", service.submit, status=service.status)
    for number in (2, 3):
        service.jobs[f"j{number - 1}"] = "gone"
        assert attempt(store, number).submit_once("job", service.submit, status=service.status) == f"j{number}"
    assert attempt(store, 4).submit_once("job", service.submit, status=service.status) == "j3"
    assert len({token for token, _ in service.tokens}) == 3


def test_an_id_that_a_person_stored_is_taken(store: Any, service: Service) -> None:
    """After a cut-off submission, a person may look the job up and store its id: that decides."""
    service.lose.append("answer")
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, on_unknown="fail")
    with pytest.raises(JobConflictError, match=r"look for the job with the token mp-[0-9a-f]{32}.*nothing was submitted"):
        attempt(store, 2).submit_once("job", service.submit, on_unknown="fail")
    as_writer(store, Writer("cli")).task_store(SCOPE).set("job", "j1")
    task = attempt(store, 3)
    assert task.submit_once("job", service.submit, status=service.status, on_unknown="fail") == "j1"
    assert task.entry("job").never_expires
    assert list(service.jobs) == ["j1"]


@pytest.mark.parametrize("fault", ["request", "answer"])
@pytest.mark.parametrize("finds", [True, False])
def test_a_cut_off_submission_never_makes_two_jobs(store: Any, service: Service, fault: str, finds: bool) -> None:
    """With a service that knows each token once there is one job, whatever was lost and whether it can be searched."""
    find = service.find if finds else None
    service.lose = [fault, fault]
    for number in (1, 2):
        if finds and fault == "answer" and number == 2:
            service.lose.clear()
            break
        with pytest.raises(LostError):
            attempt(store, number).submit_once("job", service.submit, find=find)
    assert attempt(store, 3).submit_once("job", service.submit, find=find, status=service.status) == "j1"
    assert attempt(store, 4).submit_once("job", service.submit, find=find, status=service.status) == "j1"
    assert list(service.jobs) == ["j1"]


def test_a_service_that_can_be_searched_needs_no_tokens(store: Any) -> None:
    """A job that is found by its token is adopted; one that is not there is submitted under the same token."""
    service = Service(deduplicates=False)
    service.lose = ["request"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, find=service.find)
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 2).submit_once("job", service.submit, find=service.find)
    assert attempt(store, 3).submit_once("job", service.submit, find=service.find) == "j1"
    assert attempt(store, 3).get("job") == "j1"
    assert list(service.jobs) == ["j1"]


def test_with_neither_a_second_job_is_announced(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A service that knows no tokens and cannot be searched gets a second request, with a warning before it."""
    service = Service(deduplicates=False)
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit)
    with caplog.at_level(logging.WARNING, "milepost.jobs"):
        assert attempt(store, 2).submit_once("job", service.submit) == "j2"
    assert "two jobs may now run" in caplog.text


def test_a_lookup_that_fails_submits_nothing(store: Any, service: Service) -> None:
    """An error of ``find`` or ``status`` ends the attempt; the next one asks again."""
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, find=service.find)
    service.lose = ["find"]
    with pytest.raises(LostError):
        attempt(store, 2).submit_once("job", service.submit, find=service.find)

    def broken(_: Any) -> str:
        raise LostError("status")

    with pytest.raises(LostError, match="status"):
        attempt(store, 3).submit_once("job", service.submit, find=service.find, status=broken)
    assert attempt(store, 4).submit_once("job", service.submit, find=service.find, status=service.status) == "j1"
    assert list(service.jobs) == ["j1"]


def test_an_adopted_job_that_is_gone_is_replaced(store: Any, service: Service) -> None:
    """Adopting by token is not the last word: the job's status is asked like any other's."""
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, find=service.find)
    service.jobs["j1"] = "gone"
    assert attempt(store, 2).submit_once("job", service.submit, find=service.find, status=service.status) == "j2"


@pytest.mark.parametrize("given", [None, "actve", 1, True, ["active"]])
def test_a_status_that_is_none_is_refused(store: Any, service: Service, given: Any) -> None:
    """``status`` answers one of three words; anything else is an error that names them."""
    attempt(store, 1).submit_once("job", service.submit)
    with pytest.raises(InvalidValueError, match=r"status returned .*'active', 'done', 'gone'"):
        attempt(store, 2).submit_once("job", service.submit, status=lambda _: given)


def test_answers_that_are_none(store: Any, service: Service) -> None:
    """What says neither which job nor that there is none is refused, and an id must be storable; the question stays open."""
    with pytest.raises(InvalidValueError, match="submit returned None"):
        attempt(store, 1).submit_once("job", lambda _: None)
    with pytest.raises(UnsupportedTypeError, match=r"submit returned an id that cannot be stored: .*list"):
        attempt(store, 2).submit_once("job", lambda _: (1, 2))
    with pytest.raises(InvalidValueError, match=r"find returned None.*NOT_FOUND"):
        attempt(store, 3).submit_once("job", service.submit, find=lambda _: None)
    for answer in (False, [], {}):
        with pytest.raises(InvalidValueError, match=r"find returned .*NOT_FOUND"):
            attempt(store, 3).submit_once("job", service.submit, find=lambda _, answer=answer: answer)
    with pytest.raises(InvalidValueError, match="find returned an id that cannot be stored"):
        attempt(store, 4).submit_once("job", service.submit, find=lambda _: float("nan"))
    with pytest.raises(JobConflictError):
        attempt(store, 5).submit_once("job", service.submit, on_unknown="fail")
    assert attempt(store, 6).submit_once("job", service.submit, find=lambda _: NOT_FOUND) == "j1"


def test_bad_arguments_are_refused_before_anything_is_stored(store: Any, service: Service) -> None:
    """A wrong argument is one clear error; no job is submitted and no intent is recorded."""
    task = attempt(store, 1)
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"submit": "x"}, TypeError, "submit takes a function"),
        ({"find": 1}, TypeError, "find takes a function"),
        ({"status": "active"}, TypeError, "status takes a function"),
        ({"on_unknown": "retry"}, ValueError, "'resubmit', 'fail'"),
        ({"on_changed": None}, ValueError, "'reattach', 'fail', 'resubmit'"),
        ({"params": {"at": (1,)}}, TypeError, r"params: .*\['at'\]"),
        ({"params": {"x": float("nan")}}, ValueError, "x"),
        ({"key": ""}, ValueError, "empty"),
    ]
    for arguments, error, said in cases:
        with pytest.raises(error, match=said):
            task.submit_once(**{"key": "job", "submit": service.submit, **arguments})
    assert service.tokens == []
    assert store.stats().intents == 0


def test_changed_parameters(store: Any, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """While the job is active, ``on_changed`` decides; the warning names what changed and never its value."""
    old, new = {"sql": "SELECT 1", "day": 1}, {"sql": "SELECT secret", "day": 1, "n": None}
    once = {"submit": service.submit, "status": service.status}
    attempt(store, 1).submit_once("job", params=old, **once)
    with caplog.at_level(logging.WARNING, "milepost.jobs"):
        assert attempt(store, 2).submit_once("job", params=new, **once) == "j1"
    assert "parameters have changed (n, sql)" in caplog.text
    assert "secret" not in caplog.text
    with pytest.raises(JobConflictError, match=r"job j1 is active, and its parameters have changed \(n, sql\)"):
        attempt(store, 3).submit_once("job", params=new, on_changed="fail", **once)
    assert attempt(store, 4).submit_once("job", params=new, on_changed="resubmit", **once) == "j2"
    caplog.clear()
    assert attempt(store, 5).submit_once("job", params=dict(reversed(new.items())), on_changed="fail", **once) == "j2"
    assert caplog.text == ""


def test_changed_parameters_of_a_job_that_has_ended(store: Any, service: Service) -> None:
    """A job that is done with other parameters is not the one that is wanted: a new one is submitted."""
    attempt(store, 1).submit_once("job", service.submit, params=[1], status=service.status)
    service.jobs["j1"] = "done"
    assert attempt(store, 2).submit_once("job", service.submit, params=[1], status=service.status) == "j1"
    assert attempt(store, 3).submit_once("job", service.submit, status=service.status) == "j1"
    again = attempt(store, 4).submit_once("job", service.submit, params=[1.0], on_changed="fail", status=service.status)
    assert again == "j2"


@pytest.mark.parametrize(("on_changed", "expected"), [("reattach", "j1"), ("resubmit", "j2"), ("fail", None)])
def test_changed_parameters_of_a_job_that_may_exist(
    store: Any, service: Service, on_changed: Any, expected: str | None
) -> None:
    """Where a submission was cut off, the same choice holds: the same token, another, or nothing."""
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, params={"a": 1})
    task = attempt(store, 2)
    if expected is None:
        with pytest.raises(JobConflictError, match=r"\(a\)"):
            task.submit_once("job", service.submit, params={"a": 2}, on_changed=on_changed)
        expected = "j1"
        task.submit_once("job", service.submit, params={"a": 1}, on_changed=on_changed)
    assert (
        task.submit_once("job", service.submit, params={"a": 2}, on_changed=on_changed.replace("fail", "reattach"))
        == expected
    )


def test_changed_parameters_of_a_job_that_is_not_there(store: Any, service: Service) -> None:
    """What ``find`` does not know is not active, so it is another job, under another token."""
    service.lose = ["request"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit, params={"a": 1}, find=service.find)
    tokens: list[str] = []

    def submit(token: str) -> str:
        tokens.append(token)
        return service.submit(token)

    attempt(store, 2).submit_once("job", submit, params={"a": 2}, find=service.find, on_changed="fail")
    assert service.find(tokens[0]) == "j1"
    store.instances.clear(SCOPE)
    attempt(store, 3).submit_once("job", submit, params={"a": 2}, find=service.find)
    assert len(set(tokens)) == 2


def test_several_jobs_of_a_task(store: Any, service: Service) -> None:
    """Each key is a job of its own, mapped instances and other tasks too."""
    task = attempt(store, 1)
    assert [task.submit_once(key, service.submit) for key in ("a", "b", "a")] == ["j1", "j2", "j1"]
    mapped = store.instances.open(type(SCOPE)("dag", "run", "task", 0), 1)["task_store"]
    assert mapped.submit_once("a", service.submit) == "j3"
    task.delete("a")
    assert [task.submit_once(key, service.submit) for key in ("a", "b")] == ["j4", "j2"]


def test_what_the_log_says(store: Any, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each decision, with its kind for machines."""
    with caplog.at_level(logging.INFO, "milepost.jobs"):
        once = {"submit": service.submit, "status": service.status, "find": service.find}
        attempt(store, 1).submit_once("job", **once)
        attempt(store, 2).submit_once("job", **once)
        service.jobs["j1"] = "done"
        attempt(store, 3).submit_once("job", **once)
        service.jobs["j1"] = "gone"
        attempt(store, 4).submit_once("job", **once)
        service.jobs["j2"] = "gone"
        service.lose = ["answer"]
        with pytest.raises(LostError):
            attempt(store, 5).submit_once("job", **once)
        attempt(store, 6).submit_once("job", **once)
    assert [record.action for record in caplog.records] == [
        "job_fresh",
        "job_reattached",
        "job_already_succeeded",
        "job_resubmitted",
        "job_warning",
        "job_adopted",
    ]
    assert [record.getMessage().removeprefix("dag/run/task, key 'job': ") for record in caplog.records] == [
        "submitted job j1 (submission 1): no job was submitted before",
        "nothing to submit, job j1 is active",
        "nothing to submit, job j1 has succeeded",
        "submitted job j2 (submission 2): job j1 has failed or is gone",
        "LostError while submitting: whether the job was submitted is not known; the next attempt asks find for it",
        ADOPTED + "job j3 is active",
    ]


def test_an_intent_that_someone_damaged(store: Any, service: Service) -> None:
    """It is an error that names the key, and deleting the key mends it; parameters that cannot be read count as unknown."""
    once = {"submit": service.submit, "status": service.status, "params": {"a": 1}, "on_changed": "fail"}
    attempt(store, 1).submit_once("job", **once)
    for params in ("no JSON", "[1]"):
        sql(store, "UPDATE intents SET params = ?", params)
        assert attempt(store, 2).submit_once("job", **once) == "j1"
    sql(store, "UPDATE intents SET state = ?", "odd")
    with pytest.raises(DamagedEntryError, match="'job'"):
        attempt(store, 2).submit_once("job", **once)
    task = attempt(store, 2)
    assert task.get("job") == "j1"
    task.delete("job")
    assert task.submit_once("job", **once) == "j2"


def test_asynchronous_functions(store: Any, service: Service, variant: str) -> None:
    """`asubmit_once` takes functions of either kind; `submit_once` refuses asynchronous ones before anything is stored."""
    once = {"submit": service.asubmit, "status": service.astatus, "find": service.afind}
    task = attempt(store, 1)
    if variant.endswith("-sync"):
        with pytest.raises(UnsupportedTypeError, match="submit is asynchronous"):
            task.submit_once("job", **once)
        with pytest.raises(UnsupportedTypeError, match="submit is asynchronous"):
            task.submit_once("job", lambda token: service.asubmit(token))  # noqa: PLW0108  (it hides what it returns)
        assert service.tokens == []
        return
    service.lose = ["answer"]
    with pytest.raises(LostError):
        task.submit_once("job", **once)
    assert attempt(store, 2).submit_once("job", **once) == "j1"
    assert real(store).task_store(SCOPE).get("job") == "j1"
