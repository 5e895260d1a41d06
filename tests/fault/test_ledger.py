"""Acknowledged writes and `kill -9`."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import milepost
from milepost import Asset, TaskScope
from tests.fault.helpers import Child, results, url

NAMES = ("left", "right")
PAD = "x" * 30_000
ROUNDS = 120
KILLS = 150


def acknowledged(child: Child, lines: int, delay: float) -> int | None:
    """Kill a child after it printed some lines and a moment more; return the last number it printed, if any."""
    numbers = [child.line() for _ in range(lines)]
    time.sleep(delay)  # this is the random moment, not a wait for something
    numbers += child.kill()
    return int(numbers[-1]) if numbers else None


def test_s14_a_set_that_returned_survives_kill_9(start: Callable[..., Child], tmp_path: Path) -> None:
    """S-14: after SIGKILL a new process reads the last acknowledged value, or at most the one after it."""
    rng = random.Random(14)
    paths = [tmp_path / f"{repeat}.db" for repeat in range(50)]
    last = [acknowledged(start("ledger", path, "s14"), rng.randrange(1, 190), rng.random() * 0.003) for path in paths]
    seen = [int(number) for number in results("peek", "n", *paths)]
    for repeat, (said, there) in enumerate(zip(last, seen, strict=True)):
        assert said is not None
        assert said <= there <= said + 1, f"repeat {repeat}: {said} was acknowledged and {there} is there"


def model(steps: int) -> dict[str, Any]:
    """Return what a ledger holds after its first ``steps`` steps."""
    state: dict[str, Any] = {}
    for number in range(max(0, steps - 16), steps):
        match number % 8:
            case 0:
                state["n"] = [number, PAD]
            case 1:
                state.update({f"group-{letter}": number for letter in "abcdefgh"})
            case 3:
                state["cas"] = number
            case 4:
                state["asset"] = number
            case 7:
                state.pop("group-h", None)
    if counted := sum(range(2, steps, 8)):
        state["count"] = counted
    opened = range(5, steps, 8)
    state["workers"] = {number // 8 % 5: ("success" if number + 1 < steps else "running", number) for number in opened[-5:]}
    return state


def observed(path: Path, name: str) -> dict[str, Any]:
    """Open the file anew, check it, and return what the ledger holds."""
    with milepost.connect(url(path)) as store:
        store.verify()
        state = dict(store.task_store(TaskScope(name, "r", "t", -1)).items())
        asset = store.asset_store(Asset(name)).get("watermark")
        if asset is not None:
            state["asset"] = asset
        workers = store.instances.list(dag_id=name, run_id="r", task_id="worker")
        state["workers"] = {record.scope.map_index: (record.state, record.attempt) for record in workers}
    return state


def test_ledger_nothing_acknowledged_is_lost_over_many_kills(start: Callable[..., Child], path: Path) -> None:
    """Every acknowledged write of every kind survives 150 kills at random moments, whole and at most one step ahead."""
    rng = random.Random(26)
    done, kills = dict.fromkeys(NAMES, 0), 0
    for round_ in range(ROUNDS):
        # In every fourth round a second one is at work while the first is killed and checked, and is killed then.
        victims = rng.sample(NAMES, 2 if round_ % 4 == 0 else 1)
        running = {name: start("ledger", path, "mixed", name, done[name]) for name in victims}
        acked: dict[str, int] = {}
        for name in victims:
            kills += 1
            startup = rng.random() < 0.15
            last = acknowledged(running[name], 0 if startup else rng.randrange(1, 25), rng.random() * 0.08 * startup)
            acked[name] = done[name] if last is None else last + 1
            done[name] = settled(path, name, acked[name], acked[name])
        # The step that the first one died in may still come true when the second one dies too: SQLite had logged it and
        # not told the others yet. That is allowed, as it was never acknowledged, and no write can have come between.
        for name in victims:
            done[name] = settled(path, name, acked[name], done[name])
    assert kills == KILLS
    assert min(done.values()) > ROUNDS, "the children hardly wrote anything"


def settled(path: Path, name: str, acked: int, least: int) -> int:
    """Return how many steps the file holds: those that were acknowledged or one more, and not fewer than seen before."""
    state = observed(path, name)
    for steps in (acked, acked + 1):
        if steps >= least and model(steps) == state:
            return steps
    raise AssertionError(f"{name}: {acked} steps were acknowledged, {least} seen; the file holds {brief(state)}")


def brief(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state without its padding."""
    return {key: value[0] if key == "n" else value for key, value in state.items()}
