"""Seeded interleavings and crashes of workers that submit one job: `submit_once`, step by step, against simulated services.

A step is one call on the store or one question to the service, so that workers are cut off, superseded and cleared between
any two of them, and go on after they were declared dead.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost import JobConflictError, ManualClock, StaleAttemptError, TaskScope, VersionConflictError, calls, connect
from milepost.accessors import jobs
from milepost.job_records import JobDecision
from milepost.metastore.operations import submissions
from milepost.program import Ask
from milepost.submission import Situation, Step, Submit, next_step
from tests.simulation.parts import ViolationError
from tests.support.services import LostError, Service

SEEDS = int(os.environ.get("MILEPOST_SIM_SEEDS") or 2_000) // 10
SCOPE = TaskScope("d", "r", "t")
STEPS = 70


class Worker:
    """A process that runs one attempt, and does not know when it was declared dead.

    Args:
        world: Where it lives.
        number: The attempt.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.began, self.table = world, number, world.time, world.table
        service, rng = world.service, world.rng
        request = jobs.JobRequest.checked(
            "job",
            service.submit,
            params={"table": self.table},
            find=service.find if world.kind == "search" or rng.random() < 0.3 * (world.kind == "tokens") else None,
            status=service.status,
            on_unknown="resubmit",
            on_changed=rng.choice(["reattach", "resubmit", "fail"]),
        )
        self.program = jobs._Job(world.store.task_store(SCOPE, attempt=number), request).work()
        self.step: Any = next(self.program)

    def advance(self) -> JobDecision | str | None:
        """Take one step; the decision or how it failed, once it has ended."""
        step, error, answer = self.step, None, None
        if isinstance(step, Ask) and step.name == "submit":
            self.world.service.lose = [self.world.rng.choice(["", "", "request", "answer"])]
        try:
            answer = step.function(step.argument) if isinstance(step, Ask) else self.world.store.metastore.call(step)
        except (LostError, StaleAttemptError, VersionConflictError) as raised:
            error = raised
        self.world.service.lose = []
        if isinstance(step, calls.Intend) and error is None:
            self.world.intended(answer.submission, self.table)
        try:
            self.step = self.program.send(answer) if error is None else self.program.throw(error)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except (LostError, StaleAttemptError, VersionConflictError, JobConflictError) as raised:
            return type(raised).__name__
        return None


class World:
    """One run: a store, a service, workers, and people who step in.

    Args:
        seed: Decides everything.
        kind: What the service can do: ``tokens``, ``search`` or ``neither``.
    """

    def __init__(self, seed: int, kind: str) -> None:
        self.rng, self.kind = random.Random(f"{kind}{seed}"), kind
        self.store = connect("memory://", clock=ManualClock())
        self.service = Service(deduplicates=kind == "tokens")
        self.time = self.reset = self.attempt = self.submission = 0
        self.table = self.submitted_table = "orders"
        self.wanted = "the first"
        self.born: dict[Any, int] = {}
        self.workers: list[Worker] = []
        self.trace: list[str] = []
        self.ends: list[str] = []

    def intended(self, submission: int, table: str) -> None:
        """Note that a job is about to be submitted; another one than before needs a reason."""
        if submission > self.submission:
            if not self.wanted and table == self.submitted_table:
                raise ViolationError("another job is submitted, and nobody wanted one")
            self.wanted, self.submission, self.submitted_table = "", submission, table

    def run(self) -> None:
        """Let things happen, then let one attempt end undisturbed."""
        try:
            for self.time in range(1, STEPS):
                self._something()
                self._look()
            self._end()
        finally:
            self.store.close()

    def _say(self, text: str) -> None:
        self.trace.append(f"{self.time}: {text}")

    def _something(self) -> None:
        what = self.rng.random()
        if self.workers and what < 0.6:
            self._advance(self.rng.choice(self.workers))
        elif what < 0.78:
            self._open()
        elif what < 0.85:
            self._job_ends()
        elif what < 0.89 and self.attempt:
            keep = self.rng.random() < 0.3
            self.store.instances.clear(SCOPE, keep=keep)
            self._say(f"clear keep={keep}")
            if not keep:
                self.wanted, self.reset = "a clear", self.time
        elif what < 0.93:
            self.store.task_store(SCOPE).delete("job")
            self._say("delete the key")
            self.wanted = "a deleted key"
            if not any(
                isinstance(one.step, calls.KeepJob) or getattr(one.step, "name", "") == "submit" for one in self.workers
            ):
                self.reset = self.time  # an attempt that is submitting just now stores its id afterwards
        elif what < 0.97:
            self.table = self.rng.choice(["orders", "customers"])
            self._say(f"table {self.table}")

    def _open(self) -> None:
        if self.kind != "tokens":
            self.workers.clear()  # the documented window: a worker that lives on after its successor has searched
        elif self.workers and self.rng.random() < 0.5:
            self.workers.remove(self.rng.choice(self.workers))
        self.attempt += 1
        self.workers.append(Worker(self, self.attempt))
        self._say(f"attempt {self.attempt} opens")

    def _job_ends(self) -> None:
        active = [job for job, state in self.service.jobs.items() if state == "active"]
        if active:
            job, state = self.rng.choice(active), self.rng.choice(["done", "gone"])
            self.service.jobs[job] = state
            self._say(f"job {job} is {state}")
            if state == "gone":
                self.wanted = f"{self.wanted} or a failed job"

    def _advance(self, worker: Worker) -> JobDecision | str | None:
        step = worker.step
        end = worker.advance()
        self._say(f"attempt {worker.number}: {type(step).__name__} {getattr(step, 'name', '')} -> {end or ''}")
        if end is not None:
            self.workers.remove(worker)
            self.ends.append(end if isinstance(end, str) else end.action)
        if isinstance(end, JobDecision) and worker.number == self.attempt and worker.began > self.reset:
            if end.job_id not in self.service.jobs:
                raise ViolationError(f"job {end.job_id} was never submitted")
            if self.born.get(end.job_id, self.time) < self.reset:
                raise ViolationError(f"job {end.job_id} is older than the last clear")
        return end

    def _look(self) -> None:
        for _token, job in self.service.tokens:
            self.born.setdefault(job, self.time)
        tokens = [token for token, _job in self.service.tokens]
        if len(set(tokens)) < len(tokens) and self.kind != "neither":
            raise ViolationError("two jobs have one token")
        if len(set(tokens)) > self.submission:
            raise ViolationError("there are more tokens than submissions")

    def _end(self) -> None:
        for _ in range(20):
            self.time += 1
            self.workers.clear()
            self._open()
            (worker,) = self.workers
            end = None
            while end is None:
                end = self._advance(worker)
                self._look()
            if isinstance(end, JobDecision):
                stored = self.store.task_store(SCOPE).get("job")
                if stored != end.job_id:
                    raise ViolationError(f"job {end.job_id} is used and {stored} is stored")
                if self.service.jobs[end.job_id] != "gone":
                    return
                if end.action != "resubmitted":  # the same token again: the attempt will see that the job has failed
                    raise ViolationError(f"job {end.job_id}, which is gone, is used")
                continue
            if end not in ("LostError", "JobConflictError"):
                raise ViolationError(f"an undisturbed attempt ended with {end}")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log lines of thousands of decisions out of the report."""
    logger = logging.getLogger("milepost.jobs")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def first_failure(kind: str, seeds: range) -> tuple[str, list[str]] | None:
    """Return what is wrong with the first seed that fails, and how it came to that."""
    ends: list[str] = []
    for seed in seeds:
        world = World(seed, kind)
        try:
            world.run()
        except ViolationError as error:
            return f"seed {seed} of {kind}: {error}", world.trace
        ends += world.ends
    wanted = {"fresh", "reattached", "already_succeeded", "resubmitted", "LostError", "JobConflictError"}
    wanted |= {"adopted"} if kind != "neither" else set()
    wanted |= {"StaleAttemptError"} if kind == "tokens" else set()
    assert {end for end in wanted if ends.count(end) < 5} == set()
    return None


@pytest.mark.parametrize("kind", ["tokens", "search", "neither"])
def test_every_seed_has_the_jobs_that_were_wanted(kind: str) -> None:
    """Wherever workers are cut off and people step in: no job without a reason, none twice, and none that is not meant."""
    failure = first_failure(kind, range(SEEDS))
    if failure is not None:
        pytest.fail("\n".join([failure[0], *failure[1]]), pytrace=False)


def _hasty(now: Situation) -> Step:
    step = next_step(now)
    return step._replace(new=True) if isinstance(step, Submit) else step


def _hasty_decision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jobs, "next_step", _hasty)


def _trusting_decision(patch: pytest.MonkeyPatch) -> None:
    def trusting(now: Situation) -> Step:
        step = next_step(now)
        return step._replace(new=now.intent is None) if isinstance(step, Submit) else step

    patch.setattr(jobs, "next_step", trusting)


def _same_token(patch: pytest.MonkeyPatch) -> None:
    make = submissions.token_of
    patch.setattr(submissions, "token_of", lambda scope, key, incarnation, generation, _: make(scope, key, "", 0, 1))


def _no_fence(patch: pytest.MonkeyPatch) -> None:
    from milepost.metastore.operations import base

    def unchecked(_handle: Any, _statement: str) -> Any:
        yield from ()

    patch.setattr(base, "check_fence", unchecked)


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "another token where the same one is meant": _hasty_decision,
    "the same token where another one is meant": _trusting_decision,
    "a token that is always the same": _same_token,
    "stale attempts that submit": _no_fence,
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_simulation_finds_a_broken_submission(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A fault that was put into the product is found."""
    BROKEN[fault](monkeypatch)
    found = [first_failure(kind, range(SEEDS)) for kind in ("tokens", "search")]
    assert any(found), "not found"
