"""A store that holds everything, and what it exports."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

from milepost import (
    NEVER_EXPIRE,
    Asset,
    ManualClock,
    TaskOptions,
    TaskScope,
    Writer,
    connect,
)
from milepost.transfer import rows
from tests.contract.conftest import as_writer

__all__ = [
    "GONE",
    "HOSTED",
    "KEYS",
    "MAPPED",
    "STAGING",
    "TASK",
    "VALUES",
    "content",
    "everything",
    "exported",
    "fill",
    "signed",
]

KEYS = ["a\nb", "k", "k ", " k", "K", "é", "e\u0301", "😀", "\x01\x7f", "a/b?c#d%e&f;g", ".", "..", "x" * 512, "\u2028"]
VALUES: list[Any] = [
    2**70,
    1,
    1.0,
    True,
    -0.0,
    0,
    "",
    [],
    {"b": 1, "a": [None, {}]},
    "nul\0nul",
    "2026-01-01",
    "é😀\n",
    1e300,
]
TASK = TaskScope("dag", "run", "täsk\n")
MAPPED = [TaskScope("dag", "run", "mapped", index) for index in (1, 0)]
STAGING = [TaskScope("dag", "run", "staging", index) for index in (2, 0)]
GONE = TaskScope("gone", "run", "task")
HOSTED = TaskScope("hosted", "run", "é task", 3)


def _cut_off(_: str) -> str:
    raise TimeoutError


def fill(store: Any, clock: ManualClock) -> None:
    """Put everything into a store that it can hold."""
    store.task_store(TaskScope("other", "first", "task")).set("by", "python")
    task = store.task_store(TASK, attempt=1)
    for key, value in zip(KEYS, VALUES, strict=False):
        task.set(key, value)
    task.set("expired", 1, retention=timedelta(seconds=1))
    store.instances.clear(TASK)
    clock.advance(minutes=1)
    task = store.task_store(TASK, attempt=2)
    for key, value in zip(KEYS, reversed(VALUES), strict=False):
        task.set(key, value)
    task.set("expired", 1, retention=timedelta(seconds=1))
    task.set("later", 2, retention=timedelta(days=400))
    task.set("never", 3, retention=NEVER_EXPIRE)
    task.submit_once("job é", lambda token: {"id": token}, params={"ä": [1, None], "b": 2})
    with suppress(TimeoutError):
        task.submit_once("cut off", _cut_off)
    store.runs.put_result(TASK, 2, json.dumps(["\0", "😀"], ensure_ascii=False))
    for writer in (Writer("cli"), Writer("api", user="ä:b"), Writer("watcher")):
        person = as_writer(store, writer)
        edited = person.task_store(TASK)
        edited.set(f"by {writer.kind}", writer.kind)
        edited.set("edited", writer.kind)
        person.asset_store(Asset("orders", uri="s3://orders")).set("by", writer.kind)
    as_writer(store, Writer("cli")).task_store(TASK).delete("edited")
    for scope in MAPPED:
        options = TaskOptions(clear_on_success=False, on_clear="keep")
        opened = store.instances.open(
            scope,
            1,
            item={"x": scope.map_index},
            item_name=f"item\n{scope.map_index}",
            outlets=[Asset("ö")],
            options=options,
        )
        opened["task_store"].set("k", scope.map_index)
        opened["asset_store"][Asset("ö")].set("wm ", scope.map_index)
        store.instances.finish(scope, 1, "success")
    orders = store.asset_store(Asset("orders", uri="s3://orders"))
    for value in range(4):
        orders.set("watermark", value)
    orders.delete("watermark")
    orders.set("watermark", {"at": "z"})
    store.asset_store(Asset("never written"))
    for number in range(25):
        store.assets.declare(f"dag {number % 5}", inlets=[Asset("orders")], outlets=[Asset(f"t{number % 3}"), Asset("é")])
        store.assets.attach(f"alias {number}é", Asset("orders" if number % 2 else "ö"))
    as_writer(store, Writer("cli")).assets.deactivate(Asset("never written"))
    store.assets.declare("dag 4")
    for scope in STAGING:
        opened = store.instances.open(scope, 1, outlets=[Asset("orders"), Asset("ö")])["asset_store"]
        for asset in opened:
            opened[asset].stage("wm ", scope.map_index, advance=True)
            opened[asset].stage("é\n", [scope.map_index, 2**70])
    mapped = TaskScope("dag", "run", "é mapped")
    store.instances.expand(mapped.dag_id, mapped.run_id, mapped.task_id, expansion="2 of é", length=2, item=lambda _: None)
    for attempt in range(1, 13):
        store.instances.open(mapped, attempt)
        store.instances.finish(mapped, attempt, "failed", error=f"RuntimeError: é {attempt}\nof it")
    store.instances.open(HOSTED, 1, incarnation="h 1", max_tries=1, run_clears=2)["task_store"].set("job", "j-1")
    store.instances.open(GONE, 1, incarnation="i1 ")
    store.instances.open(GONE, 1, incarnation="i2")
    store.instances.delete_run("gone", "run")
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
    store.runs.begin("dag", "later", params='{"p": 1}', logical_date=moment, holder="h", ttl=60)
    clock.advance(seconds=5)


def everything(clock: ManualClock) -> bytes:
    """Return the export of a store that holds everything."""
    with connect("memory://", clock=clock) as store:
        fill(store, clock)
        return exported(store)


def exported(store: Any) -> bytes:
    """Return what a store exports."""
    stream = io.BytesIO()
    store.export(stream)
    return stream.getvalue()


def content(text: bytes) -> list[bytes]:
    """Return the lines between header and footer."""
    return text.splitlines()[1:-1]


def signed(lines: list[bytes], header: bytes) -> bytes:
    """Return a file of these lines with a footer that fits."""
    counts = dict.fromkeys(rows.FIELDS, 0)
    for line in lines:
        if (kind := json.loads(line)["type"]) in counts:
            counts[kind] += 1
    whole = b"".join(line + b"\n" for line in lines)
    footer = {"type": "footer", "counts": counts, "sha256": hashlib.sha256(whole).hexdigest()}
    return header + b"\n" + whole + json.dumps(footer, separators=(",", ":")).encode() + b"\n"
