"""Seeded interleavings and crashes of several clients, statement by statement, on SQLite.

``MILEPOST_SIM_SEEDS`` says how many seeds (by default a few thousand), ``MILEPOST_SIM_SEED`` names a single one to replay.
"""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import calls
from milepost.metastore.operations import OPERATIONS, Plan, base, entries
from tests.simulation.actions import ACTIONS, script
from tests.simulation.engine import STATEMENTS, Files
from tests.simulation.parts import Step
from tests.simulation.world import FAULTS, World

SEEDS = int(os.environ.get("MILEPOST_SIM_SEEDS") or 2_000)
ONE = os.environ.get("MILEPOST_SIM_SEED")
CLIENTS = 3
LENGTH = 9
ORDERS = 4


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    """A file for worlds."""
    made = Files(tmp_path / "store.db")
    yield made
    made.close()


def scripts_of(seed: int) -> tuple[list[list[Step]], int]:
    """Return what the clients of a seed do, and how many statements come to one fault."""
    rng = random.Random(seed)
    return [script(rng, LENGTH) for _ in range(CLIENTS)], rng.choice([0, 40, 25, 12])


def attempt(
    files: Files,
    seed: int,
    scripts: list[list[Step]],
    faults: int,
    order: int = 0,
    seen: Counter[str] | None = None,
) -> tuple[str, list[str]] | None:
    """Run a world; what is wrong and how it came to that, or `None`. Other orders are other interleavings."""
    world = World(files, f"{seed}/{order}", scripts, faults)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  (an error of another kind is a failure of the product just as well)
        return f"{type(error).__name__}: {error}", world.trace
    if seen is not None:
        seen.update(world.seen)
    return None


def smallest(files: Files, seed: int, scripts: list[list[Step]], faults: int) -> tuple[str, list[str]]:
    """Leave out whatever is not needed for the failure of a seed; in another order, what is left may fail sooner."""
    best = attempt(files, seed, scripts, faults)
    assert best is not None, f"seed {seed} fails only sometimes"

    def fails(fewer: list[list[Step]], faults: int) -> tuple[str, list[str]] | None:
        found = (attempt(files, seed, fewer, faults, order) for order in range(ORDERS))
        return min(filter(None, found), key=lambda failure: len(failure[1]), default=None)

    if faults and (found := fails(scripts, 0)):
        best, faults = found, 0
    shrunk = True
    while shrunk:
        shrunk = False
        for client, steps in enumerate(scripts):
            for place in range(len(steps)):
                fewer = [list(one) for one in scripts]
                del fewer[client][place]
                if found := fails(fewer, faults):
                    best, scripts, shrunk = found, fewer, True
                    break
    return best


def first_failure(files: Files, seeds: range, seen: Counter[str] | None = None) -> int | None:
    """Return the first seed that fails."""
    return next((seed for seed in seeds if attempt(files, seed, *scripts_of(seed), seen=seen)), None)


def report(files: Files, seed: int) -> str:
    """Say what is wrong with a seed, how to replay it, and the shortest way there."""
    said, trace = smallest(files, seed, *scripts_of(seed))
    command = f"MILEPOST_SIM_SEED={seed} {shlex.quote(sys.executable)} -m pytest {__file__} -k every_seed"
    return "\n".join([f"seed {seed}: {said}", f"replay: {command}", *trace[-80:]])


@pytest.mark.timeout(120 + SEEDS // 10)
def test_every_seed_keeps_what_was_promised(files: Files) -> None:
    """Whatever order clients run in and wherever they crash, calls do what the model does, all of it or nothing."""
    seeds = range(SEEDS) if ONE is None else range(int(ONE), int(ONE) + 1)
    seen: Counter[str] = Counter()
    seed = first_failure(files, seeds, seen)
    if seed is not None:
        pytest.fail(report(files, seed), pytrace=False)
    if len(seeds) >= 1_000:
        wanted = {f"{action} answered" for action in ACTIONS} | FAULTS.keys()
        wanted |= {f"{action} StaleAttemptError" for action in ("put", "put_many", "increment", "update", "get", "finish")}
        wanted |= {"compare_and_set VersionConflictError", "increment OutcomeUnknownError", "restore InstanceStateError"}
        assert {what for what in wanted if seen[what] < 5} == set()


def test_a_seed_does_the_same_each_time(files: Files) -> None:
    """Two runs of a seed go through the same statements and faults in the same order."""
    traces = []
    for _ in range(2):
        scripts, _faults = scripts_of(7)
        world = World(files, "7", scripts, 10)
        world.run()
        traces.append([line for line in world.trace if "over" not in line])  # versions differ
    assert len(traces[0]) > 100
    assert any("**" in line for line in traces[0])
    assert traces[0] == traces[1]


def _no_check(handle: Any, statement: str) -> Any:
    yield from ()


def _no_guard(handle: Any) -> Any:
    yield from ()
    return False


def _unlocked_increment(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(OPERATIONS, calls.Increment, OPERATIONS[calls.Increment]._replace(write=False))


def _unfenced_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(base, "check_fence", _no_check)


def _unfenced_fast_write(patch: pytest.MonkeyPatch) -> None:
    statement = STATEMENTS["entry_put_fenced"]
    text = statement.text.replace("fence = :p1", ":p1 = :p1")
    assert text != statement.text
    patch.setitem(STATEMENTS, "entry_put_fenced", statement._replace(text=text))


def _unguarded_reads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(entries, "guard_read", _no_guard)


def _increment_sent_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls.Increment, "repeatable", True)


def _put_in_pieces(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(OPERATIONS, calls.Put, OPERATIONS[calls.Put]._replace(write=False))


def _orphans(patch: pytest.MonkeyPatch) -> None:
    from milepost.metastore.operations import lifecycle

    def delete_run(call: Any, environment: Any) -> Any:
        operation = lifecycle.delete_run(call, environment)
        answer = None
        while True:
            try:
                name, parameters = operation.send(answer)
            except StopIteration as done:
                return done.value
            answer = 0 if name == "entry_clear" else (yield name, parameters)

    patch.setitem(OPERATIONS, calls.DeleteRun, Plan(delete_run, write=True))


def _nothing_staged(patch: pytest.MonkeyPatch) -> None:
    from milepost.metastore.operations import lifecycle

    patch.setattr(lifecycle, "commit", lambda *_: _no_check(None, ""))


BROKEN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "an increment outside of a transaction": _unlocked_increment,
    "writes without a look at the fence": _unfenced_writes,
    "a fast write without a look at the fence": _unfenced_fast_write,
    "a stale attempt that believes in absence": _unguarded_reads,
    "an increment that is sent again": _increment_sent_twice,
    "several keys outside of a transaction": _put_in_pieces,
    "keys that outlive their run": _orphans,
    "success without what was staged": _nothing_staged,
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_simulation_finds_a_broken_operation(files: Files, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """A fault that was put into the product is found within the default number of seeds, and reported with a replay."""
    BROKEN[fault](monkeypatch)
    seed = first_failure(files, range(SEEDS))
    assert seed is not None, "not found"
    text = report(files, seed)
    assert f"MILEPOST_SIM_SEED={seed} " in text
    assert text.count("\n") < 90
