"""The codec of results: what tasks return comes back as it was, and nothing else is taken."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.runner import ResultDamagedError
from milepost.runner.results import MAX_BYTES, MAX_DEPTH, TAG, decode, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(timezone.utc))
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
)
keys = st.text() | st.sampled_from([TAG, "value"])
hashable = scalars | st.tuples(scalars, scalars)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner) | st.sets(hashable),
)


def same(one, other) -> bool:
    """Compare with types, inside containers too."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return repr(one) == repr(other)
    return one == other


@given(values)
def test_round_trip(value):
    """Whatever can be returned comes back equal, types and the order of keys included."""
    assert same(decode(encode(value, "t")), value)


@pytest.mark.parametrize(
    "value",
    [
        {TAG: "tuple", "value": [1]},
        {TAG: None},
        [{"value": {TAG: {TAG: ()}}}],
        {TAG: "dict", "value": [["a", 1]]},
    ],
)
def test_dicts_that_look_like_tags_come_back(value):
    """A user's dict that looks like one of our tags is not taken for one."""
    assert same(decode(encode(value, "t")), value)


def test_half_a_surrogate_comes_back():
    """An odd file name survives."""
    assert decode(encode("\udce9.csv", "t")) == "\udce9.csv"


def test_zone_survives():
    """A datetime in a named zone comes back in that zone, in the repeated hour too."""
    for fold in (0, 1):
        moment = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
        back = decode(encode(moment, "t"))
        assert (back.isoformat(), back.tzinfo, back.fold) == (moment.isoformat(), moment.tzinfo, fold)


def test_equal_sets_have_one_text():
    """The text of a set does not depend on the order of its making."""
    assert encode({"b", "a", ("c",)}, "t") == encode({("c",), "a", "b"}, "t")


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "it is a builtins.object"),
        (b"x", "it is a builtins.bytes"),
        ({"a": [1, frozenset()]}, r"it\['a'\]\[1\] is a builtins.frozenset"),
        (Colour.RED, "Colour"),
        (OrderedDict(a=1), "OrderedDict"),
        ({1: "a"}, "the key 1 of type int"),
        ([lambda: 1], r"it\[0\] is a builtins.function"),
    ],
)
def test_other_types_name_task_and_path(value, path):
    """Another type is a TypeError that names the task and the element."""
    with pytest.raises(TypeError, match=f"the result of task 'load': .*{path}"):
        encode(value, "load")


@pytest.mark.parametrize("value", [float("nan"), [1.5, float("inf")], {"a": -float("inf")}])
def test_no_number_is_refused(value):
    """NaN and infinities are no JSON."""
    with pytest.raises(ValueError, match=r"task 't'.*no number"):
        encode(value, "t")


def test_cycle_and_depth_are_refused():
    """What contains itself, or is nested too deeply, is refused."""
    loop: list = []
    loop.append(loop)
    deep: list = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(ValueError, match="deeper than"):
            encode(value, "t")
    assert decode(encode(deep[0], "t")) == deep[0]


def test_limit_counts_bytes():
    """64 MiB of text are taken, one byte more is not."""
    assert len(encode("a" * (MAX_BYTES - 2), "t")) == MAX_BYTES
    with pytest.raises(ValueError, match="67,108,865 bytes and may have 67,108,864"):
        encode("a" * (MAX_BYTES - 1), "t")
    with pytest.raises(ValueError, match="bytes"):
        encode("é" * (MAX_BYTES // 2), "t")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        json.dumps({TAG: "hologram", "value": 1}),
        json.dumps({TAG: "date", "value": "yesterday"}),
        json.dumps({TAG: "decimal", "value": "x"}),
        json.dumps({TAG: "tuple"}),
        json.dumps({TAG: "timedelta", "value": 3}),
        json.dumps({TAG: ["tuple"], "value": []}),
    ],
)
def test_damaged_text_is_an_error(text):
    """A text that the codec did not write raises one clear error."""
    with pytest.raises(ResultDamagedError):
        decode(text)


def test_plain_json_is_plain():
    """JSON values are stored as plain JSON, which people can read."""
    value = {"rows": [1, 2.5, None, True], "name": "é"}
    assert encode(value, "t") == '{"rows":[1,2.5,null,true],"name":"é"}'


def test_every_tagged_type():
    """Each of the seven types beyond JSON comes back as itself."""
    value = [
        (1, "a"),
        {1, 2},
        datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=5, minutes=30))),
        date(2026, 1, 2),
        timedelta(days=-1, microseconds=3),
        Decimal("1.10"),
        UUID(int=5),
    ]
    assert same(decode(encode(value, "t")), value)
