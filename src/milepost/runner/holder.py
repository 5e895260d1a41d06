"""Who holds a run: a text that names a runner's process, and whether that process still lives."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from milepost.errors import StoreUnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.run_records import RunRecord
    from milepost.store import Store

__all__ = ["HOLD_SECONDS", "Hold", "own_name", "surely_dead"]

HOLD_SECONDS: Final = 30.0
"""How long a hold on a run lasts without being renewed; it is renewed three times as often."""


def _started(pid: int) -> str:
    """Return a text for when a process started, so that a reused number is noticed; empty if it does not run."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        # The name in parentheses may hold anything; the start time is the 20th field behind it.
        text = stat.read_text(errors="replace")
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    except ProcessLookupError:
        return ""
    else:
        fields = text.rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return "_".join(found.stdout.split())


def own_name() -> str:
    """Return the text that names this process: host, number, start."""
    pid = os.getpid()
    # The random end tells two runners in one process apart.
    return f"{socket.gethostname()}/{pid}/{_started(pid)}-{os.urandom(4).hex()}"


def surely_dead(holder: str) -> bool:
    """Tell whether the process behind a holder's name is known to be gone.

    Args:
        holder: What `own_name` returned in some process.

    Returns:
        `False` for a process of another host, and for a name that is not understood.
    """
    parts = holder.rsplit("/", 2)
    if len(parts) != 3 or parts[0] != socket.gethostname() or not parts[1].isdigit():
        return False
    return _started(int(parts[1])) != parts[2].rpartition("-")[0]


class Hold:
    """This process's hold on a run.

    Args:
        store: The store.
        dag_id: The DAG.
        run_id: The run.
    """

    def __init__(self, store: Store, dag_id: str, run_id: str) -> None:
        self._runs = store.runs
        self._run = (dag_id, run_id)
        self._name = own_name()
        self._renewed = time.monotonic()
        self.due = self._renewed
        """When the hold is to be renewed next, by the monotonic clock."""

    def take(self, known: RunRecord | None, **kept: Any) -> RunRecord:
        """Take the run, recording it if it is new.

        Args:
            known: What is recorded of it.
            kept: ``params`` and ``logical_date``, recorded if the run is new; ``again``: take a run that has succeeded too.

        Returns:
            The record; a run that has succeeded is not taken.

        Raises:
            RunHeldError: Another runner that may be alive holds it.
        """
        holder = known.holder if known is not None else None
        dead = holder if holder is not None and surely_dead(holder) else None
        record = self._runs.begin(*self._run, holder=self._name, ttl=HOLD_SECONDS, dead_holder=dead, **kept)
        self._held(time.monotonic())
        return record

    def _held(self, now: float) -> None:
        self._renewed = now
        self.due = now + HOLD_SECONDS / 3

    def keep(self) -> str | None:
        """Renew the hold if it is time to.

        Returns:
            What went wrong, if it is to be tried again.

        Raises:
            RunHeldError: The hold is lost.
            StoreUnreachableError: It could not be renewed for as long as it lasted.
        """
        now = time.monotonic()
        if now < self.due:
            return None
        try:
            self._runs.heartbeat(*self._run, self._name, HOLD_SECONDS)
        except StoreUnreachableError as error:
            if now - self._renewed > HOLD_SECONDS:
                raise
            self.due = now + 1
            return f"cannot renew the hold on the run, trying again: {error}"
        self._held(now)
        return None

    def end(self, state: Literal["success", "failed"], unstarted: Sequence[tuple[str, str, str | None]] = ()) -> None:
        """Record how the run ended and what became of tasks that were not started, and give it up."""
        self._runs.end(*self._run, self._name, state, unstarted=unstarted)

    def release(self) -> None:
        """Give the run up as it stands."""
        self._runs.release(*self._run, self._name)
