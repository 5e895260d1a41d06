"""The runs that events started: each is driven by the local runner in a process of its own, a few at a time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import StoreError
from milepost.runner.watch.display import printable
from milepost.runner.watch.trigger import backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from milepost.calls import RunKey
    from milepost.events import Events
    from milepost.run_records import RunRecord
    from milepost.runner.watch.display import WatchDisplay
    from milepost.store import Store

__all__ = ["STOP_SECONDS", "EventRuns"]

STOP_SECONDS: Final = 20.0
"""How long a run may take to stop: its runner gives its attempts five seconds."""

_LINE: Final = 65_536
_ENDED: Final = {0: "success", 1: "failed"}
_WHY: Final = {2: "the DAG file does not load", 5: "another runner holds it", 6: "the store was in trouble"}


class EventRuns:
    """Drives runs until they have ended.

    A run that cannot be driven (the file does not load, another runner holds it, the process was killed) is tried again,
    after a wait that grows.

    Args:
        store: The store.
        events: Tells which runs have not ended.
        display: Where runs are shown.
        file: The DAG file.
        url: The store, if it was given; otherwise runs find it as configured.
        dags: The DAGs of the file.
        workers: The most attempts of a run at once.
        max_runs: The most runs at once.
        path: The module search path.
    """

    def __init__(
        self,
        store: Store,
        events: Events,
        display: WatchDisplay,
        *,
        file: str,
        url: str | None,
        dags: Container[str],
        workers: int,
        max_runs: int,
        path: list[str],
    ) -> None:
        self._store = store
        self._events = events
        self._display = display
        self._spec: dict[str, Any] = {"file": file, "url": url, "workers": workers, "watcher": os.getpid()}
        self._dags = dags
        self._max_runs = max_runs
        self._path = path
        self._waiting: dict[RunKey, None] = {}
        self._running: dict[RunKey, asyncio.Task[None]] = {}
        self._processes: dict[RunKey, asyncio.subprocess.Process] = {}
        self._failures: dict[RunKey, int] = {}
        self._later: dict[RunKey, asyncio.TimerHandle] = {}
        self._stopping = False

    def add(self, keys: Iterable[RunKey]) -> None:
        """Have runs driven that are not already."""
        for key in keys:
            if key.dag_id in self._dags and key not in self._running and key not in self._later:
                self._waiting.setdefault(key)
        self._fill()

    async def look(self) -> None:
        """Find the runs that have not ended: left over from before, or cleared since."""
        self.add(await self._events.apending())

    def _fill(self) -> None:
        """Start what may be started."""
        while self._waiting and len(self._running) < self._max_runs and not self._stopping:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._running[key] = asyncio.get_running_loop().create_task(self._drive(key))
        self._display.waiting = len(self._waiting) + len(self._later)

    async def _drive(self, key: RunKey) -> None:
        """Drive a run once, and see to it that it is driven again if it has not ended."""
        try:
            state, text = await self._attempt(key)
        except (StoreError, OSError) as error:  # the store, or no process can be had
            state, text = "waiting", str(error)
        del self._running[key]
        if state is None:
            self._failures.pop(key, None)
        elif state == "waiting" and not self._stopping:
            self._failures[key] = self._failures.get(key, 0) + 1
            wait = backoff(self._failures[key])
            self._display.run_ended(key, state, f"{text}; again in {wait:.1f} s")
            self._later[key] = asyncio.get_running_loop().call_later(wait, self._again, key)
        else:
            self._failures.pop(key, None)
            self._display.run_ended(key, state, text)
        self._fill()

    def _again(self, key: RunKey) -> None:
        del self._later[key]
        self.add([key])

    async def _attempt(self, key: RunKey) -> tuple[str | None, str]:
        """Have a process drive a run; how the run stands then, `None` if it was deleted or had ended, and why."""
        record = await self._store.runs.aget(*key)
        if record is None or record.state == "success":
            return None, ""
        self._display.run_started(key)
        code = await self._process(key, _name(record))
        if code in _ENDED:
            return _ENDED[code], ""
        # Killed, or told to stop, while it was leaving: the record says whether it was done.
        record = await self._store.runs.aget(*key)
        if record is None or record.state in _ENDED.values():
            return record.state if record is not None else None, ""
        if self._stopping:
            return "waiting", "stopped"
        return "waiting", _WHY.get(code, f"the process ended with code {code}")

    async def _process(self, key: RunKey, name: str) -> int:
        boot = (
            f"import sys; sys.path[:] = {json.dumps(self._path)}; "
            "from milepost.runner.watch.child import main; sys.exit(main())"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            boot,
            "milepost",  # the rest is for people who look at the list of processes
            *key,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is for the watch, which passes it on
        )
        self._processes[key] = process
        try:
            if self._stopping:
                process.terminate()
            return await self._follow(process, key, name)
        finally:
            del self._processes[key]

    async def _follow(self, process: asyncio.subprocess.Process, key: RunKey, name: str) -> int:
        """Tell a process what to run, pass on what it prints, and wait for its end."""
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - all three are pipes
        process.stdin.write(json.dumps({**self._spec, **key._asdict()}).encode())
        process.stdin.close()
        show = self._display.output
        await asyncio.gather(
            _pump(process.stdout, lambda line: show(name, line, error=False)),
            _pump(process.stderr, lambda line: show(name, line, error=True)),
        )
        return await process.wait()

    async def stop(self) -> None:
        """Tell the runs to stop, and wait for them; they are gone on with when the file is watched again."""
        self._stopping = True
        for timer in self._later.values():
            timer.cancel()
        self.terminate()
        tasks = list(self._running.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            if late:
                self.kill()
                await asyncio.wait(late, timeout=STOP_SECONDS)

    def terminate(self) -> None:
        """Tell the runs to stop."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the runs; what they leave is killed by their own reapers."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in list(self._processes.values()):
            if process.returncode is None:
                process.send_signal(number)


def _name(record: RunRecord) -> str:
    """Return how the lines that a run prints are marked."""
    event = record.event.id if record.event is not None else record.run_id
    short = event if len(event) <= 40 else f"{event[:39]}…"
    return f"{record.dag_id} {printable(short)}"


async def _pump(stream: asyncio.StreamReader, show: Callable[[str], None]) -> None:
    """Show what comes out of a pipe line by line, a line without end in pieces."""
    rest = b""
    while data := await stream.read(_LINE):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > _LINE:
            lines.append(rest)
            rest = b""
        for line in lines:
            show(line.decode(errors="replace"))
    if rest:
        show(rest.decode(errors="replace"))
