"""Ctrl-C in the middle of calls. Usage: interrupts.py steps|signals PATH. Prints how many interrupts struck.

``steps`` interrupts each kind of call at every point of the metastore's own code where Python looks for signals (after
a call, at the start of a function, at a jump back), one after the other;
``signals`` has a timer strike at moments that nobody chose.
"""

import dis
import gc
import random
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import milepost
from milepost import Asset, TaskScope
from milepost.metastore import sql
from milepost.metastore.engines import sqlite as engine

# A connection that is lost to an interrupt is closed by its end; Python 3.13 warns of that.
warnings.filterwarnings("ignore", "unclosed database", ResourceWarning)

SCOPE = TaskScope("d", "r", "t", -1)
FILES = {sql.__file__, engine.__file__}

store = milepost.connect(f"sqlite:///{sys.argv[2]}")
task = store.instances.open(SCOPE, 1)["task_store"]
asset = store.asset_store(Asset("a"))
other = sqlite3.connect(sys.argv[2], isolation_level=None, timeout=0)


def check() -> None:
    """No transaction is open, no connection is missing, and the store works."""
    other.execute("BEGIN IMMEDIATE")
    other.execute("ROLLBACK")
    if store.metastore.engine._opened != len(store.metastore.engine._idle):
        gc.collect()
    assert store.metastore.engine._opened == len(store.metastore.engine._idle)


def interrupted(call: Callable[[], Any], step: int) -> bool:
    """Interrupt a call at its point number ``step``; tell whether it has that many."""
    left = step
    before: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "exception":
            before[frame] = "a call that failed"
        if event == "opcode":
            if before.get(frame, "RESUME").startswith(("CALL", "RESUME", "JUMP")):
                left -= 1
                if left < 0:
                    before.clear()
                    raise KeyboardInterrupt
            before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def steps() -> int:
    """Go through every point of every kind of call."""
    total = 0
    values = {"set": -1, "increment": 0, "many": -1, "asset": -1}
    task.increment("increment", by=0)
    calls: dict[str, Callable[[int], Any]] = {
        "set": lambda number: task.set("set", number),
        "increment": lambda _: task.increment("increment"),
        "many": lambda number: task.set_many({"many": number, "more": number}),
        "asset": lambda number: asset.set("asset", number),
        "get": lambda _: task.get("set"),
        "absent": lambda _: task.get("absent"),
        "open": lambda _: store.instances.open(SCOPE, 1),
    }
    for name, call in calls.items():
        step = 0
        while interrupted(lambda: call(step), step):  # noqa: B023  (used at once)
            check()
            if name in values:
                value = (asset if name == "asset" else task).get(name, -1)
                new = values[name] + 1 if name == "increment" else step
                assert value in (values[name], new), (name, step, value)
                values[name] = value
            assert task.get("many") == task.get("more")
            step += 1
        check()
        assert step > 5, f"{name} was hardly interrupted"
        total += step
    return total


def signals() -> int:
    """Let a timer interrupt a loop of calls."""
    rng = random.Random(9)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    struck, acknowledged, number = 0, -1, 0
    while struck < 400:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + rng.random() * 0.003)
            while True:
                task.set("n", number)
                acknowledged = number
                task.set_many({"many": number, "more": number})
                task.increment("count")
                number += 1
        except KeyboardInterrupt:
            struck += 1
        check()
        assert acknowledged <= task.get("n", -1) <= number
        assert task.get("many") == task.get("more")
    assert number > 0  # how many calls fit between two signals is a matter of speed
    return struck


try:
    print({"steps": steps, "signals": signals}[sys.argv[1]]())
finally:
    other.close()
    store.close()
