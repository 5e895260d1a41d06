"""Forks with an open store. Usage: forks.py SCENARIO PATH. Prints every acknowledged write as KEY."""

import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import closing

import milepost
from milepost import TaskScope
from milepost.metastore.engines import sqlite as engine

# Python warns of forks in a process with threads; here they are the point.
warnings.filterwarnings("ignore", ".*multi-threaded.*", DeprecationWarning)
# Scenarios end with the store open, as programs do that never close it.
warnings.filterwarnings("ignore", "unclosed database", ResourceWarning)

SCOPE = TaskScope("d", "r", "t", -1)
COUNT = 30


def acknowledge(key: str) -> None:
    """Print a key in one system call, so that lines of several processes do not mix."""
    os.write(1, f"{key}\n".encode())


def write(task: milepost.TaskStoreAccessor, name: str, count: int = COUNT) -> None:
    """Write and read back keys of one's own."""
    for number in range(count):
        task.set(f"{name}-{number}", number)
        acknowledge(f"{name}-{number}")
        assert task.get(f"{name}-{number}") == number


def in_child(work: Callable[[], None]) -> int:
    """Fork; the child does its work and is gone. Return its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001  (the child must not run on as if it were the parent)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended_well(pid: int) -> None:
    """Wait for a child and insist on success."""
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def both(store: milepost.Store) -> None:
    """Parent and child go on at the same time."""
    task = store.task_store(SCOPE)
    write(task, "before")

    def work() -> None:
        assert task.get("before-0") == 0
        write(task, "child")
        store.close()

    pid = in_child(work)
    write(task, "parent")
    ended_well(pid)
    write(task, "after")


def parent_closes(store: milepost.Store) -> None:
    """The parent closes while the child has the store in use, and the child writes on."""
    task = store.task_store(SCOPE)
    write(task, "before", 1)
    closed, ready = os.pipe(), os.pipe()

    def work() -> None:
        write(task, "early")
        os.write(ready[1], b".")
        os.read(closed[0], 1)
        write(task, "late")

    pid = in_child(work)
    os.read(ready[0], 1)
    write(task, "parent")
    store.close()
    os.write(closed[1], b".")
    ended_well(pid)


def parent_exits(store: milepost.Store) -> None:
    """The parent is gone before the child writes."""
    task = store.task_store(SCOPE)
    write(task, "before", 1)
    parent = os.getpid()

    def work() -> None:
        write(task, "early")
        while os.getppid() == parent:
            time.sleep(0.001)
        write(task, "late")
        os.kill(os.getpid(), signal.SIGKILL)

    in_child(work)
    write(task, "parent")


def child_closes(store: milepost.Store) -> None:
    """The child closes and the parent never notices."""
    task = store.task_store(SCOPE)
    write(task, "before")
    for round_ in range(10):
        ended_well(in_child(store.close))
        write(task, f"parent-{round_}", 3)


def while_writing(store: milepost.Store) -> None:
    """Threads write, a thread opens and closes stores on the same file, two threads fork."""
    task = store.task_store(SCOPE)
    write(task, "before", 1)
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  (shown by the main thread)
                failures.append(error)
                stop.set()

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def writer(name: str) -> None:
        number = 0
        while not stop.is_set():
            task.set(f"{name}-{number % 50}", number)
            number += 1

    def opener() -> None:
        while not stop.is_set():
            with milepost.connect(store.settings.url) as other:
                other.task_store(SCOPE).get("before-0")

    def forker(name: str) -> None:
        for round_ in range(6):
            ended_well(in_child(lambda: write(task, f"{name}-{round_}", 3)))  # noqa: B023  (used at once)

    forkers = [guarded(lambda name=name: forker(name)) for name in ("fork-1", "fork-2")]
    others = [guarded(lambda name=name: writer(name)) for name in ("thread-1", "thread-2")] + [guarded(opener)]
    for thread in forkers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert not failures, failures


def inside_a_call(store: milepost.Store) -> None:
    """A thread is stuck in a call, so that the fork cannot wait for it: the child refuses, also to connect anew."""
    engine._FORK_SECONDS = 0.2
    task = store.task_store(SCOPE)
    write(task, "before", 1)
    done, held = os.pipe(), os.pipe()

    def hold() -> None:
        with closing(sqlite3.connect(store.settings.url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            os.write(held[1], b".")
            os.read(done[0], 1)
            connection.execute("ROLLBACK")

    holder = in_child(hold)

    def work() -> None:
        task.set("stuck", 1)
        acknowledge("stuck")

    os.read(held[0], 1)
    task.get("before-0")
    thread = threading.Thread(target=work)
    thread.start()
    while store.metastore.engine._idle:
        time.sleep(0.001)

    def child() -> None:
        connect = lambda: milepost.connect(store.settings.url)  # noqa: E731
        for attempt in (lambda: task.set("child", 1), lambda: task.get("before-0"), connect):
            try:
                attempt()
            except milepost.errors.StoreClosedError as error:
                assert "fork" in str(error)  # noqa: PT017
            else:
                raise AssertionError("a child that shares SQLite's locks with its parent was let in")
        store.close()

    pid = in_child(child)
    os.write(done[1], b".")
    ended_well(pid)
    ended_well(holder)
    thread.join()
    write(task, "after", 3)


def pool(store: milepost.Store) -> None:
    """Workers of a multiprocessing pool that forks use the store that they inherit."""
    task = store.task_store(SCOPE)
    write(task, "before", 1)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write, args=(task, f"worker-{number}")) for number in range(4)]
    for process in processes:
        process.start()
    write(task, "parent")
    for process in processes:
        process.join()
        assert process.exitcode == 0


def many_forks(store: milepost.Store) -> None:
    """Eight threads fork at the same time with several stores open."""
    others = [milepost.connect(store.settings.url) for _ in range(5)]
    barrier = threading.Barrier(8)

    def work() -> None:
        for _ in range(20):
            barrier.wait()
            ended_well(in_child(lambda: None))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in (store, *others):
        other.task_store(SCOPE).set("n", 1)
        other.close()
    acknowledge("done")


def memory(_: milepost.Store) -> None:
    """A store in memory refuses in the child and goes on in the parent."""
    store = milepost.connect("memory://")
    task = store.task_store(SCOPE)
    task.set("n", 1)

    def work() -> None:
        for call in (lambda: task.get("n"), lambda: task.set("n", 2), lambda: task.increment("n")):
            try:
                call()
            except milepost.errors.StoreClosedError:
                continue
            raise AssertionError("the child could use it")
        store.close()

    ended_well(in_child(work))
    assert task.get("n") == 1
    task.set("n", 3)
    store.close()


if __name__ == "__main__":
    opened = milepost.connect(f"sqlite:///{sys.argv[2]}")
    globals()[sys.argv[1]](opened)
