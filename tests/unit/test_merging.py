"""Calls of one attempt that wait for one another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from milepost import StaleAttemptError, TaskScope, calls
from milepost.metastore.merging import Merger, line_of

SCOPE = TaskScope("dag", "run", "task")


def put(values: dict[str, str], *, fence: int | None = 1, **options: Any) -> calls.Put:
    """Return a write."""
    handle = calls.Handle(SCOPE, "task:1", instance_id=None if fence is None else 7, fence=fence)
    encoding = options.pop("encoding", 0)
    items = [calls.Item(key, text, encoding, f"{key}{text}") for key, text in values.items()]
    return calls.Put(handle, items, **options)


def get(key: str) -> calls.Get:
    """Return a read."""
    return calls.Get(calls.Handle(SCOPE, "task:1", instance_id=7, fence=1), key)


class Database:
    """Takes calls; each one ends when it is let go."""

    def __init__(self) -> None:
        self.merger = Merger(self.run)
        self.made: list[Any] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def run(self, call: calls.Call[Any]) -> Any:
        """Run a call; a read finds the keys ``a`` and ``b``."""
        if isinstance(call, calls.Put):
            self.made.append({item.key: item.text for item in call.items})
        else:
            assert isinstance(call, calls.Get | calls.GetMany)
            self.made.append(call.key if isinstance(call, calls.Get) else sorted(call.keys))
        await self.open.wait()
        if self.error is not None:
            raise self.error
        if isinstance(call, calls.GetMany):
            return [(key, key * 2, 0) for key in call.keys if key in ("a", "b")]
        return (call.key * 2, 0) if isinstance(call, calls.Get) else None

    def start(self, call: calls.Call[Any]) -> asyncio.Task[Any]:
        """Begin a call as one of several clients."""
        line = line_of(call)
        assert line is not None
        return asyncio.create_task(self.merger.call(call, line))


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in a loop of its own."""
    asyncio.run(test)


def test_writes_that_wait_go_together() -> None:
    """What arrives during a write is written at once when it is done, the last value of each key."""

    async def test() -> None:
        database = Database()
        tasks = [database.start(put(values)) for values in ({"a": "1"}, {"a": "2"}, {"b": "3", "c": "4"}, {"a": "5"})]
        await settle()
        assert database.made == [{"a": "1"}]
        assert not any(task.done() for task in tasks)
        database.open.set()
        await asyncio.gather(*tasks)
        assert database.made == [{"a": "1"}, {"a": "5", "b": "3", "c": "4"}]

    run(test())


def test_reads_that_wait_go_together() -> None:
    """Reads that arrive during a read are one, and each gets its own answer; they wait for no write."""

    async def test() -> None:
        database = Database()
        tasks = [database.start(one) for one in (put({"a": "1"}), *map(get, "aabc"))]
        await settle()
        assert database.made == [{"a": "1"}, "a"]
        database.open.set()
        assert await asyncio.gather(*tasks) == [None, ("aa", 0), ("aa", 0), ("bb", 0), None]
        assert database.made == [{"a": "1"}, "a", ["a", "b", "c"]]
        database.open = asyncio.Event()
        tasks = [database.start(get("b")) for _ in range(3)]
        await settle()
        database.open.set()
        assert await asyncio.gather(*tasks) == [("bb", 0)] * 3
        assert database.made[3:] == ["b", "b"]

    run(test())


def test_nobody_waits_for_another_attempt() -> None:
    """Writes that differ in their fence or their retention do not wait for one another."""

    async def test() -> None:
        database = Database()
        tasks = [database.start(one) for one in (put({"a": "1"}), put({"a": "2"}, fence=2), put({"a": "3"}, retention=-1))]
        await settle()
        assert database.made == [{"a": "1"}, {"a": "2"}, {"a": "3"}]
        database.open.set()
        await asyncio.gather(*tasks)

    run(test())


@pytest.mark.parametrize("one", [put({"a": "1"}, fence=None), put({"a": "1"}, encoding=1)], ids=["unfenced", "reference"])
def test_some_writes_go_alone(one: calls.Put) -> None:
    """A write without an attempt and one of a reference never go with others."""
    assert line_of(one) is None


def test_an_error_is_that_of_each() -> None:
    """Where writes that went together fail, each of them raises the error, and later writes are made again."""

    async def test() -> None:
        database = Database()
        first = database.start(put({"a": "1"}))
        await settle()
        others = [database.start(put({"a": str(number)})) for number in (2, 3)]
        database.error = StaleAttemptError("stale")
        database.open.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(one) for one in found] == [StaleAttemptError] * 3
        database.error = None
        await database.start(put({"a": "4"}))
        assert database.made == [{"a": "1"}, {"a": "3"}, {"a": "4"}]

    run(test())


def test_cancelled_before_it_begins() -> None:
    """A write that is cancelled while it waits is not made; the others are."""

    async def test() -> None:
        database = Database()
        first = database.start(put({"a": "1"}))
        await settle()
        gone, kept = database.start(put({"b": "2"})), database.start(put({"c": "3"}))
        await settle()
        gone.cancel()
        await settle()
        assert gone.cancelled()
        database.open.set()
        await asyncio.gather(first, kept)
        assert database.made == [{"a": "1"}, {"c": "3"}]

    run(test())


def test_cancelled_after_it_began() -> None:
    """A write that is cancelled on its way ends no sooner than the way does; what goes with it is not cancelled."""

    async def test() -> None:
        database = Database()
        first = database.start(put({"a": "1"}))
        await settle()
        others = [database.start(put({key: "2"})) for key in ("b", "c")]
        await settle()
        began, database.open = database.open, asyncio.Event()
        began.set()
        await first
        await settle()
        assert database.made == [{"a": "1"}, {"b": "2", "c": "2"}]
        others[0].cancel()
        await settle()
        assert not others[0].done()
        database.open.set()
        await others[1]
        await settle()
        assert others[0].cancelled()

    run(test())


def test_the_first_may_be_cancelled() -> None:
    """Where the write that others wait for is cancelled, they are made."""

    async def test() -> None:
        database = Database()
        first = database.start(put({"a": "1"}))
        await settle()
        other = database.start(put({"b": "2"}))
        await settle()
        first.cancel()
        await settle()
        database.open.set()
        await other
        assert first.cancelled()
        assert database.made == [{"a": "1"}, {"b": "2"}]

    run(test())


def test_only_so_many_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that together would be too many or too large go in several steps, in their order."""

    async def test() -> None:
        monkeypatch.setattr("milepost.metastore.merging._MOST_CHARS", 5)
        database = Database()
        tasks = [database.start(put({key: text})) for key, text in (("a", "1"), ("b", "123"), ("c", "123"), ("d", "1"))]
        await settle()
        database.open.set()
        await asyncio.gather(*tasks)
        assert database.made == [{"a": "1"}, {"b": "123"}, {"c": "123", "d": "1"}]

    run(test())
