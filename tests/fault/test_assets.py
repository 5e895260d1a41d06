"""Assets under concurrency and `kill -9`: advance is linearizable; what is staged comes with success, as a whole or not."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import milepost
from milepost import Asset
from tests.fault.helpers import SCOPE, Child, url
from tests.fault.server_helpers import DIALECTS
from tests.support.servers import Databases

ASSET = Asset("orders")
Move = tuple[int, int, int, int]
"""When an advance began and ended, its value, and what it returned."""


@pytest.fixture(params=["sqlite", *DIALECTS])
def target(request: pytest.FixtureRequest, path: Path, databases: Databases) -> str:
    """The URL of an empty store of each kind."""
    return url(path) if request.param == "sqlite" else databases.get(request.param).url


def wrong_moves(history: list[Move]) -> list[str]:
    """Return what is wrong with the history of a key that was only advanced, with values that differ; nothing: linearizable.

    Sorted by what they returned, and with the writer of that value in front, the calls are in an order that explains them,
    if that order agrees with the clock.
    """
    writers = {value: begin for begin, _, value, _ in history}
    found = []
    latest = None
    for move in sorted(history, key=lambda move: move[1]):
        _, end, value, result = move
        if result < value or result not in writers:
            found.append(f"{move} returned what nobody wrote")
        elif writers[result] > end:
            found.append(f"{move} ended before the call began whose value it returned")
    ends = sorted(history, key=lambda move: move[1])
    position, greatest = 0, None
    for move in sorted(history, key=lambda move: move[0]):
        while ends[position][1] < move[0]:
            if greatest is None or ends[position][3] > greatest:
                greatest = latest = ends[position][3]
            position += 1
        if latest is not None and move[3] < latest:
            found.append(f"{move} went back: {latest} had been returned before it began")
    return found


def test_advance_is_linearizable(start: Callable[..., Child], target: str) -> None:
    """The history of 8 clients and 1,000 calls is linearizable, and the greatest value is stored in the end."""
    group = [start("asset_clients", target, "advance", number, 125) for number in range(4)]
    for child in group:
        child.expect("ready")
    for child in group:
        child.say("")
    history: list[Move] = [tuple(json.loads(line)) for child in group for line in child.finish()]
    assert len(history) == 1_000
    assert wrong_moves(history) == []
    with milepost.connect(target) as store:
        assert store.asset_store(ASSET).get("n") == max(value for _, _, value, _ in history)


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ([(0, 1, 5, 4)], "nobody wrote"),
        ([(0, 1, 5, 6)], "nobody wrote"),
        ([(0, 1, 5, 6), (2, 3, 6, 6)], "ended before"),
        ([(0, 1, 6, 6), (2, 3, 5, 5)], "went back"),
        ([(0, 9, 1, 6), (0, 1, 6, 6), (2, 3, 5, 5), (4, 5, 4, 6)], "went back"),
    ],
)
def test_the_check_of_moves_finds_what_is_wrong(history: list[Move], complaint: str) -> None:
    """A lost move, a value from nowhere, one from the future and a step back are each found."""
    assert complaint in wrong_moves(history)[0]


def test_the_check_of_moves_accepts_overlapping_calls() -> None:
    """Calls that overlap may stand in either order."""
    assert wrong_moves([(0, 10, 5, 5), (1, 9, 6, 6), (2, 8, 4, 6), (11, 12, 1, 6), (3, 20, 7, 7)]) == []


def test_killed_before_success(start: Callable[..., Child], target: str) -> None:
    """What an attempt staged that was killed before its success is never seen; the next attempt's is."""
    child = start("asset_clients", target, "staged", 1, 30)
    child.expect("staged")
    child.kill()
    with milepost.connect(target) as store:
        assert store.asset_store(ASSET).keys() == []
        asset = store.instances.open(SCOPE, 2, outlets=[ASSET])["asset_store"]
        asset.stage("other", 1)
        store.instances.finish(SCOPE, 2, "success")
        assert store.asset_store(ASSET).items() == [("other", 1)]


def test_killed_after_success(start: Callable[..., Child], target: str) -> None:
    """What an attempt staged whose success was acknowledged is there, all of it, although it was killed right then."""
    child = start("asset_clients", target, "finished", 1, 30)
    child.expect("finished")
    child.kill()
    with milepost.connect(target) as store:
        assert dict(store.asset_store(ASSET).items()) == {f"k{number}": number for number in range(30)}
        assert store.instances.get(SCOPE).state == "success"


def test_killed_around_success(start: Callable[..., Child], target: str) -> None:
    """Killed at any moment around its success, an attempt has succeeded with all that it staged or not at all."""
    chance = random.Random(5)
    for attempt in range(1, 6):
        child = start("asset_clients", target, "finished", attempt, 15)
        with milepost.connect(target) as store:
            deadline = time.monotonic() + 60
            # From its opening on: staging fifteen values and the success take it a few milliseconds.
            while (record := store.instances.get(SCOPE)) is None or record.attempt < attempt:
                assert time.monotonic() < deadline, "the attempt did not open"
            until = time.perf_counter() + chance.uniform(0, 0.06)
            while time.perf_counter() < until:
                pass
            child.kill()
            record = store.instances.get(SCOPE)
            keys = store.asset_store(ASSET).keys()
            assert (len(keys) == 15) == (record.state == "success"), (record, keys)
            assert len(keys) in (0, 15)
            store.asset_store(ASSET).clear()


def test_two_processes_that_open_the_next_attempt_together(start: Callable[..., Child], target: str) -> None:
    """No number is drawn twice, the later one wins, and the next write of the other is refused."""
    milepost.connect(target).close()
    pair = [start("asset_clients", target, "drawn", name, 0) for name in ("a", "b")]
    for child in pair:
        child.expect("ready")
    for turn in range(20):
        for child in pair:
            child.say("open")
        numbers = [int(child.line()) for child in pair]
        assert sorted(numbers) == [2 * turn + 1, 2 * turn + 2]
        for child in pair:
            child.say("write")
        newer = numbers.index(max(numbers))
        assert [child.line() for child in pair] == ["written" if number == newer else "stale" for number in range(2)]
        with milepost.connect(target) as store:
            assert store.task_store(SCOPE).get("winner") == "ab"[newer]
