"""Export and import: everything of a store, between any two databases."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from milepost import (
    NEVER_EXPIRE,
    Asset,
    BackendUnsupportedError,
    ConflictError,
    InstanceStateError,
    InvalidValueError,
    ManualClock,
    StaleAttemptError,
    Store,
    TaskOptions,
    TaskScope,
    TransferReport,
    UnsupportedTypeError,
    Writer,
    connect,
)
from milepost.transfer import files, rows
from tests.contract.conftest import as_writer, real, sql
from tests.support.servers import Database, Databases

KINDS = ("sqlite", "postgres", "mysql")
KEYS = ["a\nb", "k", "k ", " k", "K", "é", "e\u0301", "😀", "\x01\x7f", "a/b?c#d%e&f;g", ".", "..", "x" * 512, "\u2028"]
VALUES: list[Any] = [
    2**70,
    1,
    1.0,
    True,
    -0.0,
    0,
    "",
    [],
    {"b": 1, "a": [None, {}]},
    "nul\0nul",
    "2026-01-01",
    "é😀\n",
    1e300,
]
TASK = TaskScope("dag", "run", "täsk\n")
MAPPED = [TaskScope("dag", "run", "mapped", index) for index in (1, 0)]
GONE = TaskScope("gone", "run", "task")


def fill(store: Any, clock: ManualClock) -> None:
    """Put everything into a store that it can hold."""
    store.task_store(TaskScope("other", "first", "task")).set("by", "python")
    task = store.task_store(TASK, attempt=1)
    for key, value in zip(KEYS, VALUES, strict=False):
        task.set(key, value)
    task.set("expired", 1, retention=timedelta(seconds=1))
    store.instances.clear(TASK)
    clock.advance(minutes=1)
    task = store.task_store(TASK, attempt=2)
    for key, value in zip(KEYS, reversed(VALUES), strict=False):
        task.set(key, value)
    task.set("expired", 1, retention=timedelta(seconds=1))
    task.set("later", 2, retention=timedelta(days=400))
    task.set("never", 3, retention=NEVER_EXPIRE)
    store.runs.put_result(TASK, 2, json.dumps(["\0", "😀"], ensure_ascii=False))
    for writer in (Writer("cli"), Writer("api", user="ä:b"), Writer("watcher")):
        person = as_writer(store, writer)
        edited = person.task_store(TASK)
        edited.set(f"by {writer.kind}", writer.kind)
        edited.set("edited", writer.kind)
        person.asset_store(Asset("orders", uri="s3://orders")).set("by", writer.kind)
    as_writer(store, Writer("cli")).task_store(TASK).delete("edited")
    for scope in MAPPED:
        options = TaskOptions(clear_on_success=False, on_clear="keep")
        opened = store.instances.open(
            scope,
            1,
            item={"x": scope.map_index},
            item_name=f"item\n{scope.map_index}",
            outlets=[Asset("ö")],
            options=options,
        )
        opened["task_store"].set("k", scope.map_index)
        opened["asset_store"][Asset("ö")].set("wm ", scope.map_index)
        store.instances.finish(scope, 1, "success")
    orders = store.asset_store(Asset("orders", uri="s3://orders"))
    for value in range(4):
        orders.set("watermark", value)
    orders.delete("watermark")
    orders.set("watermark", {"at": "z"})
    store.asset_store(Asset("never written"))
    store.instances.open(GONE, 1, incarnation="i1 ")
    store.instances.open(GONE, 1, incarnation="i2")
    store.instances.delete_run("gone", "run")
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    store.runs.begin("dag", "later", params='{"p": 1}', logical_date=moment, holder="h", ttl=60)
    clock.advance(seconds=5)


def everything(clock: ManualClock) -> bytes:
    """Return the export of a store that holds everything."""
    with connect("memory://", clock=clock) as store:
        fill(store, clock)
        return exported(store)


def exported(store: Any) -> bytes:
    """Return what a store exports."""
    stream = io.BytesIO()
    store.export(stream)
    return stream.getvalue()


def content(text: bytes) -> list[bytes]:
    """Return the lines between header and footer."""
    return text.splitlines()[1:-1]


def signed(lines: list[bytes], header: bytes) -> bytes:
    """Return a file of these lines with a footer that fits."""
    counts = dict.fromkeys(rows.FIELDS, 0)
    for line in lines:
        if (kind := json.loads(line)["type"]) in counts:
            counts[kind] += 1
    whole = b"".join(line + b"\n" for line in lines)
    footer = {"type": "footer", "counts": counts, "sha256": hashlib.sha256(whole).hexdigest()}
    return header + b"\n" + whole + json.dumps(footer, separators=(",", ":")).encode() + b"\n"


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


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
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


def _altered(lines: list[bytes], kind: str, **parts: Any) -> list[bytes]:
    """Return lines with cells of the first of a kind changed."""
    at = next(place for place, line in enumerate(lines) if json.loads(line)["type"] == kind)
    changed = {**json.loads(lines[at]), **parts}
    return [*lines[:at], json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode(), *lines[at + 1 :]]


REFUSED: dict[str, tuple[Callable[[list[bytes], bytes], bytes], str]] = {
    "empty": (lambda lines, header: b"", "line 1: this is not the beginning"),
    "other JSON": (lambda lines, header: b'{"a": 1}\n', "line 1: this is not the beginning"),
    "no text": (lambda lines, header: b"\xff\xfe\x00" * 5000, "line 1: this is not the beginning"),
    "newer": (lambda lines, header: signed(lines, header.replace(b'"format":1', b'"format":2')), "format 2 is unknown"),
    "no footer": (lambda lines, header: b"\n".join([header, *lines]) + b"\n", "is cut off"),
    "cut": (lambda lines, header: signed(lines, header)[:-200], "is cut off"),
    "cut at the end": (lambda lines, header: signed(lines, header)[:-1], "is cut off"),
    "line gone": (lambda lines, header: signed(lines, header).replace(lines[-1] + b"\n", b""), "counts or checksum differ"),
    "byte changed": (
        lambda lines, header: signed(lines, header).replace(b"2026-01-01", b"2026-01-02", 1),
        "counts or checksum differ",
    ),
    "goes on": (lambda lines, header: signed(lines, header) + b"{}\n", "goes on after its end"),
    "bad JSON": (lambda lines, header: b"\n".join([header, b"{oops", b""]), "line 2: not JSON"),
    "deep JSON": (lambda lines, header: b"\n".join([header, b"[" * 100_000, b""]), "line 2: not JSON"),
    "unknown kind": (lambda lines, header: b"\n".join([header, b'{"type":"x"}', b""]), "type 'x' are unknown"),
    "list": (lambda lines, header: b"\n".join([header, b"[1]", b""]), "type None are unknown"),
    "unhashable kind": (lambda lines, header: b"\n".join([header, b'{"type":[]}', b""]), r"type \[\] are unknown"),
    "another cell": (lambda lines, header: signed(_altered(lines, "run", more=1), header), "not as `milepost export`"),
    "other spaces": (lambda lines, header: signed([lines[0] + b" ", *lines[1:]], header), "not as `milepost export`"),
    "surrogate": (lambda lines, header: signed(_altered_surrogate(lines), header), "not as `milepost export`"),
    "bad key": (lambda lines, header: signed(_altered(lines, "task_entry", key=""), header), "key must not be empty"),
    "bad index": (lambda lines, header: signed(_altered(lines, "instance", map_index=-2), header), "map_index is -2"),
    "text for a time": (lambda lines, header: signed(_altered(lines, "run", created_at="x"), header), "created_at is 'x'"),
    "true for a time": (lambda lines, header: signed(_altered(lines, "run", created_at=True), header), "created_at is True"),
    "too big": (lambda lines, header: signed(_altered(lines, "run", created_at=2**63), header), "created_at is 9223"),
    "NaN": (lambda lines, header: signed(_altered(lines, "run", created_at=float("nan")), header), "created_at is nan"),
    "no value": (lambda lines, header: signed(_altered(lines, "task_entry", value=None), header), "value is no text"),
    "NUL": (lambda lines, header: signed(_altered(lines, "task_entry", value="\0"), header), "value has a NUL"),
    "no owner": (
        lambda lines, header: signed(_altered(lines, "task_entry", task_id="?"), header),
        "dag/run/\\?.*, which it belongs to|other/first/\\?, which it belongs to",
    ),
    "no run": (lambda lines, header: signed(_altered(lines, "instance", run_id="?"), header), "does not come before it"),
    "half an owner": (lambda lines, header: signed(_altered(lines, "change", dag_id=None), header), "owner is not whole"),
    "twice": (lambda lines, header: signed([lines[0], *lines], header), "is there twice"),
    "out of order": (lambda lines, header: signed([*lines, lines[0]], header), "out of order"),
    "keys out of order": (lambda lines, header: signed(_swapped(lines, "task_entry", 5), header), "rows are out of order"),
    "events out of order": (lambda lines, header: signed(_swapped(lines, "change", 0), header), "numbers of the change log"),
    "unknown event": (
        lambda lines, header: signed(_altered(lines, "change", event=77), header),
        "numbers of the change log",
    ),
}


def _swapped(lines: list[bytes], kind: str, place: int) -> list[bytes]:
    at = [number for number, line in enumerate(lines) if json.loads(line)["type"] == kind][place]
    return [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]


def _altered_surrogate(lines: list[bytes]) -> list[bytes]:
    at = next(place for place, line in enumerate(lines) if b'"value":' in line)
    changed = {**json.loads(lines[at]), "value": "\ud800"}
    return [*lines[:at], json.dumps(changed, separators=(",", ":")).encode(), *lines[at + 1 :]]


@pytest.mark.parametrize("name", REFUSED)
def test_a_cut_or_altered_file_is_refused(clock: ManualClock, memory: Store, name: str) -> None:
    """A file that is not whole or not as an export left it is refused with its line before anything is written."""
    header, *lines = everything(clock).splitlines()[:-1]
    damage, message = REFUSED[name]
    with pytest.raises(InvalidValueError, match=message) as caught:
        memory.import_(io.BytesIO(damage(lines, header)))
    assert str(caught.value).startswith("line ")
    assert not any(memory.stats().__getattribute__(name) for name in ("runs", "instances", "entries", "assets", "changes"))


def test_damaged_rows_are_named_and_left_out(store: Any, memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that someone damaged are counted, named with owner, key and reason, and everything else is exported."""
    monkeypatch.setattr(files, "_PAGE_ROWS", 1)
    task = store.task_store(TASK)
    task.set_many({"a": 1, "bad": 2, "odd": 3, "text": "{oops", "z": 4})
    store.asset_store(Asset("a")).set("k", 1)
    sql(store, "UPDATE entries SET value = CAST(x'22ff22' AS TEXT) WHERE key = 'bad'")
    sql(store, "UPDATE entries SET encoding = 'zip' WHERE key = 'odd'")
    stream = io.BytesIO()
    report = store.export(stream)
    assert report.damaged == 2
    assert [(row.kind, row.owner, row.key) for row in report.first] == [
        ("task_entry", "dag/run/täsk\n", "bad"),
        ("task_entry", "dag/run/täsk\n", "odd"),
    ]
    assert "its value is no text: b'" in str(report.first[0])
    assert "its encoding is 'zip'" in report.first[1].reason
    stream.seek(0)
    memory.import_(stream)
    assert memory.task_store(TASK).items() == [("a", 1), ("text", "{oops"), ("z", 4)]
    assert memory.asset_store(Asset("a")).items() == [("k", 1)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("key", ["CAST(x'62ff' AS TEXT)", "x'62ff'", "''", "CAST(x'620063' AS TEXT)"])
def test_damaged_keys_stop_no_page(store: Any, monkeypatch: pytest.MonkeyPatch, key: str, size: int) -> None:
    """A key that is no text or breaks the rules, also at the end of a page, is named, and no key after it is lost."""
    monkeypatch.setattr(files, "_PAGE_ROWS", size)
    for scope in (TASK, MAPPED[0]):
        store.task_store(scope).set_many({"a": 1, "bad": 2, "c": 3, "d": 4})
    sql(store, f"UPDATE entries SET key = {key} WHERE key = 'bad'")
    stream = io.BytesIO()
    report = store.export(stream)
    assert (report.damaged, report.counts["task_entry"]) == (2, 6)
    assert all(row.key is not None for row in report.first)
    stream.seek(0)
    with connect("memory://") as other:
        other.import_(stream)
        assert other.task_store(MAPPED[0]).items() == [("a", 1), ("c", 3), ("d", 4)]


@pytest.mark.parametrize(
    "damage", ["instances SET item = x'ff'", "runs SET params = x'ff'", "instances SET opened_at = 'x'"]
)
def test_a_damaged_owner_takes_what_it_owns_along(memory: Store, damage: str) -> None:
    """What belongs to a damaged run or instance is left out and named too, and the file stays one that can be imported."""
    memory.task_store(TASK, attempt=1).set("k", 1)
    memory.instances.clear(TASK)
    memory.task_store(TASK, attempt=2).set("k", 2)
    memory.runs.put_result(TASK, 2, "1")
    memory.asset_store(Asset("a")).set("k", 1)
    sql(memory, f"UPDATE {damage}")
    stream = io.BytesIO()
    report = memory.export(stream)
    assert report.counts["task_entry"] == report.counts["result"] == report.counts["instance"] == 0
    assert [row.kind for row in report.first if row.reason == rows.OWNER_DAMAGED][-4:] == [
        "task_entry", "change", "change", "result",
    ]  # fmt: skip
    stream.seek(0)
    with connect("memory://") as other:
        other.import_(stream)
        assert other.asset_store(Asset("a")).items() == [("k", 1)]


def test_entries_of_nobody_are_named(memory: Store) -> None:
    """An entry whose owner is not there is reported, not exported."""
    memory.task_store(TASK).set("k", 1)
    sql(memory, "UPDATE entries SET owner_id = 99")
    report = memory.export(io.BytesIO())
    assert (report.damaged, report.counts["task_entry"]) == (1, 0)
    assert str(report.first[0]) == "task_entry 'k': what it belongs to is gone"


def test_no_more_than_a_hundred_damaged_rows_are_kept(memory: Store) -> None:
    """All damaged rows are counted; the first hundred are named."""
    memory.task_store(TASK).set_many({f"k{number:03}": number for number in range(150)})
    sql(memory, "UPDATE entries SET writer = x'31'")
    report = memory.export(io.BytesIO())
    assert (report.damaged, len(report.first)) == (150, 100)


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

    with pytest.raises(ConflictError, match="4 asset rows for 3"):
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
