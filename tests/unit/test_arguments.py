"""Wrong arguments of the calls on instances and runs: one clear error each, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from milepost import Asset, InvalidKeyError, InvalidValueError, Store, TaskScope, UnsupportedTypeError, connect

SCOPE = TaskScope("d", "r", "t")
TYPE, VALUE, KEY = UnsupportedTypeError, InvalidValueError, InvalidKeyError


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store."""
    with connect("memory://") as opened:
        yield opened


OPEN: dict[str, Any] = {"scope": SCOPE, "attempt": 1}
EXPAND: dict[str, Any] = {
    "dag_id": "d",
    "run_id": "r",
    "task_id": "t",
    "expansion": "e",
    "length": 1,
    "item": lambda _: None,
}
RUN: dict[str, Any] = {"dag_id": "d", "run_id": "r"}
BEGIN: dict[str, Any] = {**RUN, "holder": "h", "ttl": 1}
RESULT: dict[str, Any] = {"scope": SCOPE, "attempt": 1, "text": "1"}


@pytest.mark.parametrize(
    ("call", "good", "bad", "error", "message"),
    [
        ("instances.open", OPEN, {"scope": "d/r/t"}, TYPE, "TaskScope is needed"),
        ("instances.open", OPEN, {"attempt": "1"}, TYPE, "attempt must be an int, not str"),
        ("instances.open", OPEN, {"attempt": True}, TYPE, "attempt must be an int, not bool"),
        ("instances.open", OPEN, {"attempt": 0}, VALUE, "attempt must be 1 to"),
        ("instances.open", OPEN, {"attempt": 2**31}, VALUE, "attempt must be 1 to"),
        ("instances.open", OPEN, {"incarnation": 5}, TYPE, "incarnation must be a str"),
        ("instances.open", OPEN, {"incarnation": ""}, KEY, "incarnation must not be empty"),
        ("instances.open", OPEN, {"item": [1]}, TYPE, "item must be a mapping"),
        ("instances.open", OPEN, {"item": "x"}, TYPE, "item must be a mapping"),
        ("instances.open", OPEN, {"item_name": 5}, TYPE, "item_name must be a str"),
        ("instances.open", OPEN, {"inlets": None}, TYPE, "inlets must be a list of assets, not NoneType"),
        ("instances.open", OPEN, {"inlets": "s3://x"}, TYPE, "inlets must be a list of assets, not str"),
        ("instances.open", OPEN, {"outlets": Asset("a")}, TYPE, "outlets must be a list of assets, not Asset"),
        ("instances.open", OPEN, {"outlets": [None]}, TYPE, "not an asset"),
        ("instances.open", OPEN, {"options": None}, TYPE, "options must be TaskOptions, not NoneType"),
        ("instances.open", OPEN, {"options": {}}, TYPE, "options must be TaskOptions, not dict"),
        ("instances.finish", {**OPEN, "state": "success"}, {"state": []}, VALUE, "an attempt ends as one of"),
        ("instances.finish", {**OPEN, "state": "success"}, {"state": "none"}, VALUE, "an attempt ends as one of"),
        ("instances.finish", {**OPEN, "state": "success"}, {"attempt": None}, TYPE, "attempt must be an int"),
        ("instances.finish", {**OPEN, "state": "failed"}, {"error": 5}, TYPE, "a reason must be a str"),
        ("instances.expand", EXPAND, {"length": -1}, VALUE, "length must be 0 to"),
        ("instances.expand", EXPAND, {"length": None}, TYPE, "length must be an int"),
        ("instances.expand", EXPAND, {"item": {}}, TYPE, "item must be a function"),
        ("instances.expand", EXPAND, {"expansion": 5}, TYPE, "expansion must be a str"),
        ("instances.clear", {"scope": SCOPE}, {"scope": None}, TYPE, "TaskScope is needed"),
        ("instances.clear", {"scope": SCOPE}, {"keep": "no"}, TYPE, "keep must be True or False, not str"),
        ("instances.clear_run", RUN, {"keep": 1}, TYPE, "keep must be True or False, not int"),
        ("instances.clear_run", RUN, {"run_id": None}, TYPE, "run_id must be a str"),
        ("instances.archives", {"scope": SCOPE}, {"scope": ("d", "r", "t")}, TYPE, "TaskScope is needed"),
        ("instances.restore", {"scope": SCOPE}, {"archive": "1"}, TYPE, "archive must be an int"),
        ("instances.restore", {"scope": SCOPE}, {"force": None}, TYPE, "force must be True or False"),
        ("instances.delete_run", RUN, {"dag_id": b"d"}, TYPE, "dag_id must be a str"),
        ("instances.get", {"scope": SCOPE}, {"scope": SCOPE.hash}, TYPE, "TaskScope is needed"),
        ("instances.list", RUN, {"state": []}, TYPE, "state must be a str"),
        ("runs.begin", BEGIN, {"holder": None}, TYPE, "holder must be a str"),
        ("runs.begin", BEGIN, {"ttl": "30"}, TYPE, "ttl must be a number of seconds"),
        ("runs.begin", BEGIN, {"ttl": True}, TYPE, "ttl must be a number of seconds"),
        ("runs.begin", BEGIN, {"ttl": float("nan")}, VALUE, "ttl must be seconds"),
        ("runs.begin", BEGIN, {"params": {}}, TYPE, "params must be JSON text"),
        ("runs.begin", BEGIN, {"params": "{oops"}, VALUE, "JSON"),
        ("runs.begin", BEGIN, {"logical_date": "2026-01-01"}, TYPE, "logical_date must be a datetime"),
        ("runs.begin", BEGIN, {"logical_date": datetime(2026, 1, 1)}, VALUE, "no UTC offset"),  # noqa: DTZ001
        ("runs.begin", BEGIN, {"dead_holder": 5}, TYPE, "holder must be a str"),
        ("runs.heartbeat", BEGIN, {"run_id": 5}, TYPE, "run_id must be a str"),
        ("runs.heartbeat", BEGIN, {"holder": 5}, TYPE, "holder must be a str"),
        ("runs.end", {**RUN, "holder": "h", "state": "success"}, {"state": []}, VALUE, "a run ends as"),
        ("runs.end", {**RUN, "holder": "h", "state": "success"}, {"holder": []}, TYPE, "holder must be a str"),
        ("runs.release", {**RUN, "holder": "h"}, {"dag_id": None}, TYPE, "dag_id must be a str"),
        ("runs.get", RUN, {"run_id": 1}, TYPE, "run_id must be a str"),
        ("runs.list", {}, {"limit": "1"}, TYPE, "limit must be an int"),
        ("runs.list", {}, {"limit": 0}, VALUE, "limit must be 1 to"),
        ("runs.put_result", RESULT, {"text": None}, TYPE, "text of a result must be a str"),
        ("runs.put_result", RESULT, {"text": "\ud800"}, VALUE, "lone surrogate"),
        ("runs.put_result", RESULT, {"scope": None}, TYPE, "TaskScope is needed"),
        ("runs.put_result", RESULT, {"attempt": "1"}, TYPE, "attempt must be an int"),
        ("runs.get_results", {**RUN, "task_id": "t"}, {"task_id": None}, TYPE, "task_id must be a str"),
        ("runs.get_result", {"scope": SCOPE}, {"scope": "t"}, TYPE, "TaskScope is needed"),
        ("runs.outcomes", RUN, {"dag_id": ""}, KEY, "dag_id must not be empty"),
    ],
)
@pytest.mark.asyncio
async def test_a_wrong_argument_is_named(
    store: Store, call: str, good: dict[str, Any], bad: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A wrong argument is one error that names it, from both twins, and nothing is recorded."""
    group, name = call.split(".")
    with pytest.raises(error, match=message):
        getattr(getattr(store, group), name)(**{**good, **bad})
    with pytest.raises(error, match=message):
        await getattr(getattr(store, group), f"a{name}")(**{**good, **bad})
    stats = store.stats()
    assert (stats.runs, stats.instances, stats.assets) == (0, 0, 0)
