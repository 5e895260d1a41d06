"""What `milepost watch` shows: a line for each event and each run, and on a terminal how things stand."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.live import Live

    from milepost.calls import RecordedEvent, RunKey
    from milepost.scopes import AssetScope

__all__ = ["WatchDisplay", "printable"]


def printable(text: str) -> str:
    """Return a text in one line, without what a terminal would obey."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class WatchDisplay:
    """Logs to standard error, one line each, and passes on what runs print.

    Args:
        as_json: Whether standard output is for events and runs as lines of JSON alone.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._live: Live | None = None
        self.triggers = 0
        self.events = 0
        self.running: dict[RunKey, float] = {}
        self.waiting = 0

    def __enter__(self) -> WatchDisplay:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, highlight=False, markup=False, emoji=False)
            self._live = Live(
                console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        sys.stdout.flush()

    def _write(self, stream: TextIO, text: str) -> None:
        # On the same terminal, lines go above the live part; a redirected standard output gets them plain.
        if self._live is not None and stream.isatty():
            self._live.console.print(text, soft_wrap=True)
        else:
            stream.write(text + "\n")
            stream.flush()

    def note(self, text: str) -> None:
        """Show one line, whatever characters ids and errors from outside may have in them."""
        self._write(sys.stderr, f"{time.strftime('%H:%M:%S')} {printable(text)}")

    def output(self, name: str, line: str, *, error: bool) -> None:
        """Show a line that a run printed, with the name of the run in front."""
        self._write(sys.stderr if error or self._as_json else sys.stdout, f"[{name}] {line}")

    def _tell(self, what: str, **details: Any) -> None:
        if self._as_json:
            at = datetime.now(timezone.utc).isoformat()
            self._write(sys.stdout, json.dumps({"at": at, "what": what, **details}, ensure_ascii=False))

    def trouble(self, trigger: str, text: str) -> None:
        """Show what went wrong with a trigger."""
        self.note(f"trigger {trigger}: {text}")
        self._tell("trouble", trigger=trigger, text=text)

    def event(self, assets: Sequence[tuple[AssetScope, str]], event_id: str, recorded: RecordedEvent) -> None:
        """Show an event that is persisted."""
        self.events += recorded.new
        names = ", ".join(str(scope.name) for scope, _ in assets)
        runs = ", ".join(f"{key.dag_id}/{key.run_id}" for key in recorded.runs)
        known = "" if recorded.new else ", known already"
        self.note(f"event {event_id} of {names}{known}{f': run {runs}' if runs else ''}")
        self._tell(
            "event",
            id=event_id,
            assets=[{"name": scope.name, "uri": scope.uri, "watcher": watcher} for scope, watcher in assets],
            new=recorded.new,
            runs=[key._asdict() for key in recorded.runs],
        )
        self.refresh()

    def run_started(self, key: RunKey) -> None:
        """Show that a run is being driven."""
        self.running[key] = time.monotonic()
        self.note(f"run {key.dag_id}/{key.run_id}: started")
        self._tell("run", **key._asdict(), state="running")
        self.refresh()

    def run_ended(self, key: RunKey, state: str, text: str = "") -> None:
        """Show how a run ended, or that it has not: ``state`` is ``success``, ``failed`` or ``waiting``."""
        since = self.running.pop(key, None)
        seconds = "" if since is None else f" after {time.monotonic() - since:.2f} s"
        self.note(f"run {key.dag_id}/{key.run_id}: {state}{seconds}{f', {text}' if text else ''}")
        self._tell("run", **key._asdict(), state=state)
        self.refresh()

    def refresh(self) -> None:
        """Draw how things stand anew."""
        if self._live is None:
            return
        from rich.text import Text

        counts = f"{self.triggers} triggers · {self.events} events · {len(self.running)} running · {self.waiting} waiting"
        now = time.monotonic()
        lines = [f"  {key.dag_id}/{key.run_id}  {now - since:.0f} s" for key, since in self.running.items()]
        self._live.update(Text("\n".join([f"watching {counts}", *lines])), refresh=True)
