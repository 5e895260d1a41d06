"""What the runner shows: one line for each event, or on a terminal a live view; a summary at the end."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from milepost.progress import progress_share, progress_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.live import Live

    from milepost.run_records import InstanceRecord
    from milepost.runner.plan import Start

__all__ = ["Display", "LiveDisplay", "Row", "label", "make_display", "row_of", "seconds_of"]

_LOG_INTERVAL: Final = 5.0
"""Seconds between two lines about the progress of one task instance, where it is logged."""


_WIDE: Final = 20
"""Instances of a mapped task that the summary lists one by one at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the summary.

    Args:
        task_id: The task.
        map_index: The position, -1 if not mapped.
        state: How it ended.
        attempts: The number of its latest attempt; 0 if it never ran.
        seconds: How long the latest attempt took, if known.
        error: What went wrong in it, if known.
    """

    task_id: str
    map_index: int
    state: str
    attempts: int
    seconds: float | None
    error: str | None


def row_of(record: InstanceRecord) -> Row:
    """Return the row of a task instance as it is recorded."""
    return Row(record.scope.task_id, record.scope.map_index, record.state, record.attempt, seconds_of(record), None)


def seconds_of(record: InstanceRecord) -> float | None:
    """Return how long the latest attempt took, if it has ended."""
    if record.opened_at is None or record.finished_at is None:
        return None
    return (record.finished_at - record.opened_at).total_seconds()


def label(task_id: str, map_index: int) -> str:
    """Return how a task instance is called."""
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def _cells(rows: Sequence[Row]) -> list[tuple[str, str, str, str]]:
    """Return the lines of the summary; instances of a widely mapped task share one line for each state but failure."""
    sizes = Counter(row.task_id for row in rows)
    shared = Counter((row.task_id, row.state) for row in rows)
    cells = []
    for row in rows:
        if sizes[row.task_id] <= _WIDE or row.state == "failed":
            duration = "" if row.seconds is None else f"{row.seconds:.2f} s"
            cells.append((label(row.task_id, row.map_index), row.state, str(row.attempts), duration))
        elif count := shared.pop((row.task_id, row.state), 0):
            cells.append((f"{row.task_id}: {count} instances", row.state, "", ""))
    return cells


class Display:
    """Logs events to standard error, one line each, and passes on what tasks print.

    Args:
        as_json: Whether standard output is for the summary as JSON alone.
    """

    interval: float = _LOG_INTERVAL
    """Seconds between two looks at the progress of running tasks."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Show one line about the run."""
        self._write(sys.stderr, f"{time.strftime('%H:%M:%S')} {text}")

    def output(self, start: Start, line: str, *, error: bool) -> None:
        """Show a line that a task printed, with the task's name in front."""
        stream = sys.stderr if error or self._as_json else sys.stdout
        self._write(stream, f"[{label(start.task_id, start.map_index)}] {line}")

    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text + "\n")
        stream.flush()

    def started(self, start: Start) -> None:
        """Show that an attempt was started."""
        self.note(f"{label(start.task_id, start.map_index)}: attempt {start.attempt} started")

    def ended(self, start: Start, text: str) -> None:
        """Show how an attempt ended."""
        self._shown.pop(label(start.task_id, start.map_index), None)
        self.note(f"{label(start.task_id, start.map_index)}: {text}")

    def progress(self, start: Start, value: Any) -> None:
        """Show how far a running task says that it is."""
        name, text = label(start.task_id, start.map_index), progress_text(value)
        if text and self._shown.get(name) != text:
            self._shown[name] = text
            self.note(f"{name}: progress {text}")

    def refresh(self) -> None:
        """Bring the view up to date."""

    def summary(self, head: dict[str, Any], rows: Sequence[Row]) -> None:
        """Show how the run ended.

        Args:
            head: What is said of the run: ``dag_id``, ``run_id``, ``state``.
            rows: Its task instances.
        """
        if self._as_json:
            tasks = [
                {
                    "task_id": row.task_id,
                    "map_index": row.map_index,
                    "state": row.state,
                    "attempts": row.attempts,
                    "seconds": None if row.seconds is None else round(row.seconds, 3),
                    "error": row.error,
                }
                for row in rows
            ]
            self._write(sys.stdout, json.dumps({**head, "tasks": tasks}, ensure_ascii=False))
            return
        # Without rows, the heads of the columns would say nothing.
        cells = [("task", "state", "attempts", "duration"), *_cells(rows)] if rows else []
        widths = [max(len(line[column]) for line in cells) for column in range(4)] if cells else []
        for line in cells:
            parts = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
            self._write(sys.stdout, "  ".join(parts).rstrip())
        self._write(sys.stdout, f"run {head['run_id']} of DAG {head['dag_id']}: {head['state']}")


class LiveDisplay(Display):
    """Shows the running tasks with their progress at the foot of a terminal, and events above.

    Args:
        as_json: As in `Display`.
    """

    interval = 0.5

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(as_json=as_json)
        self._running: dict[str, tuple[float, Any]] = {}
        self._live: Live | None = None

    def __enter__(self) -> Display:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        super().__exit__()

    def _write(self, stream: TextIO, text: str) -> None:
        # On the same terminal, lines go above the live part; a redirected standard output gets them plain.
        if self._live is None or not stream.isatty():
            super()._write(stream, text)
        else:
            self._live.console.print(text, soft_wrap=True)

    def started(self, start: Start) -> None:
        """Show that an attempt was started."""
        self._running[label(start.task_id, start.map_index)] = (time.monotonic(), None)
        super().started(start)
        self.refresh()

    def ended(self, start: Start, text: str) -> None:
        """Show how an attempt ended."""
        self._running.pop(label(start.task_id, start.map_index), None)
        super().ended(start, text)
        self.refresh()

    def progress(self, start: Start, value: Any) -> None:
        """Show how far a running task says that it is."""
        name = label(start.task_id, start.map_index)
        if name in self._running:
            self._running[name] = (self._running[name][0], value)

    def refresh(self) -> None:
        """Draw the running tasks anew."""
        if self._live is None:
            return
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, (since, value) in self._running.items():
            text = progress_text(value)
            share = progress_share(value)
            bar = ProgressBar(total=1, completed=share, width=30) if share is not None else ""
            table.add_row(name, bar, text, f"{now - since:.0f} s")
        self._live.update(table, refresh=True)


def make_display(*, as_json: bool) -> Display:
    """Return the live view if standard error is a terminal, otherwise the log."""
    kind = LiveDisplay if sys.stderr.isatty() else Display
    return kind(as_json=as_json)
