"""The strict JSON codec (SPEC 3)."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections import OrderedDict, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import InvalidValueError, UnsupportedTypeError, ValueTooLargeError
from milepost.values import MAX_DEPTH, MOST_BYTES, canonical, decode, encode, loads_strict


class Colour(IntEnum):
    """An int that is more than an int."""

    RED = 1


class Text(str):
    """A str that is more than a str."""

    __slots__ = ()


class Scalar:
    """What NumPy scalars look like from outside."""

    dtype = "int64"

    def item(self) -> int:
        """Return the plain number."""
        return 1


Point = namedtuple("Point", "x")


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal to the last type, sign and key order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return math.copysign(1, left) == math.copysign(1, right) and left == right
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


def nested(depth: int, kind: type = list) -> Any:
    """Return containers nested so deep."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"k": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(0, 0.0, False, "", [], {}),
        *(1, 1.0, True, "1", -0.0, 5e-324, 1.7976931348623157e308, 0.1),
        *(2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**70, 3544790567247868102, -(10**4000)),
        *("a\0b", {"k\0": 1}, "\x7f\x1f\u2028\ufeff\uffff", "👍e\u0301", "\ud7ff\ue000\U0010ffff", "007", "null"),
        *([None, [None]], {"b": 1, "a": {"": None}}, {"1": 1, "01": 1.0, "true": True}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_s01_s07_s08_values_come_back_as_they_were(value: Any) -> None:
    """S-01, S-07, S-08: decode(encode(v)) is v, in type, sign, digits and key order."""
    assert same(decode(encode(value)), value)


WEIRD = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.integers(-(2**200), 2**200) | WEIRD
    | st.floats(allow_nan=False, allow_infinity=False)
)  # fmt: skip
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WEIRD, inner, max_size=4))


@given(JSON.filter(lambda value: value is not None))
def test_any_json_value_round_trips(value: Any) -> None:
    """Whatever JSON value goes in comes back, deep types included, and canonical text is stable."""
    text = encode(value, 0)
    assert same(decode(text), value)
    assert same(loads_strict(text), value)
    assert canonical(decode(canonical(value))) == canonical(value)


@given(st.dictionaries(WEIRD, st.integers(), min_size=2, max_size=5))
def test_canonical_text_ignores_key_order(value: dict[str, int]) -> None:
    """Equal objects share one canonical text whatever their key order, while encode keeps the order."""
    turned = dict(reversed(value.items()))
    assert canonical(turned) == canonical(value)
    assert encode(turned, 0) != encode(value, 0)


def test_the_text_is_compact_and_unescaped() -> None:
    """The stored text has no blanks and leaves non-ASCII characters as they are."""
    assert encode({"é": [1, 2.5, None, True, "漢"]}) == '{"é":[1,2.5,null,true,"漢"]}'


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e400], ids=repr)
def test_s06_nan_and_infinities_are_refused_at_any_depth(bad: float) -> None:
    """S-06: NaN and infinities are ValueError at any depth, with their path."""
    for value, path in ((bad, "value"), ([bad], r"value\[0\]"), ({"a": [1, {"b": bad}]}, r"value\['a'\]\[1\]\['b'\]")):
        with pytest.raises(InvalidValueError, match=rf"^{path} is -?(nan|inf)"):
            encode(value)


def test_s07_lone_surrogates_are_refused() -> None:
    """S-07: lone surrogates are ValueError in strings and in object keys, with their path."""
    for value, path in (
        ("\ud83d", "value"),
        (["fine", "\udce9.csv"], r"value\[1\]"),
        ({"\ud83d": 1}, "the key .* of value"),
        ({"a": {"b\udfff": 1}}, r"the key .* of value\['a'\]"),
    ):
        with pytest.raises(InvalidValueError, match=f"^{path} has a lone surrogate"):
            encode(value)


def test_none_is_refused_at_the_top_only() -> None:
    """S-01: None itself is ValueError that says how to drop a key; inside it is a value."""
    with pytest.raises(InvalidValueError, match="delete the key instead"):
        encode(None)
    assert decode(encode([None])) == [None]


@pytest.mark.parametrize(
    ("bad", "cast"),
    [
        ((1, 2), "list"),
        (Point(1), "list"),
        ({1, 2}, "sorted"),
        (frozenset(), "sorted"),
        (b"x", "decode"),
        (bytearray(b"x"), "decode"),
        (dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), r"\.isoformat\(\)"),
        (dt.date(2026, 1, 1), r"\.isoformat\(\)"),
        (dt.timedelta(1), "total_seconds"),
        (Decimal("1.1"), "str"),
        (Fraction(1, 3), "str"),
        (UUID(int=1), "str"),
        (Path("x"), "str"),
        (Colour.RED, r"int\("),
        (Text("x"), r"str\("),
        (OrderedDict(a=1), r"dict\("),
        (Scalar(), r"\.item\(\)"),
        (object(), "cast"),
        (1j, "cast"),
        (NotImplemented, "cast"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_s09_foreign_objects_are_refused_with_path_and_cast(bad: Any, cast: str) -> None:
    """S-09: what would not come back as itself is TypeError that names the path, the type and the cast."""
    for value, path in ((bad, "value"), ({"a": [0, bad]}, r"value\['a'\]\[1\]")):
        with pytest.raises(UnsupportedTypeError, match=rf"^{path} is a {type(bad).__name__}.*{cast}"):
            encode(value)


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("x", None), b"k", Text("k")], ids=repr)
def test_s09_object_keys_are_exact_strs(key: Any) -> None:
    """S-09: a dict key that is no exact str is TypeError with the path, so that no two keys merge."""
    for value, path in (({key: "a", "1": "b"}, "value"), ([{"x": {key: 1}}], r"value\[0\]\['x'\]")):
        with pytest.raises(UnsupportedTypeError, match=rf"^{path} has the key .*{type(key).__name__}.*str\("):
            encode(value)


def test_cycles_are_refused_and_shared_parts_are_not() -> None:
    """A container inside itself is ValueError; the same container twice beside itself is fine."""
    ring: list[Any] = []
    ring.append(ring)
    knot: dict[str, Any] = {"a": {}}
    knot["a"]["b"] = [1, knot]
    for value, path in ((ring, r"value\[0\]"), (knot, r"value\['a'\]\['b'\]\[1\]")):
        with pytest.raises(InvalidValueError, match=rf"^{path} contains itself"):
            encode(value)
    shared = [1]
    assert decode(encode([shared, shared, {"a": shared}])) == [[1], [1], {"a": [1]}]


@pytest.mark.parametrize("kind", [list, dict])
def test_200_levels_are_accepted_and_201_refused(kind: type) -> None:
    """A scalar is level 0 and each container adds 1: 200 levels are stored, 201 are ValueError."""
    assert MAX_DEPTH == 200
    assert same(decode(encode(nested(200, kind))), nested(200, kind))
    for depth in (201, 500, 50_000):
        with pytest.raises(InvalidValueError, match="deeper than 200"):
            encode(nested(depth, kind))


def test_integers_above_pythons_digit_limit_are_refused() -> None:
    """S-08: an integer with more digits than Python converts is ValueError with its path; one at the limit is stored."""
    limit = sys.get_int_max_str_digits()
    most = 10**limit - 1
    assert same(decode(encode(most)), most)
    for value, path in ((10**limit, "value"), ({"a": [-(10**limit)]}, r"value\['a'\]\[0\]")):
        with pytest.raises(InvalidValueError, match=f"^{path} is too large an integer"):
            encode(value)


def test_s10_the_limit_counts_utf8_bytes() -> None:
    """S-10: 65,536 bytes pass and 65,537 do not; CJK text counts as UTF-8, not as characters or escapes."""
    assert len(encode("x" * 65_534)) == 65_536
    with pytest.raises(ValueTooLargeError, match=r"65,537.*65,536.*state_backend") as caught:
        encode("x" * 65_535)
    assert (caught.value.size, caught.value.limit) == (65_537, 65_536)
    with pytest.raises(ValueTooLargeError) as caught:
        encode("漢" * 30_000)
    assert caught.value.size == 90_002
    assert encode("漢" * 21_844)
    assert encode("漢" * 30_000, 90_002)
    with pytest.raises(ValueTooLargeError):
        encode("漢" * 30_000, 90_001)
    assert len(encode("x" * 2**20, 0)) == 2**20 + 2


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        " ",
        "{",
        "[1",
        "nul",
        "null",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1 2",
        '"a',
        "{'a':1}",
        b"1",
        None,
        1,
        "[" * 10_000,
    ],
    ids=lambda value: repr(value)[:12],
)
def test_damaged_text_is_a_value_error(damaged: Any) -> None:
    """`decode` turns every damaged text into ValueError and into nothing else."""
    with pytest.raises(ValueError, match=r"."):
        decode(damaged)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ufeff1", "byte order mark"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b'"\xff"', "UTF-8 at byte 1"),
        (b'"\xed\xa0\xbd"', "UTF-8"),
        ('{"a":1,"a":2}', "'a' twice"),
        ('[{"b":{"x":1,"y":2,"x":3}}]', "'x' twice"),
        ("NaN", "NaN is not JSON"),
        ('{"a":[Infinity]}', "Infinity is not JSON"),
        ("-Infinity", "not JSON"),
        ("", "not valid JSON"),
        ("{'a':1}", "not valid JSON"),
        ("1 2", "not valid JSON"),
        ('"\n"', "not valid JSON"),
        ("1" * 5_000, "not valid JSON"),
        ("[" * 100_000, "nested deeper"),
    ],
    ids=lambda value: repr(value)[:16],
)
def test_loads_strict_refuses(text: Any, said: str) -> None:
    """JSON from outside: a BOM, invalid UTF-8, duplicate keys, NaN literals and malformed text are InvalidValueError."""
    with pytest.raises(InvalidValueError, match=said):
        loads_strict(text)


def test_loads_strict_reads_text_and_bytes() -> None:
    """`loads_strict` gives the value of good text or UTF-8 bytes; None and escaped surrogates are the caller's to refuse."""
    assert same(loads_strict(' {"b": -0.0, "a": [1, 1.0, true, null]} '), {"b": -0.0, "a": [1, 1.0, True, None]})
    assert loads_strict("漢".encode().join([b'"', b'"'])) == "漢"
    assert loads_strict("null") is None
    with pytest.raises(InvalidValueError, match="surrogate"):
        encode(loads_strict(r'"\ud83d"'))
    with pytest.raises(InvalidValueError, match="no number"):
        encode(loads_strict("1e400"))


@given(st.text(st.sampled_from('{}[]":,0123456789.eE+-truefalsnlNaI \\u\ud83dd\x00é'), max_size=30) | st.binary(max_size=30))
def test_fuzzed_text_is_a_value_or_a_value_error(text: str | bytes) -> None:
    """Whatever text comes from outside, loads_strict and encode give a value or InvalidValueError, nothing else."""
    try:
        value = loads_strict(text)
        assert same(decode(encode(value)), value)
    except InvalidValueError:
        pass


def shared(levels: int, leaf: Any) -> list[Any]:
    """Return a small object whose text has 2**levels leaves."""
    value = [leaf]
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize("limit", [0, 65_536])
@pytest.mark.parametrize("leaf", [1, "x" * 1_000_000, {"k": []}])
def test_parts_that_recur_without_end_are_refused_by_size(limit: int, leaf: Any) -> None:
    """A small object that refers to its parts again and again is refused at once, limit or not, with its exact size."""
    size = len(json.dumps(leaf, separators=(",", ":"))) + 2
    for _ in range(60):
        size = 2 * size + 3
    with pytest.raises(ValueTooLargeError) as caught:
        encode(shared(60, leaf), limit)
    assert (caught.value.size, caught.value.limit) == (size, limit or MOST_BYTES)
    with pytest.raises(ValueTooLargeError):
        encode({"a": 1, "b": [shared(150, leaf)]}, limit)


def test_faults_beside_parts_that_recur_are_still_named() -> None:
    """Behind parts that recur without end, a bad type, a cycle and too many levels are found and named."""
    many = shared(60, 1)
    with pytest.raises(UnsupportedTypeError, match=r"value\[1\] is a tuple"):
        encode([many, (1,)])
    many_with_cycle: list[Any] = [many]
    many_with_cycle.append(many_with_cycle)
    with pytest.raises(InvalidValueError, match=r"value\[1\] contains itself"):
        encode(many_with_cycle)
    with pytest.raises(InvalidValueError, match="nested deeper than 200"):
        encode(shared(250, 1))


def test_a_value_of_many_parts_that_fits_is_stored_whole() -> None:
    """The early look at the size refuses nothing that fits: at the very limit, with parts that recur, it is stored."""
    for value in ([[]] * 1_000, shared(8, "é\n"), {"a": [{}, {"b": [1.5, None, True]}] * 20}):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode())
        assert encode(value, size) == text
        with pytest.raises(ValueTooLargeError) as caught:
            encode(value, size - 1)
        assert caught.value.size == size
