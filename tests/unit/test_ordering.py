"""Which of two values is further (SPEC 5, ``advance``)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.ordering import check_order, is_further


@pytest.mark.parametrize(
    ("old", "new", "further"),
    [
        (1, 2, True),
        (2, 1, False),
        (1, 1, False),
        (1, 1.0, False),
        (1.0, 1, False),
        (0, -0.0, False),
        (-1, -0.5, True),
        (2**53, float(2**53), False),
        (float(2**53), 2**53 + 1, True),
        (2**53 + 1, float(2**53), False),
        (1e23, 10**23, True),
        (10**400, 1e308, False),
        (1e308, 10**400, True),
        ("a", "b", True),
        ("a", "A", False),
        ("Z", "a", True),
        ("é", "e\u0301", False),
        ("\uffff", "\U00010000", True),
        ("10", "9", True),
        ("", "", False),
    ],
)
def test_numbers_exactly_and_strings_by_code_point(old: Any, new: Any, further: bool) -> None:
    """Numbers are compared by their exact value, an int with a float too; strings code point by code point."""
    assert is_further(new, old, None, "k") is further


@pytest.mark.parametrize(
    ("old", "new", "further"),
    [
        ("2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00Z", False),
        ("2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00.000001Z", True),
        ("2026-01-31T12:00:00.000000001Z", "2026-01-31T12:00:00.000000002Z", True),
        ("2026-01-31T12:00:00+05:30", "2026-01-31T12:00:00Z", True),
        ("2026-01-31T12:00:00Z", "2026-01-31T23:00:00+14:00", False),
        ("2026-01-31T00:00:00-08:00", "2026-01-31T08:00:00Z", False),
        ("2026-01-31T00:00:00-08:00", "2026-01-31T08:00:01+00", True),
        ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+00:00", False),
        ("20260131T120000Z", "2026-01-31 12:00+00:00", False),
        ("2026-01-31T12:00:00,5Z", "2026-01-31t12:00:00.50z", False),
    ],
)
def test_times_by_their_instant(old: str, new: str, further: bool) -> None:
    """With order="datetime" ISO 8601 texts are compared by the instant that they name, to any fraction of a second."""
    assert is_further(new, old, "datetime", "k") is further


@pytest.mark.parametrize(("old", "new"), [(1, "1"), ("1", 1), (True, 1), (1, False), ([], [1]), ({}, 1), (1, {"a": 1})])
def test_other_values_have_no_order(old: Any, new: Any) -> None:
    """Mixed kinds, bools and containers are TypeError naming the key."""
    with pytest.raises(TypeError, match="'k'"):
        is_further(new, old, None, "k")


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00",
        "2026-01-31",
        "2026-02-30T12:00:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T12:60:00Z",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00Z ",
        "٢٠٢٦-01-31T12:00:00Z",
        "now",
        "",
        1,
        1.5,
        None,
        True,
    ],
)
def test_what_is_no_time_with_offset(text: Any) -> None:
    """With order="datetime" whatever is no ISO 8601 time with offset is TypeError, on either side."""
    good = "2026-01-31T12:00:00Z"
    for new, old in ((text, good), (good, text)):
        with pytest.raises(TypeError, match="offset"):
            is_further(new, old, "datetime", "k")


def test_orders_that_there_are() -> None:
    """An order is None or "datetime"; any other is a ValueError."""
    check_order(None)
    check_order("datetime")
    for bad in ("date", "", 1, True):
        with pytest.raises(ValueError, match="order"):
            check_order(bad)
