"""The key `progress` as text."""

from __future__ import annotations

import pytest

from milepost.progress import progress_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"done": 1, "total": 4, "message": "rows"}, "1/4 (25%) rows"),
        ({"done": 3}, "3"),
        ({"done": 9, "total": 4}, "9/4 (100%)"),
        ({"done": 1, "total": 0, "message": 5}, "1"),
        ({"done": True}, ""),
        ({"total": 3}, ""),
        ({"message": "two\nlines"}, "two lines"),
        ("half", ""),
        (None, ""),
    ],
)
def test_progress_as_text(value, text):
    """The documented shape is shown, with or without a total; anything else is not."""
    assert progress_text(value) == text


def test_progress_as_bar():
    """Where both numbers are known, a bar can stand in their place; otherwise the text is the same."""
    assert progress_text({"done": 1, "total": 4, "message": "rows"}, bar=True) == f"[{'█' * 5}{'·' * 15}]  25% rows"
    assert progress_text({"done": 3}, bar=True) == "3"
