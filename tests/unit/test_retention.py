"""When a value expires (SPEC 4.1), and the clock."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from milepost import NEVER_EXPIRE, InvalidValueError, ManualClock, SystemClock, UnsupportedTypeError
from milepost.clock import MAX_MICROS, from_micros, to_micros
from milepost.retention import DAY, NEVER, expiry, parse_retention


class Longer(timedelta):
    """A timedelta that is more than a timedelta, as pandas has one."""


@pytest.mark.parametrize("wrong", [1, 3600, 1.5, True, False, 0, "1h", datetime(2026, 1, 1, tzinfo=timezone.utc)])
def test_s17_numbers_are_no_retention(wrong: Any) -> None:
    """S-17: int, float and bool are TypeError that says what to write."""
    with pytest.raises(UnsupportedTypeError, match=r"timedelta\(seconds"):
        parse_retention(wrong)


@pytest.mark.parametrize("bad", [timedelta(0), -timedelta(microseconds=1), timedelta.min])
def test_s17_zero_and_negative_are_refused(bad: timedelta) -> None:
    """S-17: zero and negative retention are ValueError."""
    with pytest.raises(InvalidValueError, match="longer than zero"):
        parse_retention(bad)


def test_s17_retention_counts_from_the_write() -> None:
    """S-17: a timedelta counts in microseconds from the write; subclasses of timedelta are timedeltas."""
    assert parse_retention(timedelta(microseconds=1)) == 1
    assert parse_retention(Longer(days=1)) == DAY
    assert expiry(DAY, 5) == (DAY + 5, None)


def test_s17_no_retention_is_governed_by_its_day() -> None:
    """S-17: None leaves the row to the default retention, under the UTC day of the write."""
    assert parse_retention(None) is None
    assert expiry(None, 3 * DAY - 1) == (None, 2)
    assert expiry(None, 3 * DAY) == (None, 3)


EQUALS = [
    timedelta.max,
    copy.copy(NEVER_EXPIRE),
    copy.deepcopy(NEVER_EXPIRE),
    pickle.loads(pickle.dumps(NEVER_EXPIRE)),
    NEVER_EXPIRE + timedelta(0),
]


@pytest.mark.parametrize("same", EQUALS)
def test_whatever_equals_never_expire_is_it(same: timedelta) -> None:
    """Copied, pickled and computed equals of NEVER_EXPIRE mean never."""
    assert parse_retention(same) == NEVER
    assert expiry(NEVER, 0) == (None, None)


def test_s17_beyond_year_9999_names_never_expire() -> None:
    """S-17: an expiry beyond the year 9999 is ValueError that names NEVER_EXPIRE; the last instant is accepted."""
    now = to_micros(datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert expiry(MAX_MICROS - now, now) == (MAX_MICROS, None)
    with pytest.raises(InvalidValueError, match="NEVER_EXPIRE"):
        expiry(MAX_MICROS - now + 1, now)
    longest = parse_retention(NEVER_EXPIRE - timedelta(microseconds=1))
    assert longest != NEVER
    with pytest.raises(InvalidValueError, match="NEVER_EXPIRE"):
        expiry(longest, now)


def test_instants_honour_their_offset() -> None:
    """An aware datetime and its microseconds are the same instant whatever the offset; a naive one is refused."""
    india = datetime(2030, 1, 1, 5, 30, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert from_micros(to_micros(india)) == datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)
    assert from_micros(MAX_MICROS).year == 9999
    assert to_micros(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)) == -1
    with pytest.raises(ValueError, match="offset"):
        to_micros(datetime(2030, 1, 1))  # noqa: DTZ001  (naive on purpose)


def test_manual_clock_moves_only_when_told() -> None:
    """A ManualClock stands still until advanced, by a timedelta or by its parts, backwards too."""
    clock = ManualClock()
    start = clock.now()
    assert from_micros(start) == datetime(2026, 1, 1, tzinfo=timezone.utc)
    clock.advance(timedelta(days=1))
    clock.advance(seconds=1, microseconds=1)
    clock.advance(-timedelta(days=1))
    assert clock.now() == start + 1_000_001


def test_system_clock_is_utc_now() -> None:
    """The system clock tells the present in microseconds UTC."""
    before = to_micros(datetime.now(timezone.utc))
    now = SystemClock().now()
    assert before <= now <= to_micros(datetime.now(timezone.utc))
