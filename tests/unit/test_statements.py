"""Statements for one row and for many."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import ManualClock, StaleAttemptError, TaskScope, connect
from milepost.metastore.statements import BATCH, Statements

SCOPE = TaskScope("dag", "run", "task")


@pytest.mark.parametrize("count", [1, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 5 * BATCH + 3])
def test_set_many_of_any_size(count: int) -> None:
    """Every key of `set_many` is stored with its own value and version and the time of the call, whatever their number."""
    with connect("memory://", clock=ManualClock()) as store:
        task = store.task_store(SCOPE, attempt=1)
        for shift in (0, 1):
            values = {f"k{number:04}": number + shift for number in range(count)}
            task.set_many(values)
            assert dict(task.items()) == values
            entries = [task.entry(key) for key in values]
            assert len({entry.version for entry in entries}) == count
            assert {(entry.created_at, entry.updated_at) for entry in entries} == {(entries[0].created_at,) * 2}


def test_set_many_over_a_batch_is_all_or_nothing(tmp_path: Path) -> None:
    """A stale attempt's `set_many` of more than one step leaves every key as it was."""
    with connect(f"sqlite:///{tmp_path}/store.db") as store:
        stale = store.task_store(SCOPE, attempt=1)
        current = store.task_store(SCOPE, attempt=2)
        current.set("k0", "kept")
        with pytest.raises(StaleAttemptError):
            stale.set_many({f"k{number}": number for number in range(3 * BATCH)})
        assert current.items() == [("k0", "kept")]


def test_text_for_many_rows_numbers_rows_first() -> None:
    """In a statement for many rows, each row has placeholders of its own, and shared parameters follow all of them."""
    statement = Statements("sqlite", lambda position, _: f"?{position}")["entry_put"]
    each = 4
    assert statement.parameters == ("key", "text", "encoding", "version", "owner", "retention", "writer")
    assert statement.many.count("(\n") == statement.text.count("(\n") + BATCH - 1
    assert f"?{BATCH * each + 3}" in statement.many  # the time, last of all
    assert f"?{BATCH * each + 4}" not in statement.many
