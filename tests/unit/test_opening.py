"""`aconnect` may be awaited, entered, and run as a coroutine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
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


def test_a_process_that_sets_a_key_loads_what_that_needs(url: str) -> None:
    """On the way from `import milepost` to a `set` of an attempt nothing is loaded for other calls, records and reports."""
    code = (
        "import sys, milepost\n"
        f"with milepost.connect({url!r}) as store:\n"
        "    task_store = store.task_store(milepost.TaskScope('d', 'r', 't'), attempt=1)\n"
        "    task_store.set('k', 1)\n"
        "    store.instances.finish(task_store.scope, 1, 'success')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('milepost.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("milepost.") for name in done.stdout.split()}
    assert {name for name in loaded if name.startswith("calls.")} == {"calls.attempts", "calls.base", "calls.entries"}
    operations = {name.rpartition(".")[2] for name in loaded if name.startswith("metastore.operations.")}
    assert operations == {"assets", "base", "entries", "lifecycle", "staging"}
    others = {"asset_records", "assets", "collection", "public", "registry", "reports", "run_records", "runs", "tokens"}
    assert loaded & others == set()
