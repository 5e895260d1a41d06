"""The DAG files among the examples do what their first lines say."""

from __future__ import annotations

import pytest

import milepost
from milepost import TaskScope
from tests.examples.conftest import Shell
from tests.support.job_server import JobServer


def test_hello_greets_everybody_once(shell: Shell) -> None:
    """The retry goes on behind the last person that was greeted."""
    printed = shell.run("hello.py", "r1")
    assert printed[:4] == ["Hello, Ada!", "Hello, Grace!", "Hello, Katherine!", "Hello, Margaret!"]


def test_external_job_is_submitted_once(shell: Shell, store: milepost.Store) -> None:
    """Two attempts submit with the same token, because the first one was killed in between, and one job runs."""
    printed = shell.run("external_job.py", "r1")
    job = store.task_store(TaskScope("external_job", "r1", "count_primes")).get("job")
    assert (shell.folder / "build/primes/r1/jobs.log").read_text().split() == [str(job["pid"])]
    assert store.instances.get(TaskScope("external_job", "r1", "count_primes")).attempt == 2
    assert printed[:3] == [
        f"attempt 1 submitted and got job {job['pid']}",
        f"attempt 2 submitted and got job {job['pid']}",
        "348,513 primes below 5,000,000; jobs that ran: 1",
    ]


def test_external_job_that_vanished_is_submitted_again(shell: Shell, store: milepost.Store) -> None:
    """A stored job whose process is gone, or whose number now belongs to another process, does not count."""
    scope = TaskScope("external_job", "r1", "count_primes")
    store.task_store(scope).set("job", {"pid": 1, "started": "never"})
    printed = shell.run("external_job.py", "r1", "--params", '{"limit": 1000}')
    assert printed[0].startswith("attempt 1 submitted and got job ")
    assert printed[2] == "168 primes below 1,000; jobs that ran: 1"
    assert store.task_store(scope).entry("job").never_expires


@pytest.mark.parametrize("lost", [None, "request", "answer"])
def test_the_operator_has_one_job(shell: Shell, store: milepost.Store, lost: str | None) -> None:
    """Whether the service loses nothing, the request or the answer, it runs one job, and the run succeeds."""
    server = JobServer(shell.folder, forgetful=True)
    try:
        shell.environment["JOB_SERVER"] = server.url
        if lost is not None:
            server.ask("/faults", {"lose": lost})
        assert shell.run("job_operator.py", "r1")[0] == "10,000 rows; jobs of the service so far: 1"
    finally:
        server.kill()
    load = TaskScope("job_operator", "r1", "load")
    assert store.task_store(load).get("job") == 0
    assert store.instances.get(load).attempt == (1 if lost is None else 2)


def test_killed_index_of_a_mapped_task_resumes(shell: Shell, store: milepost.Store) -> None:
    """Only the killed index is tried again, and it starts at the page where it stood."""
    printed = shell.run("mapped.py", "r1")
    attempts = {one.item_name: one.attempt for one in store.instances.list("mapped", "r1", "load")}
    assert attempts == {"north": 1, "east": 1, "south": 2, "west": 1}
    assert [line for line in printed if "south, " in line] == [
        "south, attempt 1: starts at page 0",
        "south, attempt 2: starts at page 3",
    ]
    assert "north 235, east 350, south 235, west 350" in printed
    assert store.task_store(TaskScope("mapped", "r1", "load", 2)).get_many(["page", "total"]) == {"page": 5, "total": 235}


def test_async_task_asks_for_the_missing_only(shell: Shell, store: milepost.Store) -> None:
    """Answers that came in beside a failed one are kept, and the retry asks for that one alone."""
    printed = shell.run("async_task.py", "r1")
    assert printed[:3] == [
        "attempt 1: 0 answers are there, 8 to ask for",
        "attempt 2: 7 answers are there, 1 to ask for",
        "8 answers, 44 letters",
    ]
    answers = dict(store.task_store(TaskScope("async_task", "r1", "collect")).items("answer/"))
    assert (len(answers), answers["answer/Delhi"]) == (8, 5)


def test_progress_is_stored_and_shown(shell: Shell, store: milepost.Store) -> None:
    """The last progress is whole, and ``runs show`` draws it as a full bar."""
    printed = shell.run("progress.py", "r1")
    progress = store.task_store(TaskScope("progress", "r1", "count_lines")).get("progress")
    assert progress["done"] == progress["total"]
    assert printed[0] == f"{progress['message']} in {progress['total']} modules"
    shown = shell.python("-m", "milepost", "runs", "show", "progress", "r1")
    assert shown[-1].endswith(f"[{'█' * 20}] 100% {progress['message']}")


def test_each_inlet_has_a_cursor_of_its_own(shell: Shell, store: milepost.Store) -> None:
    """Every run settles what is new on each inlet, and a repeated run nothing."""
    assert shell.run("multi_inlet.py", "r1")[:3] == [
        "shop.orders: rows 0 to 3",
        "shop.payments: rows 0 to 2",
        "balance -30",
    ]
    assert shell.run("multi_inlet.py", "r2")[:3] == [
        "shop.orders: rows 3 to 6",
        "shop.payments: rows 2 to 4",
        "balance -60",
    ]
    shell.run("multi_inlet.py", "r2", "--clear", "orders", "--clear", "settle")
    settled = store.asset_store(milepost.Asset("shop.settled", uri="file:///shop/settled"))
    assert dict(settled.items()) == {"balance": -60, "position/shop.orders": 6, "position/shop.payments": 4}


def test_a_staged_watermark_moves_with_success(shell: Shell, store: milepost.Store) -> None:
    """A killed attempt moves nothing; each run's success moves the watermark once, and the history says who did."""
    days = milepost.Asset("staged.days", uri="file:///days")
    printed = shell.run("staging.py", "r1")
    assert [line for line in printed if line.startswith("attempt")] == [
        "attempt 1: up to 2026-01-04; readers still see None",
        "attempt 2: up to 2026-01-04; readers still see None",
    ]
    assert store.asset_store(days).get("day") == "2026-01-04"
    assert shell.run("staging.py", "r2")[0] == "attempt 1: up to 2026-01-07; readers still see 2026-01-04"
    (past,) = store.asset_store(days).history("day")
    assert (past.value, past.cause, past.writer.attempt, past.replaced_by.run_id) == ("2026-01-04", "stage", 2, "r2")
