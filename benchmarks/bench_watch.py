"""What do 5,000 idle event triggers cost in one `milepost watch`: memory, and processor time averaged over a minute?

Once with triggers that only sleep, once with triggers that look at their cursor in the store once a minute. The peer is a
bare asyncio program with as many tasks, which sleep, or read a row of a SQLite file in a thread once a minute.
WATCH_SECONDS and WATCH_TRIGGERS make it shorter; the figures that have to be reached are those of a minute and 5,000.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness import Figure, folder

__all__ = ["figures"]

_TRIGGERS = int(os.environ.get("WATCH_TRIGGERS", "5000"))
_SECONDS = float(os.environ.get("WATCH_SECONDS", "60"))
_MOST_MB = 300.0
_MOST_PERCENT = 5.0

_WAITS = {
    "sleep": "await asyncio.sleep(3600)",
    "poll": """await asyncio.sleep(random.uniform(0, 60))
        while await READ is None:
            await asyncio.sleep(60)""",
}
_OURS = f"""
import asyncio, random
from milepost.sdk import *

class Idle(BaseEventTrigger):
    async def run(self):
        WAIT
        yield TriggerEvent(None)

assets = [Asset(f"asset_{{n}}", watchers=[AssetWatcher("w", Idle())]) for n in range({_TRIGGERS})]
with DAG("idle", schedule=[assets[0]]):
    @task(inlets=assets)
    def nothing(): pass
    nothing()
"""
_BARE = f"""
import asyncio, random, sqlite3, sys
connection = sqlite3.connect("bare.db", check_same_thread=False)
connection.execute("CREATE TABLE IF NOT EXISTS t (k TEXT PRIMARY KEY, v TEXT)")

def read():
    return connection.execute("SELECT v FROM t WHERE k = 'n'").fetchone()

async def idle():
        WAIT

async def main():
    tasks = [asyncio.create_task(idle()) for _ in range({_TRIGGERS})]
    await asyncio.sleep(0)
    print("watching", file=sys.stderr, flush=True)
    await asyncio.gather(*tasks)

asyncio.run(main())
"""


def figures() -> list[Figure]:
    found = []
    for name, wait in _WAITS.items():
        with folder() as path:
            (path / "dag.py").write_text(_OURS.replace("WAIT", wait.replace("READ", 'self.asset_store.aget("n")')))
            (path / "bare.py").write_text(_BARE.replace("WAIT", wait.replace("READ", "asyncio.to_thread(read)")))
            ours = _measure(path, "-m", "milepost", "watch", "dag.py", "--url", f"sqlite:///{path / 'state.db'}")
            bare = _measure(path, "bare.py")
        what = f"{_TRIGGERS:,} triggers that {name}"
        found += [
            Figure(f"{what}: memory (RSS)", ours[0], "MB", bare[0], "bare asyncio", _MOST_MB, "alone"),
            Figure(f"{what}: one core over {_SECONDS:g} s", ours[1], "%", bare[1], "bare asyncio", _MOST_PERCENT, "alone"),
        ]
    return found


def _measure(path: Path, *command: str) -> tuple[float, float]:
    """Start a program and return its memory in MB, the larger of two looks, and its share of one core in percent."""
    with _started(path, *command) as process:
        # What the start leaves to be done is no idling.
        _wait(lambda: _busy(process.pid, 1.0) < 0.5 * os.sysconf("SC_CLK_TCK"), "the program has settled")
        first = _memory(process.pid)
        ticks = _busy(process.pid, _SECONDS)
        return max(first, _memory(process.pid)), 100 * ticks / os.sysconf("SC_CLK_TCK") / _SECONDS


@contextmanager
def _started(path: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    log = path / "log"
    with log.open("wb") as said:
        process = subprocess.Popen([sys.executable, *command], cwd=path, stdout=said, stderr=said)
    try:
        _wait(lambda: b"watching" in log.read_bytes() or process.poll() is not None, "it watches")
        if process.poll() is not None:
            raise RuntimeError(f"the program ended:\n{log.read_text()}")
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _wait(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 300
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited in vain: {what}")
        time.sleep(0.1)


def _busy(pid: int, seconds: float) -> int:
    """Return the ticks of processor time that a process takes in so many seconds."""
    before = _ticks(pid)
    time.sleep(seconds)
    return _ticks(pid) - before


def _ticks(pid: int) -> int:
    # The name in parentheses may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _memory(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1000
