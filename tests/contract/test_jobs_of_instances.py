"""External jobs over the life of their instances: clears, restores, deleted keys, stale attempts, other runs and items."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from milepost import (
    JobConflictError,
    StaleAttemptError,
    Writer,
)
from tests.contract.conftest import SCOPE, as_writer
from tests.contract.jobs import VARIANTS, attempt
from tests.support.services import LostError, Service

__all__ = ["VARIANTS"]


def test_a_clear_wants_a_new_job(store: Any, service: Service) -> None:
    """Clearing the instance, or a whole run, leads to a new job under a new token, also after several clears."""
    for number in (1, 2, 3):
        assert attempt(store, number).submit_once("job", service.submit, status=service.status) == f"j{number}"
        store.instances.clear(SCOPE) if number == 1 else store.instances.clear_run("dag", "run")


def test_a_clear_that_keeps_the_state_keeps_the_job(store: Any, service: Service) -> None:
    """``keep=True`` keeps the job, also one whose submission was cut off."""
    attempt(store, 1).submit_once("job", service.submit, status=service.status)
    store.instances.clear(SCOPE, keep=True)
    task = attempt(store, 2)
    assert task.submit_once("job", service.submit, status=service.status) == "j1"
    service.lose.append("answer")
    with pytest.raises(LostError):
        task.submit_once("other", service.submit)
    store.instances.clear(SCOPE, keep=True)
    assert attempt(store, 3).submit_once("other", service.submit) == "j2"
    assert list(service.jobs) == ["j1", "j2"]


@pytest.mark.parametrize("how", ["delete", "clear", "clear all", "person"])
def test_a_key_that_is_deleted_forgets_the_job(store: Any, service: Service, how: str) -> None:
    """Deleting the key, in the task or by a person, wants a new job, whether the id was known or not."""
    for cut, expected in ((False, "j2"), (True, "j4")):
        task = store.task_store(SCOPE)
        if cut:
            task.delete("job")
            service.lose.append("answer")
            with pytest.raises(LostError):
                task.submit_once("job", service.submit)
        else:
            task.submit_once("job", service.submit)
        if how == "delete":
            task.delete("job")
        elif how == "person":
            as_writer(store, Writer("cli")).task_store(SCOPE).delete("job")
        else:
            task.clear(all_map_indices=how == "clear all")
        assert task.submit_once("job", service.submit) == expected


def test_a_stale_attempt_submits_nothing(store: Any, service: Service) -> None:
    """The fence is checked in the transaction right before ``submit``."""
    old = attempt(store, 1)
    attempt(store, 2)
    with pytest.raises(StaleAttemptError):
        old.submit_once("job", service.submit)
    old = attempt(store, 3)
    service.lose = ["request"]
    with pytest.raises(LostError):
        old.submit_once("job", service.submit, find=service.find)

    def superseded(token: str) -> Any:
        attempt(store, 4)
        return service.find(token)

    with pytest.raises(StaleAttemptError):
        old.submit_once("job", service.submit, find=superseded)
    assert service.tokens == []


def test_an_attempt_superseded_while_it_submits(store: Any, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Its id is not stored; its successor gets the same job, by the token."""

    def slow(token: str) -> Any:
        job = service.submit(token)
        attempt(store, 2)
        return job

    with caplog.at_level(logging.WARNING, "milepost.jobs"), pytest.raises(StaleAttemptError):
        attempt(store, 1).submit_once("job", slow)
    assert "job j1 was submitted, and its id could not be stored" in caplog.text
    assert "if the task was cleared, it submits another job, and nobody waits for this one" in caplog.text
    task = attempt(store, 2)
    assert task.get("job") is None
    assert task.submit_once("job", service.submit) == "j1"


def test_runs_of_one_id_have_tokens_of_their_own(store: Any, service: Service) -> None:
    """A new incarnation, and a run that was deleted and made anew with or without one, never meet an earlier run's job."""
    number = 0
    for incarnation in ("a", "b", None, "c"):
        if incarnation is None:
            store.instances.delete_run("dag", "run")
        number += 1
        task = attempt(store, 1, incarnation=incarnation)
        assert task.submit_once("job", service.submit, status=service.status) == f"j{number}"
    for _ in range(2):
        store.instances.delete_run("dag", "run")
        number += 1
        assert attempt(store, 1).submit_once("job", service.submit) == f"j{number}"
    assert store.stats().intents == 1


def test_another_item_wants_another_job(store: Any, service: Service) -> None:
    """S-22: a position that holds another item after a clear does not meet the earlier item's job."""
    attempt(store, 1, item={"x": 1}).submit_once("job", service.submit)
    store.instances.clear(SCOPE, keep=True)
    assert attempt(store, 2, item={"x": 2}).submit_once("job", service.submit) == "j2"


def test_success_that_clears_keys_forgets_the_job(make: Any, service: Service) -> None:
    """After ``clear_on_success`` the next attempt wants a new job, with a token of its own."""
    store = make(clear_on_success=True)
    attempt(store, 1).submit_once("job", service.submit)
    store.instances.finish(SCOPE, 1, "success")
    assert attempt(store, 2).submit_once("job", service.submit) == "j2"


def test_a_restore_brings_the_job_back(store: Any, service: Service) -> None:
    """A restored id is an id: the job is gone on with, or replaced if it is gone; its parameters are still known."""
    once = {"submit": service.submit, "status": service.status}
    attempt(store, 1).submit_once("job", params=[1], **once)
    store.instances.clear(SCOPE)
    store.instances.restore(SCOPE)
    with pytest.raises(JobConflictError, match="params"):
        attempt(store, 2).submit_once("job", params=[2], on_changed="fail", **once)
    store.instances.clear(SCOPE)
    assert attempt(store, 3).submit_once("job", params=[2], **once) == "j2"
    store.instances.finish(SCOPE, 3, "failed")
    first = store.instances.archives(SCOPE)[-1].id
    store.instances.restore(SCOPE, archive=first, force=True)
    assert attempt(store, 4).submit_once("job", params=[3], on_changed="fail", **once) == "j1"
    service.jobs["j1"] = "gone"
    assert attempt(store, 5).submit_once("job", params=[3], **once) == "j3"


def test_a_restore_brings_an_open_question_back(store: Any, service: Service) -> None:
    """A submission that was cut off before the clear is asked about again after the restore."""
    task = attempt(store, 1)
    task.set("page", 1)
    service.lose = ["answer"]
    with pytest.raises(LostError):
        task.submit_once("job", service.submit)
    store.instances.finish(SCOPE, 1, "failed")
    store.instances.clear(SCOPE)
    store.instances.restore(SCOPE)
    assert attempt(store, 2).submit_once("job", service.submit, find=service.find) == "j1"
    assert service.asked == 1


def test_a_clear_over_an_open_question_says_so(store: Any, service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a job that was perhaps submitted before a clear; the log says that it may exist."""
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit)
    store.instances.clear(SCOPE)
    with caplog.at_level(logging.WARNING, "milepost.jobs"):
        assert attempt(store, 2).submit_once("job", service.submit) == "j2"
    assert "if its job exists, nobody waits for it" in caplog.text


def test_another_call_on_the_key_meanwhile_is_noticed(
    store: Any, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Two calls on one key at a time: the second one submits with the same token, and the first one says so."""
    task = attempt(store, 1)

    def twice(token: str) -> Any:
        task.submit_once("job", service.submit)
        return service.submit(token)

    with pytest.raises(Exception, match="one call at a time"):
        task.submit_once("job", twice)
    assert "another call on that key has taken over, under the same token" in caplog.messages[-1]
    assert task.get("job") == "j1"
    assert list(service.jobs) == ["j1"]


def test_a_key_that_is_deleted_while_the_job_is_looked_up(store: Any, service: Service) -> None:
    """The open question is gone by the time of the answer: the job that was found is not adopted."""
    service.lose = ["answer"]
    with pytest.raises(LostError):
        attempt(store, 1).submit_once("job", service.submit)

    def find(token: str) -> Any:
        as_writer(store, Writer("cli")).task_store(SCOPE).delete("job")
        return service.find(token)

    assert attempt(store, 2).submit_once("job", service.submit, find=find) == "j2"
