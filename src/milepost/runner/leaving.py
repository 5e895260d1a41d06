"""The end of an attempt's process, whatever the task has left behind in it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

__all__ = ["leave"]

SECONDS: Final = 5.0
"""How long threads and processes of the task may go on. Airflow gives them no time at all."""


def leave(main: Callable[[], int]) -> NoReturn:
    """Call a function and end the process with the code that it returns, without what has not ended `SECONDS` later.

    Python itself would wait for threads that are no daemons, for child processes of ``multiprocessing`` and for functions
    that were registered to be called at the end, for as long as they take.
    """
    code = 1
    try:
        code = main()
    finally:
        threading.Thread(target=_cut, args=(code,), name="milepost-leave", daemon=True).start()
    sys.exit(code)


def _cut(code: int) -> None:
    time.sleep(SECONDS)
    try:
        sys.stdout.flush()
        print(f"{_left()}; the process ends without waiting for it", file=sys.stderr, flush=True)  # noqa: T201 - for people
    finally:  # the task may have closed or broken whatever it is shown on
        os._exit(code)


def _left() -> str:
    """Return what has not ended."""
    main = threading.main_thread()
    threads = [thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main]
    children = sys.modules["multiprocessing"].active_children() if "multiprocessing" in sys.modules else []
    processes = [process.name for process in children if not process.daemon]
    kinds = {"thread": threads, "process": processes}
    found = [f"{kind} {name}" for kind, names in kinds.items() for name in names] or ["a function registered with atexit"]
    return f"the task has left behind: {', '.join(found)}"
