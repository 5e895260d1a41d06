"""The stores of a process that runs tasks."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from milepost.airflow import process
from milepost.airflow.settings import AirflowSettings


def test_the_stores_of_a_test_say_once_that_they_are_in_memory(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """A run of `dag.test()` logs one line: its stores end with the process, and which option changes that."""
    opened: dict[Any, Any] = {}
    monkeypatch.setattr(process, "_stores", opened)
    settings = AirflowSettings({}, None, None, 3, False, 0, False, True)
    with caplog.at_level(logging.INFO, "milepost.airflow"):
        for run in ("r1", "r1", "r2"):
            process.store(settings, test=("d", run, None)).close()
    assert [record.getMessage() for record in caplog.records] == [
        f"this is a test: Milepost's stores of run d/{run} are in memory, and gone with this process; "
        "[milepost] keep_test_state = True uses the real ones"
        for run in ("r1", "r2")
    ]
