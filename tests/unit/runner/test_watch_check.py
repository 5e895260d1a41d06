"""Finding triggers that store their cursor before they yield."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from milepost.runner import load_dags
from milepost.runner.watch.check import check_source, check_triggers
from milepost.sdk.triggers import collecting_watchers


def lines_found(body: str) -> list[tuple[int, int]]:
    """Return the lines that store and that yield of what is found in a ``run()``, counted from its first line."""
    text = "async def run(self):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return [(one.line, one.yielded) for one in check_source(text, file="f", first=1, trigger="T")]


EARLY = {
    "in the loop that never ends": """
        while True:
            await self.asset_store.aset("n", 1)
            yield TriggerEvent(1)
        """,
    "for each of what was found": """
        while True:
            for name in await self.look():
                await self.asset_store.aset("seen/" + name, True)
                yield TriggerEvent(name)
        """,
    "before the loop over what was found": """
        while True:
            rows = await self.rows()
            await self.asset_store.aset("n", rows[-1])
            for row in rows:
                yield TriggerEvent(row)
        """,
    "in a trigger that ends": """
        rows = await self.rows()
        await self.asset_store.aset("n", rows[-1])
        yield TriggerEvent(rows)
        """,
    "in one branch": """
        while True:
            if new := await self.look():
                await self.asset_store.aadvance("n", new)
            yield TriggerEvent(new)
        """,
    "through a subscript and a name": """
        cursor = self.asset_state_store[ORDERS]
        while True:
            async with self.lock:
                await cursor.acompare_and_set("n", 1, version=None)
            yield TriggerEvent(1)
        """,
    "in a try": """
        while True:
            try:
                await self.asset_store.aincrement("n")
                found = await self.look()
            except OSError:
                continue
            yield TriggerEvent(found)
        """,
    "in a thread": """
        async for message in self.queue:
            await asyncio.to_thread(self.asset_store.set, "n", message.offset)
            yield TriggerEvent(message.body)
        """,
    "blocking": """
        async for message in self.queue:
            self.asset_store.set("n", message.offset)
            yield TriggerEvent(message.body)
        """,
}


@pytest.mark.parametrize("body", EARLY.values(), ids=EARLY)
def test_a_cursor_stored_before_the_yield_is_found(body: str) -> None:
    """The line that stores too early is named, with the line of the yield behind it."""
    text = textwrap.dedent(body)
    rows = text.splitlines()
    stores = next(
        n for n, row in enumerate(rows, 2) if any(w in row for w in (".aset(", ".set(", ".set,", ".aadv", ".ainc", ".acomp"))
    )
    yields = next(number for number, row in enumerate(rows, 2) if "yield" in row)
    assert lines_found(body) == [(stores, yields)]


RIGHT = {
    "yield, then store": """
        while True:
            if new := await self.look():
                yield TriggerEvent(new)
                await self.asset_store.aset("n", new)
            await asyncio.sleep(1)
        """,
    "each by itself": """
        while True:
            for name in await self.look():
                yield TriggerEvent(name)
                await self.asset_store.aset("seen/" + name, True)
        """,
    "all, then store": """
        while True:
            rows = await self.rows()
            for row in rows:
                yield TriggerEvent(row)
            if rows:
                await self.asset_store.aset("n", rows[-1])
        """,
    "where to begin": """
        if await self.asset_store.aget("n") is None:
            await self.asset_store.aset("n", await self.newest())
        while True:
            yield TriggerEvent(await self.next())
            await self.asset_store.aset("n", 1)
        """,
    "a default": """
        while True:
            n = await self.asset_store.aset_default("n", 0)
            yield TriggerEvent(n)
            await self.asset_store.aset("n", n + 1)
        """,
    "nothing new": """
        while True:
            new = await self.look()
            if new is None:
                await self.asset_store.aset("looked", True)
                continue
            yield TriggerEvent(new)
        """,
    "another set": """
        while True:
            self.cache.set("n", 1)
            await other.aset("n", 1)
            yield TriggerEvent(1)
        """,
    "in a function of its own": """
        async def store():
            await self.asset_store.aset("n", 1)

        while True:
            yield TriggerEvent(1)
            await store()
        """,
    "by cases": """
        while True:
            match await self.look():
                case None:
                    await asyncio.sleep(1)
                case new:
                    yield TriggerEvent(new)
                    await self.asset_store.aset("n", new)
        """,
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_the_pattern_yield_then_store_passes(body: str) -> None:
    """Nothing is found where every event is yielded before its cursor is stored."""
    assert lines_found(body) == []


def test_own_methods_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that stores counts as storing, also one of a base class, and the message names file, lines and class."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "pipeline.py"
    path.write_text(
        textwrap.dedent(
            """\
            from milepost.sdk import *

            class Base(BaseEventTrigger):
                async def keep(self, value):
                    store = self.asset_store[Asset("orders")]
                    await store.aset("n", value)

            class Early(Base):
                async def run(self):
                    while True:
                        await self._remember(1)
                        yield TriggerEvent(1)

                async def _remember(self, value):
                    await self.keep(value)

            class Late(Base):
                async def run(self):
                    while True:
                        yield TriggerEvent(1)
                        await self.keep(1)

            watchers = [AssetWatcher("early", Early()), AssetWatcher("late", Late()), AssetWatcher("again", Early())]
            with DAG("d", schedule=Asset("orders", watchers=watchers)):
                pass
            """
        )
    )
    with collecting_watchers() as watchers:
        load_dags(path)
    (finding,) = check_triggers(watcher.trigger for watcher in watchers)
    assert finding == (str(path), 11, 12, "Early")
    assert str(finding).startswith(f"{path}:11: Early stores its cursor here, before it yields in line 12")


def test_text_left_of_the_code_and_a_run_without_a_definition_are_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text in several lines that begins at the margin is read over, in `run` and in a helper; a lambda is left alone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "pipeline.py"
    path.write_text(
        textwrap.dedent(
            """\
            from milepost.sdk import *

            class Early(BaseEventTrigger):
                async def run(self):
                    query = \"\"\"
            SELECT 1
            \"\"\"
                    await self.keep(query)
                    yield TriggerEvent(1)

                async def keep(self, value):
                    await self.asset_store.aset("n", \"\"\"
            text\"\"\")

            class Other(BaseEventTrigger):
                run = lambda self: Early.run(self)

            with DAG("d", schedule=Asset("a", watchers=[AssetWatcher("e", Early()), AssetWatcher("o", Other())])):
                pass
            """
        )
    )
    with collecting_watchers() as watchers:
        load_dags(path)
    assert check_triggers(watcher.trigger for watcher in watchers) == [(str(path), 8, 9, "Early")]
