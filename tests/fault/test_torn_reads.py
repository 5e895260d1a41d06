"""Readers beside a writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fault.helpers import Child


def test_readers_see_whole_values_and_pairs_of_one_moment(start: Callable[..., Child], path: Path) -> None:
    """While a writer alternates values of 60 KB, each read in other processes is one of them; pairs never mix or go back."""
    group = [start("torn", path, role) for role in ("writer", "reader", "reader", "reader")]
    for child in group:
        child.expect("ready")
    for child in group[1:]:
        child.expect("enough")
        assert child.finish() == []
    group[0].say("end")
    assert int(group[0].line()) > 20
    assert group[0].finish() == []
