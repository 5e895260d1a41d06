"""Durability against power loss, seen in the system calls: the sync stands between each write and the call's return."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Require
from tests.fault.helpers import Child

WRITES = (
    "first set", "set", "set_many", "set_default", "increment", "compare_and_set", "delete", "clear", "asset set", "open",
    "attempt set", "aset", "finish", "instances.clear",
)  # fmt: skip

_LINE = re.compile(r"^(?P<thread>\d+) +(?P<rest>.*)$")
_START = re.compile(r"^(?P<name>\w+)\((?:\d+<(?P<file>[^>]*)>)?(?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)$")


class Traced(NamedTuple):
    """A system call that has ended: its name, the file of its descriptor, all its text."""

    name: str
    file: str
    text: str

    @property
    def succeeded(self) -> bool:
        """Whether it ended without an error."""
        return re.search(r"\) += -", self.text) is None


def parse(trace: str) -> list[Traced]:
    """Return the calls on descriptors in the order in which they ended."""
    calls, waiting = [], {}
    for line in trace.splitlines():
        thread, rest = _LINE.match(line).groups()
        if found := _RESUMED.match(rest):
            calls.append(waiting.pop(thread)._replace(text=found["rest"]))
        elif found := _START.match(rest):
            call = Traced(found["name"], found["file"] or "", rest)
            if rest.endswith("<unfinished ...>"):
                waiting[thread] = call
            else:
                calls.append(call)
    assert not waiting
    return calls


def marked(calls: list[Traced], marks: Path) -> list[tuple[str, list[Traced]]]:
    """Return what happened between the marks, as pairs of a name and calls."""
    found, current = [], None
    for call in calls:
        if call.file == str(marks):
            what, name = re.search(r'"(begin|end) ([^"]*)"', call.text).groups()
            if what == "begin":
                current = []
            else:
                found.append((name, current))
                current = None
        elif current is not None:
            current.append(call)
    return found


def durable(calls: list[Traced], wal: Path) -> bool:
    """Tell whether the log was written, and synced after the last of these writes."""
    mine = [call for call in calls if call.file == str(wal) and call.succeeded]
    written = [position for position, call in enumerate(mine) if call.name.startswith(("write", "pwrite"))]
    synced = [position for position, call in enumerate(mine) if call.name in ("fsync", "fdatasync")]
    return bool(written and synced and synced[-1] > written[-1])


@pytest.fixture
def trace(
    start: Callable[..., Child], tmp_path: Path, require: Require
) -> Callable[[Path, str], list[tuple[str, list[Traced]]]]:
    """Return a function that traces the marked calls on a new store."""
    require("strace")

    def run(path: Path, synchronous: str) -> list[tuple[str, list[Traced]]]:
        log, marks = tmp_path / f"trace-{synchronous}", tmp_path / f"marks-{synchronous}"
        only = "trace=write,writev,pwrite64,pwritev,fsync,fdatasync,sync_file_range"
        start("marked", path, synchronous, marks, prefix=("strace", "-f", "-y", "-e", only, "-o", str(log))).finish()
        return marked(parse(log.read_text()), marks)

    return run


def test_every_write_is_synced_before_its_call_returns(trace: Callable, path: Path) -> None:
    """Under the default settings the log is synced between the last write to it and the return of every call that writes."""
    calls = trace(path, "full")
    assert {name for name, _ in calls} == {*WRITES, "connect"}
    wal = path.with_name(f"{path.name}-wal")
    unsynced = [name for name, part in calls if name != "connect" and not durable(part, wal)]
    assert unsynced == []


def test_the_trace_shows_missing_syncs(trace: Callable, path: Path) -> None:
    """With synchronous = normal the same check finds writes without a sync, so the check can fail."""
    wal = path.with_name(f"{path.name}-wal")
    unsynced = [name for name, part in trace(path, "normal") if name in WRITES and not durable(part, wal)]
    assert len(unsynced) > len(WRITES) / 2


def test_a_new_file_in_new_folders_is_there_after_power_loss(trace: Callable, tmp_path: Path) -> None:
    """Every folder that got the name of a folder, the file or the log is synced before the first `set` returns."""
    path = tmp_path / "new" / "deeper" / "store.db"
    calls = trace(path, "full")
    before = [call for name, part in calls[: 1 + [name for name, _ in calls].index("first set")] for call in part]
    synced = [call.file for call in before if call.name in ("fsync", "fdatasync") and call.succeeded]
    assert {str(tmp_path), str(tmp_path / "new"), str(tmp_path / "new" / "deeper"), f"{path}-wal"} <= set(synced)
    wal_written = next(n for n, call in enumerate(before) if call.file == f"{path}-wal" and "write" in call.name)
    after = [call.file for call in before[wal_written:] if call.name in ("fsync", "fdatasync") and call.succeeded]
    assert str(path.parent) in after, "the folder was not synced after the log came to be in it"
