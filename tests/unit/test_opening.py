"""`aconnect` may be awaited, entered, and run as a coroutine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from milepost import ConfigurationError, StoreClosedError, TaskScope, aconnect

SCOPE = TaskScope("d", "r", "t")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a new file."""
    return f"sqlite:///{tmp_path / 'store.db'}"


def test_it_is_entered_and_closed(url: str) -> None:
    """`async with aconnect(…)` gives the store and closes it at the end."""

    async def use() -> None:
        async with aconnect(url) as store:
            await store.task_store(SCOPE).aset("k", 1)
        with pytest.raises(StoreClosedError):
            await store.task_store(SCOPE).aget("k")

    asyncio.run(use())


def test_it_is_awaited(url: str) -> None:
    """`await aconnect(…)` gives the store, which is an asynchronous context manager itself."""

    async def use() -> None:
        async with await aconnect(url) as store:
            assert await store.task_store(SCOPE).aget("k") is None

    asyncio.run(use())


def test_it_is_a_coroutine(url: str) -> None:
    """What runs coroutines takes it: `asyncio.run`, tasks, time-outs."""
    asyncio.run(aconnect(url)).close()

    async def use() -> None:
        for store in (await asyncio.create_task(aconnect(url)), await asyncio.wait_for(aconnect(url), 60)):
            await store.aclose()

    asyncio.run(use())


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    """A bad setting is an error of the wait, and nothing is left to close."""

    async def use() -> None:
        with pytest.raises(ConfigurationError, match="sqlite:///a"):
            async with aconnect("a"):
                pytest.fail("entered")

    asyncio.run(use())
