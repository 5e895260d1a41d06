"""Calls on `memory://` take turns on its one connection."""

from __future__ import annotations

import threading

import pytest

from milepost import StoreClosedError, SystemClock, TaskScope, connect
from milepost.metastore.engines.sqlite import SqliteEngine
from tests.support.servers import wait_until

SCOPE = TaskScope("dag", "run", "task")


def waiting(engine: SqliteEngine, number: int) -> None:
    """Wait until so many calls stand in line."""
    wait_until(lambda: len(engine._waiting) == number, f"{number} calls wait")


def test_calls_get_the_connection_in_the_order_in_which_they_came() -> None:
    """A thread that calls in a loop does not get the connection again before those that were waiting for it."""
    engine = SqliteEngine(None, clock=SystemClock())
    order: list[int] = []

    def work(number: int) -> None:
        connection = engine.take()
        order.append(number)
        engine.give(connection)

    connection = engine.take()
    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        waiting(engine, number + 1)
    engine.give(connection)
    connection = engine.take()
    order.append(99)
    engine.give(connection)
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4, 99]
    engine.close()


def test_a_writer_beside_threads_that_list_in_a_loop_gets_its_turn() -> None:
    """Between two writes, each of several threads that list without a pause gets at most a turn or two."""
    with connect("memory://") as store:
        task = store.task_store(SCOPE, attempt=1)
        task.set_many({f"k{number}": number for number in range(300)})
        reads = [0, 0, 0]
        stop = threading.Event()

        def listing(number: int) -> None:
            while not stop.is_set() and reads[number] < 5_000:
                task.items()
                reads[number] += 1

        threads = [threading.Thread(target=listing, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(reads), "all threads read")
        before = list(reads)
        for number in range(50):
            task.set("own", number)
        turns = [after - start for start, after in zip(before, reads, strict=True)]
        stop.set()
        for thread in threads:
            thread.join(30)
        assert max(turns) <= 110


def test_close_ends_those_that_wait() -> None:
    """Calls that stand in line when the store is closed raise, and the connection is closed by the call that holds it."""
    engine = SqliteEngine(None, clock=SystemClock())
    errors: list[BaseException] = []

    def work() -> None:
        try:
            engine.take()
        except BaseException as error:  # noqa: BLE001  (looked at below)
            errors.append(error)

    connection = engine.take()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    waiting(engine, 3)
    engine.close()
    for thread in threads:
        thread.join(30)
    assert [type(error) for error in errors] == [StoreClosedError] * 3
    engine.give(connection)
    assert engine._opened == 0
    with pytest.raises(StoreClosedError):
        engine.take()
