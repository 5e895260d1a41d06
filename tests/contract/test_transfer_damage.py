"""Export of damaged rows, and imports of files that are cut or altered."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost import (
    Asset,
    InvalidValueError,
    ManualClock,
    Store,
    connect,
)
from milepost.transfer import files, rows
from tests.contract.conftest import sql
from tests.support.transfers import MAPPED, TASK, everything, signed


@pytest.fixture
def memory(clock: ManualClock) -> Iterator[Store]:
    """An empty store."""
    with connect("memory://", clock=clock) as store:
        yield store


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
