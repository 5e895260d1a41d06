"""Opening and closing, interrupts, and event loops: nothing leaks, blocks or stays half done."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import milepost
from milepost.errors import DamagedStoreError, StoreClosedError, StoreError
from tests.conftest import Require
from tests.fault.helpers import SCOPE, Child, results, url, wait_until

DESCRIPTORS = Path("/proc/self/fd")


def open_files(folder: Path) -> list[str]:
    """Return which files of a folder this process has open."""
    found = []
    for link in DESCRIPTORS.iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # the descriptor that listed the folder
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found


def test_stores_that_are_opened_and_closed_leak_nothing(path: Path, require: Require) -> None:
    """After a hundred stores, some opened in vain and some used by threads and tasks, no file and no thread is left."""
    require("/proc", DESCRIPTORS.exists())
    foreign = path.with_name("foreign.txt")
    foreign.write_text("not a database " * 100)
    threads = threading.active_count()
    for number in range(100):
        with milepost.connect(url(path)) as store:
            task = store.task_store(SCOPE)
            task.set("n", number)
            if number % 10 == 0:
                asyncio.run(task.aset("n", number))
                workers = [threading.Thread(target=task.get, args=("n",)) for _ in range(4)]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
        with pytest.raises(DamagedStoreError):
            milepost.connect(url(foreign))
    gc.collect()
    assert open_files(path.parent) == []
    assert threading.active_count() == threads


@pytest.mark.parametrize("where", ["file", "memory"])
def test_closing_while_other_threads_are_in_calls_is_safe(where: str, path: Path) -> None:
    """Calls that run when `close` comes end well or with `StoreClosedError`, later ones with it; no write is lost."""
    for round_ in range(20):
        store = milepost.connect(url(path) if where == "file" else "memory://")
        task = store.task_store(SCOPE)
        acknowledged: dict[str, int] = {}
        failures: list[BaseException] = []
        began = threading.Barrier(5)

        def work(name: str, task=task, acknowledged=acknowledged, failures=failures, began=began) -> None:
            began.wait()
            try:
                for number in range(1_000_000):
                    task.set(name, number)
                    acknowledged[name] = number
                    task.get(name)
                    task.increment(f"{name}-count")
            except StoreClosedError:
                return
            except BaseException as error:  # noqa: BLE001  (looked at by the main thread)
                failures.append(error)

        workers = [threading.Thread(target=work, args=(f"w{round_}-{number}",)) for number in range(4)]
        for worker in workers:
            worker.start()
        began.wait()
        wait_until(lambda known=acknowledged: len(known) > 1, "writers at work")
        store.close()
        for worker in workers:
            worker.join()
        assert failures == []
        with pytest.raises(StoreClosedError):
            task.get("n")
        if where == "file":
            with milepost.connect(url(path)) as again:
                stored = again.task_store(SCOPE).get_many(acknowledged)
            assert all(stored[name] - number in (0, 1) for name, number in acknowledged.items())


@pytest.mark.parametrize("how", ["steps", "signals"])
def test_an_interrupt_leaves_no_transaction_and_loses_no_connection(how: str, path: Path) -> None:
    """Ctrl-C at any point of a call leaves the old or the new value, no open transaction and a store that works."""
    (struck,) = results("interrupts", how, path)
    assert int(struck) > 100


async def test_asynchronous_calls_do_not_block_the_event_loop(start: Callable[..., Child], path: Path) -> None:
    """While another process holds the write lock for a second, `aset` waits, `aget` answers and the loop goes on ticking."""
    ticks = 0

    async def heartbeat() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async with await milepost.aconnect(url(path)) as store:
        task = await store.atask_store(SCOPE)
        await task.aset("n", 1)
        beating = asyncio.create_task(heartbeat())
        locker = start("locker", path)
        await asyncio.to_thread(locker.expect, "held")
        writing = [asyncio.create_task(task.aset("n", 2)), asyncio.create_task(task.aincrement("m"))]
        before, began = ticks, time.monotonic()
        while time.monotonic() < began + 1 or ticks < before + 10:
            assert await task.aget("n") == 1
            assert not any(write.done() for write in writing)
            await asyncio.sleep(0.01)
        assert ticks >= before + 10
        locker.say("let go")
        await asyncio.wait_for(asyncio.gather(*writing), 30)
        assert (await task.aget("n"), await task.aget("m")) == (2, 1)
        beating.cancel()
    await asyncio.to_thread(locker.finish)


async def test_a_cancelled_call_is_whole_or_absent(path: Path) -> None:
    """A cancelled call leaves the old or the new value, at the latest when its task ends: never over a later write."""
    async with await milepost.aconnect(url(path)) as store:
        task = await store.atask_store(SCOPE)
        await task.aset_many({"a": -1, "b": -1})
        for number in range(200):
            call = asyncio.create_task(task.aset_many({"a": number, "b": number}))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            pair = await task.aget_many(["a", "b"])
            assert pair["a"] == pair["b"] <= number
        await task.aset_many({"a": 1000, "b": 1000})
    with milepost.connect(url(path)) as again:
        assert again.task_store(SCOPE).get_many(["a", "b"]) == {"a": 1000, "b": 1000}


async def test_a_cancelled_write_never_lands_on_a_later_one(start: Callable[..., Child], path: Path) -> None:
    """A cancelled write that is under way ends before its task does, so that a later write stays."""
    async with await milepost.aconnect(url(path)) as store:
        task = await store.atask_store(SCOPE)
        await task.aset("n", "first")
        locker = start("locker", path)
        await asyncio.to_thread(locker.expect, "held")
        call = asyncio.create_task(task.aset("n", "cancelled"))
        engine = store.metastore.engine
        await asyncio.to_thread(wait_until, lambda: not engine._idle, "the write is under way")
        call.cancel()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not call.done()
        locker.say("let go")
        with pytest.raises(asyncio.CancelledError):
            await call
        await task.aset("n", "later")
        await asyncio.to_thread(locker.finish)
    with milepost.connect(url(path)) as again:
        assert again.task_store(SCOPE).get("n") == "later"


async def test_calls_after_an_asynchronous_close_are_refused(path: Path) -> None:
    """After `aclose` both kinds of calls raise `StoreClosedError`; closing again does nothing."""
    store = await milepost.aconnect(url(path))
    task = store.task_store(SCOPE)
    await task.aset("n", 1)
    await store.aclose()
    await store.aclose()
    store.close()
    for call in (task.aget("n"), task.aset("n", 2), store.aclean()):
        with pytest.raises(StoreClosedError):
            await call
    with pytest.raises(StoreError):
        store.verify()
