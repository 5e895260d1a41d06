"""A row that someone damaged never hides the others (SPEC 3)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from milepost import DamagedEntryError, DamagedValue, InstanceStateError, ManualClock, Writer
from tests.contract.conftest import SCOPE, as_writer, sql

DAMAGE = {
    "not JSON": "value = '{oops'",
    "empty": "value = ''",
    "cut": """value = '{"a": [1'""",
    "two values": "value = '1 2'",
    "null": "value = 'null'",
    "NaN": "value = 'NaN'",
    "invalid UTF-8": "value = CAST(x'22ff22' AS TEXT)",
    "bytes": "value = x'31'",
    "too deep": f"value = '{'[' * 5_000}{']' * 5_000}'",
    "unknown encoding": "encoding = 77",
    "text for encoding": "encoding = 'zip'",
}
TIMES = ("updated_at = 'soon'", "created_at = 'once'", "writer = 'nobody'", f"created_at = {2**62}")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_value_is_marked_and_named(accessor: Any, store: Any, damage: str) -> None:
    """Lists show the good keys and mark the bad one; reading it names the key; overwrite, delete and clear work."""

    def hurt() -> None:
        accessor.set("bad", 1)
        sql(store, f"UPDATE entries SET {DAMAGE[damage]} WHERE key = 'bad'")

    accessor.set_many({"a": 1, "z": 2})
    hurt()
    assert accessor.keys() == ["a", "bad", "z"]
    assert len(accessor) == 3
    assert "bad" in accessor
    first, mark, last = accessor.items()
    assert (first, last) == (("a", 1), ("z", 2))
    assert mark[0] == "bad"
    assert isinstance(mark[1], DamagedValue)
    assert mark[1].key == "bad"
    assert mark[1].reason
    assert accessor.get_many(["a", "z"]) == {"a": 1, "z": 2}
    reads = (
        lambda: accessor.get("bad", "default"),
        lambda: accessor.entry("bad"),
        lambda: accessor.get_many(["a", "bad"]),
        lambda: accessor.set_default("bad", 1),
        lambda: accessor.update("bad", lambda _: 1),
        lambda: accessor.increment("bad"),
    )
    for read in reads:
        with pytest.raises(DamagedEntryError, match="'bad'"):
            read()
    accessor.set("bad", "mended")
    assert accessor.get("bad") == "mended"
    hurt()
    accessor.set_many({"bad": "mended", "a": 1})
    assert accessor.get("bad") == "mended"
    hurt()
    accessor.delete("bad")
    assert accessor.items() == [("a", 1), ("z", 2)]
    hurt()
    accessor.clear()
    assert accessor.items() == []


@pytest.mark.parametrize("damage", TIMES)
def test_damaged_times_and_writers_are_named(accessor: Any, store: Any, damage: str) -> None:
    """A damaged time or writer makes `entry` raise and name the key, and lists mark it; the value itself is still read."""
    accessor.set_many({"a": 1, "bad": 2})
    sql(store, f"UPDATE entries SET {damage} WHERE key = 'bad'")
    with pytest.raises(DamagedEntryError, match="'bad'"):
        accessor.entry("bad")
    assert accessor.get("bad") == 2
    first, mark = accessor.items()
    assert first == ("a", 1)
    assert isinstance(mark[1], DamagedValue)
    accessor.set("bad", 3)
    accessor.delete("bad")
    assert accessor.items() == [("a", 1)]


def test_text_in_expires_at(store: Any, clock: ManualClock) -> None:
    """A row whose expiry is no number is named by `entry`, hides no other, survives collection and can be mended."""
    task = store.task_store(SCOPE)
    task.set_many({"a": 1, "bad": 2, "due": 3}, retention=timedelta(hours=1))
    sql(store, "UPDATE entries SET expires_at = 'tomorrow' WHERE key = 'bad'")
    with pytest.raises(DamagedEntryError, match="'bad'"):
        task.entry("bad")
    assert [key for key, _ in task.items()] == ["a", "bad", "due"]
    clock.advance(hours=1)
    assert store.clean().expired == 2
    task.set("bad", 3)
    assert task.entry("bad").value == 3
    task.set("bad", 4, retention=timedelta(hours=1))
    task.delete("bad")
    assert task.items() == []


@pytest.mark.parametrize("key", ["CAST(x'6bff' AS TEXT)", "x'6bff'"], ids=["text", "bytes"])
def test_a_damaged_key_is_shown_and_can_be_cleared(accessor: Any, store: Any, key: str) -> None:
    """A key that is no UTF-8 is shown escaped beside the good ones, which work as before, and clear drops it."""
    accessor.set_many({"a": 1, "bad": 2})
    sql(store, f"UPDATE entries SET key = {key} WHERE key = 'bad'")
    assert accessor.keys() == ["a", r"k\xff"]
    assert list(accessor) == ["a", r"k\xff"]
    assert accessor.items()[0] == ("a", 1)
    assert accessor.items()[1][0] == r"k\xff"
    assert accessor.get("a") == 1
    assert accessor.get_many(["a", "k"]) == {"a": 1}
    accessor.set("b", 3)
    accessor.delete("a")
    assert accessor.keys() == ["b", r"k\xff"]
    accessor.clear()
    assert accessor.keys() == []


@pytest.mark.parametrize("writer", [Writer("python"), Writer("cli")])
def test_damaged_rows_live_through_clear_and_restore(store: Any, writer: Writer) -> None:
    """Damaged rows can be archived, listed, refused over, forced aside and restored like any other."""
    person = as_writer(store, writer)
    task = person.task_store(SCOPE)
    task.set_many({"a": 1, "bad": 2, "worse": 3})
    sql(store, "UPDATE entries SET value = CAST(x'ff' AS TEXT) WHERE key = 'bad'")
    sql(store, "UPDATE entries SET key = CAST(x'ff' AS TEXT) WHERE key = 'worse'")
    person.instances.clear(SCOPE)
    assert person.instances.archives(SCOPE)[0].keys == ("a", "bad", r"\xff")
    assert task.keys() == []
    assert person.instances.restore(SCOPE) == 3
    assert task.get("a") == 1
    with pytest.raises(InstanceStateError, match=re.escape(r"live keys (\xff, a, bad)")):
        person.instances.restore(SCOPE)
    assert person.instances.restore(SCOPE, force=True) == 3
    assert task.keys() == ["a", "bad", r"\xff"]
    task.clear()
    assert task.keys() == []


def test_verify_finds_a_good_store_good(store: Any) -> None:
    """`verify` raises nothing for a store whose schema and file are right, damaged rows or not."""
    store.task_store(SCOPE).set("k", 1)
    sql(store, "UPDATE entries SET value = 'x'")
    store.verify()
