"""`milepost` that kills itself at the named point in the life of the second event, or that is in a hurry."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from milepost.accessors import AssetStoreAccessor
from milepost.cli import main
from milepost.events import Events
from milepost.runner.watch import command, pulse, trigger
from milepost.runner.watch.runs import EventRuns

HOMES: dict[str, tuple[type[Any], str]] = {
    "record": (Events, "arecord"),
    "run": (EventRuns, "_process"),
    "cursor": (AssetStoreAccessor, "aset"),
}


def crashing(method: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """Return a method that ends the process right before or after its second call."""
    calls = 0

    async def crash(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        second = calls == 2
        if second and before:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await method(*args, **options)
        if second:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return crash


def hurry() -> None:
    """Shorten what is waited for."""
    command._LOOK_SECONDS = 0.2  # type: ignore[misc]
    command.CLEANUP_SECONDS = trigger.CLEANUP_SECONDS = 0.2  # type: ignore[misc]
    trigger.backoff = lambda _failures: 0.05  # type: ignore[assignment,misc]


def crash_at(point: str) -> None:
    """Arm the point, such as ``before record``; ``hurry`` and ``pulse`` arm none."""
    if point == "hurry":
        hurry()
        return
    if point == "pulse":
        pulse.TICK_SECONDS = 0.05  # type: ignore[misc]
        return
    when, _, what = point.partition(" ")
    cls, name = HOMES[what]
    setattr(cls, name, crashing(getattr(cls, name), before=when == "before"))


if __name__ == "__main__":
    crash_at(sys.argv[1])
    # The script's own folder is no place for modules of the DAG file.
    sys.path[0] = str(Path.cwd())
    main(sys.argv[2:])
