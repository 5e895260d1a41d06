"""Export and import: everything of a store, between any two databases."""

from __future__ import annotations

import asyncio
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import (
    Asset,
    BackendUnsupportedError,
    ConflictError,
    InstanceStateError,
    InvalidValueError,
    ManualClock,
    StaleAttemptError,
    Store,
    TaskScope,
    TransferReport,
    UnsupportedTypeError,
    connect,
)
from milepost.transfer import files, rows
from tests.contract.conftest import real, sql
from tests.support.servers import Database, Databases
from tests.support.transfers import GONE, HOSTED, KEYS, MAPPED, STAGING, TASK, VALUES, content, everything, exported, fill

KINDS = ("sqlite", "postgres", "mysql")


@pytest.fixture(scope="module")
def second(databases: Databases) -> Callable[[str], Database]:
    """Give a database beside the usual one of each kind, without rows."""
    made: dict[str, Database] = {}

    def give(kind: str) -> Database:
        if kind not in made:
            made[kind] = databases.fresh(kind)
            made[kind].schema()
        made[kind].empty()
        return made[kind]

    return give


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store."""
    with connect("memory://", clock=clock) as store:
        yield store


# One text serves all of them: a ring of pairs has each kind on both sides.
@pytest.mark.parametrize(("source", "target"), list(zip(KINDS, [*KINDS[1:], KINDS[0]], strict=True)))
def test_everything_goes_between_any_two_databases(
    source: str, target: str, databases: Databases, second: Any, clock: ManualClock, tmp_path: Path
) -> None:
    """An imported store exports the same lines, byte for byte, and works as the first did: reads, fences, archives."""
    first_url = f"sqlite:///{tmp_path}/a.db" if source == "sqlite" else databases.get(source).url
    second_url = f"sqlite:///{tmp_path}/b.db" if target == "sqlite" else second(target).url
    with connect(first_url, clock=clock) as one, connect(second_url, clock=clock) as two:
        fill(one, clock)
        text = exported(one)
        report = two.import_(io.BytesIO(text))
        assert content(exported(two)) == content(text)
        assert report.counts == json.loads(text.splitlines()[-1])["counts"]
        assert all(report.counts.values())
        assert report.damaged == 0
        for scope in (TASK, *MAPPED):
            mine, theirs = one.task_store(scope), two.task_store(scope)
            assert [(key, type(value), value) for key, value in mine.items()] == [
                (key, type(value), value) for key, value in theirs.items()
            ]
            assert [mine.entry(key) for key in mine] == [theirs.entry(key) for key in theirs]
            assert one.instances.get(scope) == two.instances.get(scope)
            assert one.runs.get_result(scope) == two.runs.get_result(scope)
            stripped = [
                [(archive.cause, archive.at, archive.writer, archive.keys) for archive in store.instances.archives(scope)]
                for store in (one, two)
            ]
            assert stripped[0] == stripped[1]
        assert two.task_store(TASK).get("expired") is None
        assert [(run.dag_id, run.run_id, run.params) for run in one.runs.list()] == [
            (run.dag_id, run.run_id, run.params) for run in two.runs.list()
        ]
        assert two.runs.get("dag", "later").holder is None
        assert two.asset_store(Asset("orders")).items() == one.asset_store(Asset("orders")).items()
        with pytest.raises(StaleAttemptError):
            two.task_store(TASK, attempt=1)
        with pytest.raises(StaleAttemptError):
            two.instances.open(GONE, 2, incarnation="i1 ")
        two.instances.finish(TASK, 2, "failed")
        with pytest.raises(InstanceStateError):
            two.instances.restore(TASK, archive=two.instances.archives(TASK)[-1].id)
        two.instances.restore(TASK, archive=two.instances.archives(TASK)[-1].id, force=True)
        assert two.task_store(TASK).get(KEYS[0]) == VALUES[0]
        for scope in STAGING:
            two.instances.finish(scope, 1, "success")
        cleared = two.instances.open(HOSTED, 2, incarnation="h 2", max_tries=2, run_clears=3)
        assert len(cleared["task_store"]) == 0  # more tries than at the attempt that was exported: a person cleared it
        assert [archive.cause for archive in two.instances.archives(HOSTED)] == ["clear"]
        assert two.asset_store(Asset("ö")).get("wm ") == 2
        records = [
            [(asset.name, asset.active, asset.references, asset.aliases, asset.deactivated_at, asset.deactivated_by)
             for asset in store.assets.list()]
            for store in (one, two)
        ]  # fmt: skip
        assert records[0] == records[1]
        two.task_store(TaskScope("new", "run", "task")).set("k", 1)
        two.asset_store(Asset("new")).set("k", 1)


def test_each_way_of_calling_imports_and_exports(store: Any, clock: ManualClock) -> None:
    """Blocking calls and their twins, with direct paths and without, import and export the same lines."""
    text = everything(clock)
    report = store.import_(io.BytesIO(text))
    stream = io.BytesIO()
    assert store.export(stream) == report
    assert isinstance(report, TransferReport)
    assert content(stream.getvalue()) == content(text)


def test_an_empty_store_can_be_transferred(memory: Store) -> None:
    """The export of an empty store has no rows and can be imported."""
    with connect("memory://") as empty:
        assert not any(memory.import_(io.BytesIO(exported(empty))).counts.values())


@pytest.mark.parametrize("size", [1, 2, 7])
def test_pages_of_any_size_give_the_same_lines(
    clock: ManualClock, memory: Store, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """How many rows a page or a batch has is of no matter to what is written."""
    text = everything(clock)
    monkeypatch.setattr(files, "_PAGE_ROWS", size)
    monkeypatch.setattr(files, "_RESULT_ROWS", 1)
    memory.import_(io.BytesIO(text))
    assert content(exported(memory)) == content(text)


def test_pages_of_servers_lose_no_row(store: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """On every database, pages of two rows begin where the one before ended, whatever the keys."""
    text = everything(clock)
    monkeypatch.setattr(files, "_PAGE_ROWS", 2)
    store.import_(io.BytesIO(text))
    assert content(exported(store)) == content(text)


def test_a_store_that_holds_anything_is_refused(store: Any, clock: ManualClock) -> None:
    """An import into a store with any rows is a ConflictError that names what is there, and changes nothing."""
    text = everything(clock)
    store.asset_store(Asset("a"))
    with pytest.raises(ConflictError, match="holds assets; name a new one"):
        store.import_(io.BytesIO(text))
    store.task_store(TASK).set("k", 1)
    with pytest.raises(ConflictError, match="holds runs, assets, entries;"):
        store.import_(io.BytesIO(text))
    assert store.task_store(TASK).items() == [("k", 1)]


def test_archives_whose_event_was_collected(store: Any, memory: Store) -> None:
    """What is left of a group whose head has been collected stays one archive, here and after the next transfer."""
    for value in range(2):
        store.task_store(TASK).set_many({"a": value, "b": value})
        store.instances.clear(TASK)
    sql(store, "DELETE FROM changes WHERE key IS NULL AND event IS NULL")
    text = exported(store)
    memory.import_(io.BytesIO(text))
    assert [archive.keys for archive in memory.instances.archives(TASK)] == [("a", "b"), ("a", "b")]
    assert content(exported(memory)) == content(text)
    assert memory.instances.restore(TASK) == 2
    assert memory.task_store(TASK).items() == [("a", 1), ("b", 1)]


def test_old_events_are_forgotten_alike(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few events are remembered, an export can be imported and gives the same lines."""
    for number in range(3):
        scope = TaskScope("dag", "run", str(number))
        memory.task_store(scope).set_many({"a": 1, "b": 2})
        memory.instances.clear(scope)
    first, *_, last = sorted(row[0] for row in sql(memory, "SELECT id FROM changes"))
    sql(memory, f"UPDATE changes SET event = {first} WHERE id = {last}")
    monkeypatch.setattr(rows.Events, "MOST", 1)
    text = exported(memory)
    with connect("memory://") as other:
        other.import_(io.BytesIO(text))
        assert content(exported(other)) == content(text)


class _Busy(io.BytesIO):
    """A stream in whose every write something else happens first."""

    def __init__(self, event: Callable[[], None]) -> None:
        super().__init__()
        self.event = event

    def write(self, data: Any) -> int:
        self.event()
        return super().write(data)


def test_an_export_beside_live_traffic_can_be_imported(store: Any, memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, assets and keys that come, change and go meanwhile, deleted and recorded anew, leave a file that is sound."""
    monkeypatch.setattr(files, "_PAGE_ROWS", 1)
    inner = real(store)
    steps = iter(range(10_000))

    def traffic() -> None:
        step = next(steps)
        if step > 60:
            return
        scope = TaskScope("dag", f"r{step % 4}", "task", step % 3)
        inner.task_store(scope).set_many({f"k{step}": step, "k": step})
        inner.instances.clear(scope)
        inner.task_store(scope).set("k", step)
        inner.asset_store(Asset(f"a{step % 5}")).set("k", step)
        if step % 7 == 6:
            inner.instances.delete_run("dag", f"r{(step + 1) % 4}")

    for _ in range(8):
        traffic()
    stream = _Busy(traffic)
    report = store.export(stream)
    assert report.damaged == 0
    text = stream.getvalue()
    memory.import_(io.BytesIO(text))
    assert content(exported(memory)) == content(text)


def test_writes_to_the_target_meanwhile_are_noticed(clock: ManualClock, memory: Store) -> None:
    """If something else writes to the store during the import, it says so and does not report success."""

    class Meddled(io.BytesIO):
        def seek(self, *place: int) -> int:
            memory.asset_store(Asset("meddler"))
            return super().seek(*place)

    with pytest.raises(ConflictError, match="8 asset rows for 7"):
        memory.import_(Meddled(everything(clock)))


def test_a_stream_that_cannot_be_read_twice(clock: ManualClock, memory: Store) -> None:
    """What comes from a pipe is copied first and checked in full before anything is written."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError("a pipe")

    text = everything(clock)
    with pytest.raises(InvalidValueError, match="is cut off"):
        memory.import_(Pipe(text[:-10]))
    memory.import_(Pipe(text))
    assert content(exported(memory)) == content(text)


def test_a_stream_is_read_from_where_it_stands(clock: ManualClock, memory: Store) -> None:
    """Both passes begin where the stream stood."""
    stream = io.BytesIO(b"before\n" + everything(clock))
    stream.readline()
    assert memory.import_(stream).counts["run"] > 0


def test_streams_of_text_are_refused(memory: Store) -> None:
    """A stream of text instead of bytes is a TypeError that says what to do."""
    with pytest.raises(UnsupportedTypeError, match="mode 'b'"):
        memory.export(io.StringIO())  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTypeError, match="mode 'b'"):
        memory.import_(io.StringIO())  # type: ignore[arg-type]


def test_a_store_with_a_backend_is_refused(clock: ManualClock) -> None:
    """Where a backend of the user's keeps the entries, export and import say so instead of losing them."""
    with connect("memory://", backend="tests.support.backends.DictBackend") as store:
        with pytest.raises(BackendUnsupportedError, match="they would be missing"):
            store.export(io.BytesIO())
        with pytest.raises(BackendUnsupportedError, match="they would be missing"):
            store.import_(io.BytesIO(everything(clock)))


async def test_a_cancelled_import_stops(clock: ManualClock, memory: Store) -> None:
    """A cancelled `aimport_` of a stream that never ends stops, and leaves the store empty."""
    header, run, *_ = everything(clock).splitlines(keepends=True)
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Endless(io.BytesIO):
        count = 0

        def readline(self, *_: Any) -> bytes:
            self.count += 1
            if self.count == 3_000:
                loop.call_soon_threadsafe(started.set)
            return header if self.count == 1 else run.replace(b'"first"', b'"%d"' % self.count)

    task = asyncio.ensure_future(memory.aimport_(Endless()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert memory.stats().runs == 0


def test_memory_does_not_grow_with_large_rows(memory: Store) -> None:
    """Rows of a mebibyte each are exported a few at a time."""
    for index in range(40):
        scope = TaskScope("dag", "run", "task", index)
        memory.task_store(scope, attempt=1)
        memory.runs.put_result(scope, 1, "x" * (1 << 20))

    class Sink(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    tracemalloc.start()
    try:
        memory.export(Sink())  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, f"{peak:,} bytes"
