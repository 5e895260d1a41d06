"""Races on PostgreSQL and MySQL/MariaDB: the fence against a writer in mid-transaction, deadlocks, counts, histories."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import milepost
from milepost import Asset, StaleAttemptError, Store, TaskScope, VersionConflictError
from milepost.calls import TakeLease
from milepost.config import load_settings
from milepost.metastore.network import NetworkMetastore
from tests.fault.helpers import Child
from tests.fault.histories import Operation, violations
from tests.fault.server_helpers import DIALECTS, Pause, together
from tests.support.servers import Database, Databases, engine_of, in_use, wait_until

pytestmark = pytest.mark.usefixtures("many_connections")

SCOPE = TaskScope("d", "r", "t", -1)
ASSET = Asset("orders", uri="s3://orders")


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Database]:
    """An empty database on each kind of server; after the test nothing of ours is connected to it."""
    database = databases.get(request.param)
    yield database
    wait_until(lambda: not database.sessions(), "sessions of closed stores")


@pytest.fixture
def make(database: Database) -> Iterator[Callable[..., Store]]:
    """Return a function that opens stores."""
    stores: list[Store] = []

    def build(*, direct: bool = True, **settings: Any) -> Store:
        loaded = load_settings({"url": database.url, **settings}, {})
        stores.append(Store(NetworkMetastore(engine_of(database), policy=loaded, direct=direct), loaded))
        return stores[-1]

    yield build
    for store in stores:
        assert in_use(store.metastore.engine) == 0, "a connection was not given back"
        store.close()


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda context, store: context["task_store"].set("n", "late"),
    "set_many": lambda context, store: context["task_store"].set_many({"n": "late", "m": "late"}),
    "delete": lambda context, store: context["task_store"].delete("n"),
    "clear": lambda context, store: context["task_store"].clear(),
    "increment": lambda context, store: context["task_store"].increment("count"),
    "asset set": lambda context, store: context["asset_store"][ASSET].set("n", "late"),
    "asset increment": lambda context, store: context["asset_store"][ASSET].increment("count"),
    "asset delete": lambda context, store: context["asset_store"][ASSET].delete("n"),
    "asset advance": lambda context, store: context["asset_store"][ASSET].advance("count", 7),
    "asset stage": lambda context, store: context["asset_store"][ASSET].stage("n", "late"),
    "result": lambda context, store: store.runs.put_result(SCOPE, 1, "late"),
}
TWINS: dict[str, Callable[[Any, Any], Any]] = {
    "aset": lambda context, store: context["task_store"].aset("n", "late"),
    "aincrement": lambda context, store: context["task_store"].aincrement("count"),
    "asset aset": lambda context, store: context["asset_store"][ASSET].aset("n", "late"),
}


def _opened(store: Store) -> Any:
    context = store.instances.open(SCOPE, 1, outlets=[ASSET])
    context["task_store"].set_many({"n": 1, "m": 1, "count": 1})
    context["asset_store"][ASSET].set_many({"n": 1, "count": 1})
    return context


@pytest.mark.parametrize("name", [*WRITES, *TWINS])
def test_a_newer_attempt_waits_for_a_writer_that_passed_the_fence(
    make: Callable[..., Store], database: Database, name: str
) -> None:
    """Between a writer's look at the fence and its commit, nobody opens a newer attempt: it waits, then sees the write."""
    store, other = make(direct=False), make()
    context = _opened(store)
    pause = Pause(store.metastore.engine, lambda text: text == "COMMIT")
    order: list[str] = []

    def write() -> None:
        if name in WRITES:
            WRITES[name](context, store)
        else:
            asyncio.run(TWINS[name](context, store))
        order.append("written")

    def take_over() -> None:
        other.instances.open(SCOPE, 2, outlets=[ASSET])
        order.append("opened")

    writer = threading.Thread(target=write)
    writer.start()
    assert pause.reached.wait(60)
    taker = threading.Thread(target=take_over)
    taker.start()
    try:
        wait_until(lambda: database.blocked() or order, "the newer attempt waits")
        assert order == []
    finally:
        pause.go.set()
        writer.join(60)
        taker.join(60)
    assert sorted(order) == ["opened", "written"]
    with pytest.raises(StaleAttemptError):
        WRITES[name if name in WRITES else "set"](context, store)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("name", [*WRITES, *TWINS])
def test_a_writer_that_waits_for_a_newer_attempt_is_refused(
    make: Callable[..., Store], database: Database, name: str, direct: bool
) -> None:
    """A write that meets a newer attempt which has not committed yet waits for it, is refused, and changes nothing."""
    store, other = make(direct=direct), make()
    context = _opened(store)
    pause = Pause(other.metastore.engine, lambda text: text == "COMMIT")
    taker = threading.Thread(target=lambda: other.instances.open(SCOPE, 2, outlets=[ASSET]))
    taker.start()
    assert pause.reached.wait(60)
    outcome: list[Any] = []

    def write() -> None:
        try:
            if name in WRITES:
                WRITES[name](context, store)
            else:
                asyncio.run(TWINS[name](context, store))
        except Exception as error:  # noqa: BLE001  (it is the outcome)
            outcome.append(error)
        else:
            outcome.append("written")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wait_until(lambda: database.blocked() or outcome, "the writer waits")
        assert outcome == []
        before = {table: rows for table, rows in database.dump().items() if table in ("entries", "changes", "results")}
    finally:
        pause.go.set()
        taker.join(60)
        writer.join(60)
    assert isinstance(outcome[0], StaleAttemptError)
    after = database.dump()
    assert {table: after[table] for table in before} == before


WHOLE_RUNS: dict[str, Callable[[Store], Any]] = {
    "delete_run": lambda store: store.instances.delete_run("d", "r"),
    "clear_run": lambda store: store.instances.clear_run("d", "r"),
    "a new incarnation": lambda store: store.instances.open(TaskScope("d", "r", "other"), 1, incarnation="again"),
}


@pytest.mark.parametrize("name", WHOLE_RUNS)
def test_no_key_outlives_its_run(make: Callable[..., Store], database: Database, name: str) -> None:
    """What ends a whole run waits for a writer that passed the fence, and takes what it wrote too."""
    store, other = make(direct=False), make()
    task = store.instances.open(SCOPE, 1)["task_store"]
    pause = Pause(store.metastore.engine, lambda text: text == "COMMIT")
    writer = threading.Thread(target=lambda: task.set("n", "late"))
    writer.start()
    assert pause.reached.wait(60)
    ended: list[Any] = []
    ender = threading.Thread(target=lambda: ended.append(WHOLE_RUNS[name](other)))
    ender.start()
    try:
        wait_until(lambda: database.blocked() or ended, "the other one waits")
        assert ended == []
    finally:
        pause.go.set()
        writer.join(60)
        ender.join(60)
    assert len(ended) == 1
    assert database.sql("SELECT owner_id FROM entries") == []


def test_a_lease_that_nobody_had_is_taken_once(make: Callable[..., Store], database: Database) -> None:
    """Of two that take a new lease at the same moment, one gets it, and the other is told who."""
    store, other = make(), make()
    pause = Pause(store.metastore.engine, lambda text: text == "COMMIT")
    answers: list[Any] = []
    first = threading.Thread(target=lambda: answers.append(store.metastore.call(TakeLease("new", "first", 60.0))))
    first.start()
    assert pause.reached.wait(60)
    second = threading.Thread(target=lambda: answers.append(other.metastore.call(TakeLease("new", "second", 60.0))))
    second.start()
    try:
        wait_until(lambda: database.blocked() or answers, "the second waits")
    finally:
        pause.go.set()
        first.join(60)
        second.join(60)
    assert sorted(answers, key=str) == [None, "first"]


def test_writers_of_the_same_keys_in_opposite_order_do_not_deadlock(make: Callable[..., Store]) -> None:
    """Two writers that set the same keys at once, named in opposite order, neither fail nor mix their values."""
    store = make()
    keys = [f"k{number:02}" for number in range(30)]
    store.task_store(SCOPE).set("first", 1)
    asset = store.asset_store(ASSET)

    def write(index: int) -> None:
        task = store.task_store(SCOPE)
        for round_ in range(8):
            chosen = keys if index % 2 else keys[::-1]
            task.set_many({key: [index, round_] for key in chosen})
            asset.set_many({key: [index, round_] for key in chosen if key < "k05"})

    together(4, write)
    for accessor in (store.task_store(SCOPE), asset):
        values = [value for key, value in accessor.items() if key != "first"]
        assert values
        assert all(value == values[0] for value in values)


def test_clears_opens_and_writes_side_by_side_end_without_an_error_of_the_database(make: Callable[..., Store]) -> None:
    """Whatever runs beside each other on the same rows, callers see only errors of the contract."""
    store = make()
    scopes = [TaskScope("d", "r", "t", index) for index in range(3)]

    def work(index: int) -> None:
        rng = random.Random(index)
        for attempt in range(1, 9):
            scope = rng.choice(scopes)
            try:
                action = rng.randrange(6)
                if action == 0:
                    store.instances.clear(scope)
                elif action == 1:
                    store.instances.delete_run("d", "r")
                elif action == 2:
                    store.task_store(scope).clear(all_map_indices=True)
                elif action == 3:
                    store.task_store(scope).set_many({f"k{number}": attempt for number in rng.sample(range(9), 5)})
                elif action == 4:
                    store.asset_store(ASSET).set(f"k{rng.randrange(3)}", attempt)
                else:
                    context = store.instances.open(scope, attempt, inlets=[ASSET])
                    context["task_store"].increment("n")
                    context["asset_store"][ASSET].increment("n")
                    store.instances.finish(scope, attempt, "success")
            except (milepost.NotFoundError, milepost.StaleAttemptError, milepost.InstanceStateError):
                continue

    together(8, work)


def test_s16_twenty_threads_create_one_key(make: Callable[..., Store]) -> None:
    """S-16 (a): 20 threads that set an absent key at once, 50 rounds: no error, one row each, a value of theirs."""
    store = make()
    task = store.task_store(SCOPE)

    def work(number: int) -> None:
        for round_ in range(50):
            task.set(f"new-{round_}", number)

    together(20, work)
    assert len(task) == 50
    assert all(value in range(20) for _, value in task.items())


def test_sixteen_processes_increment_exactly(start: Callable[..., Child], database: Database) -> None:
    """16 processes that increment one key at once give each number once, in an order that fits the clock."""
    group = [start("server_clients", database.url, "increment", f"p{number}", 15) for number in range(16)]
    for child in group:
        child.expect("ready")
    for child in group:
        child.say("go")
    history = [Operation(row[0], row[1], *row[3:]) for child in group for row in map(json.loads, child.finish())]
    assert sorted(operation.version for operation in history) == list(range(1, 241))
    assert violations(history, first=0) == []


def test_histories_are_linearizable_per_key(make: Callable[..., Store]) -> None:
    """The history of 8 clients with reads, compare-and-sets and updates on two keys, 1,000 operations, is linearizable."""
    stores = [make(), make(direct=False)]
    histories: dict[str, list[Operation]] = defaultdict(list)
    lock = threading.Lock()

    def client(index: int) -> None:
        task, rng = stores[index % 2].task_store(SCOPE), random.Random(index)
        seen: dict[str, str | None] = {"a": None, "b": None}
        for number in range(125):
            key, begin = rng.choice("ab"), time.monotonic_ns()
            kind, expected, version = "read", seen[key], None
            if rng.random() < 0.4:
                entry = task.entry(key)
                version, expected = entry and entry.version, None
            else:
                try:
                    version = task.compare_and_set(key, [index, number], version=expected)
                    kind = "write"
                except VersionConflictError:
                    kind = "conflict"
            with lock:
                histories[key].append(Operation(begin, time.monotonic_ns(), kind, expected, version))
            if kind == "conflict":
                entry = task.entry(key)
                version = entry and entry.version
            seen[key] = version

    together(8, client)
    assert {operation.kind for history in histories.values() for operation in history} == {"read", "write", "conflict"}
    for history in histories.values():
        assert violations(history) == []


def test_update_and_set_default_are_linearizable_per_key(make: Callable[..., Store]) -> None:
    """8 clients that update a list lose no element; of those that set a default, all get the value of the one winner."""
    store = make()
    task = store.task_store(SCOPE)
    winners: dict[str, set[Any]] = defaultdict(set)

    def client(index: int) -> None:
        for number in range(20):
            task.update("list", lambda old, new=(index, number): [*old, list(new)], default=[])
            winners[f"k{number}"].add(task.set_default(f"k{number}", index))

    together(8, client)
    elements = task.get("list")
    assert sorted(elements) == [[index, number] for index in range(8) for number in range(20)]
    for index in range(8):
        assert [number for owner, number in elements if owner == index] == list(range(20))
    for key, values in winners.items():
        assert values == {task.get(key)}
