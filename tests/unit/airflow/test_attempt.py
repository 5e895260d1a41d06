"""Stores that are opened when a task first uses one of them."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from milepost import Asset, AssetStoreAccessors, Store, TaskScope, TaskStoreAccessor, connect
from milepost.airflow import opening
from milepost.airflow.attempt import Attempt

SCOPE = TaskScope("d", "r", "t")


class Opened:
    """Opens the attempt in a store in memory, and remembers the threads that had it opened."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.threads: list[threading.Thread] = []
        self.ended: list[str] = []
        self.stores: dict[str, Any] = {}

    def begin(self, *_: Any) -> Opened:
        """Open it."""
        self.threads.append(threading.current_thread())
        self.stores = self.store.instances.open(SCOPE, 1, inlets=[Asset("orders")])
        return self

    def end(self, state: str, error: BaseException | None = None) -> None:
        """Remember the state."""
        self.ended.append(state)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """What an attempt opens."""
    with connect("memory://") as store:
        made = Opened(store)
        monkeypatch.setattr(opening, "Opened", made)
        yield made


@pytest.fixture
def attempt() -> Attempt:
    """An attempt that is not open."""
    return Attempt(SimpleNamespace(try_number=1), {"task": None})


def test_what_is_not_used_is_not_opened(attempt: Attempt, opened: Opened) -> None:
    """Looking at the type or the text of a store opens nothing, and an end without a use is no end of an attempt."""
    store = attempt.stores["task_store"]
    assert attempt.stores["task_state_store"] is store
    assert isinstance(store, TaskStoreAccessor)
    assert isinstance(attempt.stores["asset_state_store"], AssetStoreAccessors)
    assert repr(store) == "<task_store, not used yet>"
    attempt.end("success")
    assert (opened.threads, opened.ended) == ([], [])


def test_the_first_use_opens_and_the_others_find_it_open(attempt: Attempt, opened: Opened) -> None:
    """All names lead to the stores of one attempt, and its end is recorded."""
    store, assets = attempt.stores["task_store"], attempt.stores["asset_store"]
    store.set("k", 1)
    assets.set("day", "2026-01-01")
    assert assets[Asset("orders")].get("day") == "2026-01-01"
    assert (store.get("k"), "k" in store, len(store), list(store), bool(store)) == (1, True, 1, ["k"], True)
    assert (Asset("orders") in assets, len(assets), bool(assets)) == (True, 1, True)
    assert repr(store) == repr(opened.stores["task_store"])
    attempt.end("success")
    assert (len(opened.threads), opened.ended) == (1, ["success"])


async def test_an_asynchronous_first_use_opens_off_the_event_loop(attempt: Attempt, opened: Opened) -> None:
    """The event loop never waits for the store to open."""
    await attempt.stores["task_store"].aset("k", 1)
    await attempt.stores["asset_store"].aset("day", 1)
    assert await attempt.stores["task_store"].aget("k") == 1
    assert len(opened.threads) == 1
    assert opened.threads[0] is not threading.current_thread()


def test_threads_that_use_it_first_open_it_once(attempt: Attempt, opened: Opened) -> None:
    """Several threads of a task share one attempt."""
    store = attempt.stores["task_store"]
    threads = [threading.Thread(target=store.increment, args=("n",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (store.get("n"), len(opened.threads)) == (4, 1)


def test_what_a_store_has_not_is_an_attribute_error(attempt: Attempt, opened: Opened) -> None:
    """A wrong name is answered as the store itself does."""
    with pytest.raises(AttributeError, match="gett"):
        _ = attempt.stores["task_store"].gett
    with pytest.raises(AttributeError, match="agett"):
        _ = Attempt(SimpleNamespace(try_number=1), {"task": None}).stores["asset_store"].agett


def test_a_first_use_after_the_end_finds_an_attempt_that_has_ended(attempt: Attempt, opened: Opened) -> None:
    """A callback may be the first to use a store: the attempt is recorded as it ended, and not as one that runs."""
    attempt.end("failed", ValueError("broken"))
    assert opened.ended == []
    attempt.stores["task_store"].set("k", 1)
    assert opened.ended == ["failed"]


def test_a_signal_handler_may_use_a_store_while_it_opens(opened: Opened) -> None:
    """Airflow calls `on_kill` in the thread that it interrupts, which may be opening the stores."""
    instance = SimpleNamespace(try_number=1)
    attempt = Attempt(instance, {"task": None})
    begin = opened.begin
    interrupted = iter([True, False])

    def begin_interrupted(*arguments: Any) -> Opened:
        if next(interrupted):
            attempt.stores["task_store"].set("killed", 1)
        return begin(*arguments)

    opened.begin = begin_interrupted  # type: ignore[method-assign]
    assert attempt.stores["task_store"].get("killed") == 1


def test_a_store_is_copied_with_its_context_and_not_pickled(attempt: Attempt, opened: Opened) -> None:
    """A copy of a context has the same stores, and opens nothing; another process is told why it cannot have them."""
    context = dict(attempt.stores)
    for copied in (copy.deepcopy(context), {name: copy.copy(store) for name, store in context.items()}):
        assert all(copied[name] is store for name, store in context.items())
    with pytest.raises(TypeError, match="task_store belongs to the process of its task and cannot be pickled"):
        pickle.dumps(context["task_store"])
    assert opened.threads == []


def test_assignment_is_refused_in_the_name_of_the_store(opened: Opened, attempt: Attempt) -> None:
    """What takes no item assignment is the store, not what stands in for it."""
    store = attempt.stores["task_store"]
    with pytest.raises(TypeError, match=r"^'TaskStoreAccessor' object does not support item assignment"):
        store["x"] = 1
    with pytest.raises(TypeError, match=r"^'TaskStoreAccessor' object does not support item deletion"):
        del store["x"]
