"""The calls that all accessors share (SPEC 4.1 and 5)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import (
    InvalidKeyError,
    InvalidValueError,
    TaskScope,
    UnsupportedTypeError,
    ValueTooLargeError,
    VersionConflictError,
)

FALSY = [0, 0.0, False, "", [], {}]


def same(left: object, right: object) -> bool:
    """Tell whether two JSON values are equal, types and signs of zero included."""
    return type(left) is type(right) and repr(left) == repr(right)


def test_s01_falsy_values_are_values(accessor: Any) -> None:
    """S-01: a stored falsy value is never taken for an absent key."""
    for value in FALSY:
        accessor.set("k", value)
        assert same(accessor.get("k", default="MISSING"), value)
        assert "k" in accessor
        assert len(accessor) == 1
        assert same(accessor.items(), [("k", value)])
        assert same(accessor.get_many(["k"]), {"k": value})
        assert same(accessor.entry("k").value, value)
        assert same(accessor.set_default("k", "other"), value)


def test_s01_none_is_refused_and_keeps_the_old_value(accessor: Any) -> None:
    """S-01: None is refused at the call and the earlier value stays."""
    accessor.set("k", 0)
    with pytest.raises(InvalidValueError, match="None"):
        accessor.set("k", None)
    assert same(accessor.get("k"), 0)


def test_get_returns_the_default_only_when_absent(accessor: Any) -> None:
    """`get` gives the default, whatever it is, for an absent key and records nothing."""
    marker = object()
    assert accessor.get("k") is None
    assert accessor.get("k", marker) is marker
    assert accessor.entry("k") is None
    assert "k" not in accessor
    assert len(accessor) == 0


def test_s08_big_integers_stay_exact(accessor: Any) -> None:
    """S-08: integers beyond 53 and 64 bits come back as exact ints, nested too."""
    for number in (2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**70, 3544790567247868102):
        for value in (number, {"deep": [{"id": number}]}):
            accessor.set("k", value)
            assert same(accessor.get("k"), value)


def test_values_come_back_as_they_were(accessor: Any) -> None:
    """S-07: what get returns equals what was set, type, sign and key order included, NUL inside strings too."""
    looks_like = ["1", "007", "1.2.3", "null", "true", "  padded  ", "2025-10-14T00:00:00+00:00", "line1\nline2"]
    for value in (-0.0, 1, 1.0, True, *looks_like, "a\0b", {"k\0": 1}, {"b": 1, "a": [None, {}]}, "漢", "\ud7ff\U0010ffff"):
        accessor.set("k", value)
        assert same(accessor.get("k"), value)
        assert same(accessor.entry("k").value, value)
        assert same(accessor.items(), [("k", value)])


def test_s09_a_refused_value_leaves_the_old_one(accessor: Any) -> None:
    """S-09: an object that is not JSON is refused with its path, and the old value stays."""
    accessor.set("k", "old")
    for bad in ((1, 2), {1, 2}, b"x", {"a": (1, 2)}, {1: "a", "1": "b"}):
        with pytest.raises(UnsupportedTypeError, match=r"value|key"):
            accessor.set("k", bad)
        with pytest.raises(TypeError):
            accessor.set_default("other", bad)
        with pytest.raises(TypeError):
            accessor.compare_and_set("k", bad, version=None)
        with pytest.raises(TypeError):
            accessor.update("k", lambda _, bad=bad: bad)
    assert accessor.items() == [("k", "old")]


def test_s06_s07_what_json_cannot_hold_is_refused(accessor: Any) -> None:
    """S-06, S-07: NaN, infinities, lone surrogates and None raise ValueError through every writing call."""
    accessor.set("k", "old")
    writes = (
        lambda bad: accessor.set("k", bad),
        lambda bad: accessor.set_many({"new": 1, "k": bad}),
        lambda bad: accessor.set_default("new", bad),
        lambda bad: accessor.compare_and_set("new", bad, version=None),
        lambda bad: accessor.update("k", lambda _: bad),
    )
    for bad in ("\ud83d", ["\udce9.csv"], {"\ud83d": 1}, float("nan"), {"a": [1, float("inf")]}, None):
        for write in writes:
            with pytest.raises(ValueError, match=r"None|surrogate|JSON has no number"):
                write(bad)
    assert accessor.items() == [("k", "old")]


def test_s10_the_size_limit_counts_utf8_bytes(accessor: Any) -> None:
    """S-10: 65,536 bytes of JSON are stored whole, one more is refused, and CJK text counts as UTF-8."""
    whole = "x" * 65_534
    accessor.set("k", whole)
    assert accessor.get("k") == whole
    for bad in ("x" * 65_535, "漢" * 30_000):
        with pytest.raises(ValueTooLargeError, match=r"65,536.*state_backend"):
            accessor.set("k", bad)
    assert accessor.get("k") == whole


def test_s10_limit_zero_is_off(make: Any) -> None:
    """S-10: with max_value_bytes = 0 a value of 8 MiB round-trips."""
    task = make(max_value_bytes=0).task_store(TaskScope("d", "r", "t"))
    value = "漢x" * (2 * 1024 * 1024)
    task.set("k", value)
    assert task.get("k") == value


def test_delete_and_clear_of_nothing_are_silent(accessor: Any) -> None:
    """Deleting an absent key and clearing an empty store do nothing, without error."""
    accessor.delete("k")
    accessor.clear()
    assert accessor.keys() == []


def test_delete_drops_only_its_key(accessor: Any) -> None:
    """`delete` drops one key and no other."""
    accessor.set_many({"a": 1, "b": 2})
    accessor.delete("a")
    assert accessor.items() == [("b", 2)]
    accessor.clear()
    assert accessor.items() == []


def test_lists_are_sorted_by_code_point_and_filtered_by_prefix(accessor: Any) -> None:
    """`keys`, `items` and iteration are sorted by code point; a prefix is literal text, not a pattern."""
    keys = ["a", "A", "a%", "a_b", "ab", "é", "e\u0301", "\ud7ff", "\uffff", "𐀀", "\U0010ffff", "\U0010ffffx", "*"]
    accessor.set_many({key: number for number, key in enumerate(keys)})
    assert accessor.keys() == sorted(keys)
    assert list(accessor) == sorted(keys)
    assert accessor.items() == sorted(zip(keys, range(len(keys)), strict=True))
    for prefix in ("a", "a%", "a_", "*", "\ud7ff", "\U0010ffff", "none"):
        expected = sorted(key for key in keys if key.startswith(prefix))
        assert accessor.keys(prefix) == expected
        assert [key for key, _ in accessor.items(prefix)] == expected
    with pytest.raises(TypeError):
        accessor.keys(None)
    with pytest.raises(InvalidKeyError):
        accessor.items("\0")


def test_get_many_returns_the_present_keys(accessor: Any) -> None:
    """`get_many` gives a dict of the present keys in the order asked, none for none, whatever the keys look like."""
    odd = ["b", "a", '"', "\\", "é", "👍", "\uffff", "a,b", "1"]
    accessor.set_many({key: key for key in odd})
    assert list(accessor.get_many([*odd, "absent", "a"]).items()) == [(key, key) for key in odd]
    assert accessor.get_many([]) == {}
    assert accessor.get_many(iter(["a"])) == {"a": "a"}
    with pytest.raises(TypeError, match="several keys"):
        accessor.get_many("ab")


def test_set_many_is_all_or_nothing(accessor: Any) -> None:
    """A bad value or key in the middle of `set_many` stores nothing, and an empty mapping is no write."""
    accessor.set("a", "old")
    for bad in ({"a": 1, "b": float("nan"), "c": 3}, {"a": 1, "b": (1,), "c": 3}, {"a": 1, "": 2, "c": 3}):
        with pytest.raises((ValueError, TypeError)):
            accessor.set_many(bad)
    accessor.set_many({})
    with pytest.raises(TypeError, match="mapping"):
        accessor.set_many([("a", 1)])
    assert accessor.items() == [("a", "old")]
    accessor.set_many({"a": 1, "b": 2})
    assert accessor.items() == [("a", 1), ("b", 2)]
    assert accessor.entry("a").version != accessor.entry("b").version


def test_set_default_keeps_what_is_there(accessor: Any) -> None:
    """`set_default` writes only an absent key and returns what is stored."""
    assert accessor.set_default("k", 1) == 1
    version = accessor.entry("k").version
    assert accessor.set_default("k", 2) == 1
    assert accessor.entry("k").version == version


def test_compare_and_set_writes_over_its_version_only(accessor: Any) -> None:
    """`compare_and_set` writes over exactly the version given; None means "only if absent"."""
    first = accessor.compare_and_set("k", 1, version=None)
    assert accessor.entry("k").version == first
    with pytest.raises(VersionConflictError):
        accessor.compare_and_set("k", 2, version=None)
    second = accessor.compare_and_set("k", 2, version=first)
    assert second != first
    with pytest.raises(VersionConflictError):
        accessor.compare_and_set("k", 3, version=first)
    with pytest.raises(VersionConflictError, match="absent"):
        accessor.compare_and_set("other", 3, version=first)
    assert accessor.items() == [("k", 2)]


def test_a_version_is_never_seen_again(accessor: Any) -> None:
    """No two writes share a version, not even of the same value or after a delete."""
    versions = []
    for _ in range(5):
        accessor.set("k", 1)
        versions.append(accessor.entry("k").version)
        accessor.delete("k")
    assert len(set(versions)) == 5
    with pytest.raises(VersionConflictError):
        accessor.compare_and_set("k", 2, version=versions[0])


def test_increment_is_exact(accessor: Any) -> None:
    """`increment` counts from 0 and stays exact beyond 64 bits; int and float add as in Python."""
    assert same(accessor.increment("n"), 1)
    assert same(accessor.increment("n", 2**70), 2**70 + 1)
    assert same(accessor.increment("n", -(2**70)), 1)
    assert same(accessor.increment("n", 0.5), 1.5)
    assert same(accessor.increment("f", 0.1), 0.1)
    assert same(accessor.get("n"), 1.5)
    assert same(accessor.increment("n", 0), 1.5)


def test_increment_refuses_what_is_no_number(accessor: Any) -> None:
    """`increment` raises TypeError over or by something that is no number (a bool is none) and changes nothing."""
    for stored in (True, "1", [], {}, "text"):
        accessor.set("k", stored)
        with pytest.raises(TypeError, match="'k'"):
            accessor.increment("k")
        assert same(accessor.get("k"), stored)
    for by in (True, "1", None, 1j):
        with pytest.raises(TypeError):
            accessor.increment("new", by)
    assert "new" not in accessor


def test_increment_refuses_a_sum_that_cannot_be_stored(accessor: Any) -> None:
    """`increment` raises ValueError where the sum is not finite, or an int is too large to add a float to."""
    accessor.set("f", 1.7e308)
    accessor.set("i", 10**400)
    for key, by in (("f", 1.7e308), ("i", 0.5), ("f", float("nan"))):
        with pytest.raises(ValueError, match=r"number|large"):
            accessor.increment(key, by)
    assert same(accessor.items(), [("f", 1.7e308), ("i", 10**400)])


def test_update_retries_on_conflict(accessor: Any) -> None:
    """`update` reads again when another write came between, so no write is lost."""
    accessor.set("k", [1])
    calls = []

    def add(old: list[int]) -> list[int]:
        calls.append(list(old))
        if len(calls) == 1:
            accessor.set("k", [1, 2])
        return [*old, 3]

    assert accessor.update("k", add) == [1, 2, 3]
    assert calls == [[1], [1, 2]]
    assert accessor.get("k") == [1, 2, 3]


def test_update_of_an_absent_key_gets_the_default(accessor: Any) -> None:
    """`update` gives fn the default where the key is absent, and refuses None from it."""
    assert accessor.update("k", lambda old: [*old, 1], default=[]) == [1]
    with pytest.raises(ValueError, match="None"):
        accessor.update("k", lambda _: None)
    with pytest.raises(ZeroDivisionError):
        accessor.update("k", lambda _: 1 // 0)
    assert accessor.get("k") == [1]


def test_accessors_are_truthy(accessor: Any) -> None:
    """An accessor is truthy, empty or not."""
    assert bool(accessor) is True
    accessor.set("k", 0)
    assert bool(accessor) is True
