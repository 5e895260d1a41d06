"""The command `milepost watch` from start to stop."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from typing import Any

import pytest

import milepost
from milepost import Asset, TaskScope, calls
from milepost.runner import watch_file
from tests.integration.runner.helpers import Outcome, wait_until
from tests.integration.watch.helpers import FILES, Watching
from tests.integration.watch.test_kills import WAITING


class Here:
    """Watches in this process, where that ends at once.

    Args:
        watching: The folder.
        capsys: Takes what is printed.
    """

    def __init__(self, watching: Watching, capsys: pytest.CaptureFixture[str]) -> None:
        self.watching = watching
        self._capsys = capsys

    def watch(self, **options: Any) -> Outcome:
        """Watch the file of the folder."""
        options.setdefault("url", self.watching.url)
        code = watch_file(self.watching.folder / "pipeline.py", **options)
        return Outcome(code, *self._capsys.readouterr())


@pytest.fixture
def here(watching: Watching, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """The folder, to be watched in this process; what loading its file leaves behind is taken back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return Here(watching, capsys)


def test_events_start_runs_that_runs_list_shows_with_their_cause(watching: Watching) -> None:
    """Files that arrive one after the other start a run each; the lines of --json tell the same story."""
    process = watching.start("--json")
    watching.arrive("a b.csv")
    watching.wait_states("success")
    watching.arrive("b.csv")
    runs = watching.wait_states("success", "success")
    ended = watching.terminate(process)
    assert ended.code == 0
    told: list[dict[str, Any]] = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["runs"][0]["run_id"] for line in told if line["what"] == "event"] == [run.run_id for run in runs]
    ends = [(line["run_id"], line["state"]) for line in told if line["what"] == "run" and line["state"] != "running"]
    assert ends == [(run.run_id, "success") for run in runs]
    listed = watching.command("runs", "list", "--dag", "load")
    assert runs[0].event is not None
    assert f"event {runs[0].event.id} of files, seen by arrivals" in listed.out
    shown = json.loads(watching.command("runs", "show", "load", runs[1].run_id, "--json").out)
    assert runs[1].event is not None
    assert shown["run"]["event"] == {
        "id": runs[1].event.id, "watcher": "arrivals", "asset": "files", "uri": "file:///in",
    }  # fmt: skip


def test_only_one_process_watches_a_file(here: Here) -> None:
    """A second watch of the same file on the same store is refused with exit code 5, and the first one goes on."""
    watching = here.watching
    first = watching.start()
    watching.wait_said(first, "watching 1 asset with 1 trigger")
    second = here.watch()
    assert second.code == 5
    assert "is watched by another process on this store" in second.err
    watching.arrive("a.csv")
    watching.wait_states("success")
    assert watching.terminate(first).code == 0
    third = watching.start()
    watching.wait_said(third, "watching 1 asset with 1 trigger")


def test_a_stop_ends_runs_and_the_next_watch_goes_on_with_them(watching: Watching) -> None:
    """SIGINT stops a running run in good order with exit code 0; it is no failure, and goes on when watched again."""
    watching.write(WAITING)
    watching.arrive("a.csv")
    process = watching.start()
    wait_until(lambda: watching.lines("alive.txt"), "the task is at work")
    process.send_signal(signal.SIGINT)
    ended = watching.wait(process)
    assert ended.code == 0
    assert "waiting after" in ended.err
    (run,) = watching.wait_states("running")
    assert run.holder is None
    (watching.folder / "go").touch()
    watching.start()
    watching.wait_states("success")


FAILING = FILES.replace(
    "        append(",
    """        if not (HERE / "go").exists():
            raise OSError("no")
        append(""",
)


def test_a_failed_run_is_not_repeated_until_it_is_cleared(watching: Watching) -> None:
    """A run that failed has ended; after `runs clear` the next look at the store has it run again."""
    watching.write(FAILING)
    watching.arrive("a.csv")
    process = watching.start(crash="hurry")
    (run,) = watching.wait_states("failed")
    (watching.folder / "go").touch()
    watching.arrive("b.csv")
    watching.wait_states("failed", "success")
    assert watching.command("runs", "clear", "load", run.run_id).code == 0
    watching.wait_states("success", "success")
    assert watching.terminate(process).code == 0


def test_a_watch_that_another_took_over_from_stops(watching: Watching) -> None:
    """One whose lease is another's by now, as after a long standstill, says so and ends with exit code 5."""
    process = watching.start(crash="hurry")
    watching.wait_said(process, "watching 1 asset")
    with milepost.connect(watching.url) as store, sqlite3.connect(watching.folder / "store.db") as connection:
        ((name, holder),) = connection.execute("SELECT name, holder FROM leases").fetchall()
        connection.execute("UPDATE leases SET holder = 'elsewhere'")
        connection.commit()
        ended = watching.wait(process)
        assert ended.code == 5
        assert "another process has taken over" in ended.err
        assert store.metastore.call(calls.TakeLease(name, holder, 1)) == "elsewhere"
    connection.close()


STUBBORN = FILES.replace(
    "            await asyncio.sleep(0.05)",
    """            try:
                append("alive.txt", 1)
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                append("cancelled.txt", 1)""",
)


IN_A_THREAD = FILES.replace(
    "await asyncio.sleep(0.05)",
    """append("alive.txt", 1)
            await asyncio.to_thread(time.sleep, 600)""",
)


@pytest.mark.parametrize(("text", "said"), [(STUBBORN, "1 trigger did not stop"), (IN_A_THREAD, "1 thread did not stop")])
def test_a_trigger_that_does_not_let_itself_be_stopped_is_not_waited_for(watching: Watching, text: str, said: str) -> None:
    """One that swallows its cancellation, or whose thread goes on, is left behind after a bounded time, with exit code 0."""
    watching.write(text)
    process = watching.start(crash="hurry")
    wait_until(lambda: watching.lines("alive.txt"), "the trigger is at work")
    ended = watching.terminate(process)
    assert ended.code == 0
    assert text is not STUBBORN or watching.lines("cancelled.txt")
    assert said in ended.err


BLOCKING = FILES.replace(
    "await asyncio.sleep(0.05)",
    "await asyncio.sleep(0.05)\n            time.sleep(600 if (HERE / 'done.txt').exists() else 0)",
)


def test_a_trigger_that_blocks_the_event_loop_is_named_and_does_not_keep_the_watch_from_stopping(watching: Watching) -> None:
    """The line that blocks is shown; a signal, which the loop cannot answer, ends the process all the same."""
    watching.write(BLOCKING)
    watching.arrive("a.csv")
    process = watching.start(crash="pulse")
    watching.wait_states("success")
    watching.wait_said(process, "blocks the event loop: all triggers stand still")
    ended = watching.terminate(process)
    assert ended.code == 0
    line = 1 + BLOCKING[: BLOCKING.index("time.sleep")].count("\n")
    assert f"pipeline.py:{line} blocks the event loop" in ended.err
    assert "so the process ends without it" in ended.err
    watching.write()
    process = watching.start()
    watching.wait_said(process, "watching 1 asset")
    assert watching.terminate(process).code == 0


LEAVING = FILES.replace(
    "    async def run(self):",
    """    async def cleanup(self):
        sys.exit("cleaning")

    async def give_up(self):
        sys.exit("in a task")

    async def run(self):
        for name in ("first", "second", "third"):
            if (HERE / "in" / name).exists():
                (HERE / "in" / name).unlink()
                if name == "second":
                    await asyncio.gather(self.give_up())
                raise type("Odd", (BaseException,), {}) if name == "third" else SystemExit("\\x1b[31mno\\nlicence")""",
)


def test_a_trigger_that_exits_takes_nothing_along(watching: Watching) -> None:
    """`sys.exit`, also in a task or in `cleanup`, is a failure of that trigger, shown without what a terminal would obey."""
    watching.write(LEAVING)
    watching.arrive("first", "second", "third", "a.csv")
    process = watching.start(crash="hurry")
    watching.wait_states("success")
    ended = watching.terminate(process)
    assert ended.code == 0
    assert r"trigger arrivals (Files): SystemExit: \x1b[31mno licence (" in ended.err
    assert "trigger arrivals (Files): SystemExit: in a task (" in ended.err
    assert ".Odd (" in ended.err
    assert ended.err.count("while it cleaned up: SystemExit: cleaning (") == 4


STUMBLING = FILES.replace(
    "                    yield Trig",
    """                    if path.name == "b.csv" and not (HERE / "go").exists():
                        append("stumbled.txt", 1)
                        await asyncio.to_thread(json.loads, "no JSON")
                    yield Trig""",
).replace(
    "async def run",
    """async def cleanup(self):
        append("cleaned.txt", 1)

    async def run""",
)


def test_a_trigger_that_fails_is_started_again(watching: Watching) -> None:
    """Its error is shown with its own line, not Python's; it cleans up, begins anew after a wait, and finds its cursor."""
    watching.write(STUMBLING)
    watching.arrive("a.csv", "b.csv")
    process = watching.start(crash="hurry")
    wait_until(lambda: len(watching.lines("stumbled.txt")) >= 2, "the trigger is started again and fails again")
    (watching.folder / "go").touch()
    watching.wait_states("success", "success")
    ended = watching.terminate(process)
    assert ended.code == 0
    assert "trigger arrivals (Files): json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) (" in ended.err
    line = 1 + STUMBLING[: STUMBLING.index("json.loads")].count("\n")
    assert f"pipeline.py:{line}); starts again in " in ended.err
    assert sorted(line[0] for line in watching.lines("done.txt")) == ["a.csv", "b.csv"]
    assert len(watching.lines("cleaned.txt")) == len(watching.lines("stumbled.txt")) + 1


def test_a_trigger_that_yields_no_event_is_named_with_its_line(watching: Watching) -> None:
    """What a trigger does wrong without raising anything itself is shown with the place of its `run`, not with ours."""
    text = FILES.replace("yield TriggerEvent(", "yield dict(payload=")
    assert text != FILES
    watching.write(text)
    watching.arrive("a.csv")
    process = watching.start()
    watching.wait_said(process, "run() has to yield a TriggerEvent, not dict")
    ended = watching.terminate(process)
    line = 1 + text[: text.index("async def run")].count("\n")
    assert (
        f"TypeError: run() has to yield a TriggerEvent, not dict ({watching.folder}/pipeline.py:{line}); starts" in ended.err
    )


def test_a_file_that_stops_loading_leaves_its_runs_waiting(watching: Watching) -> None:
    """A run whose file no longer loads is tried again, and runs once the file is whole."""
    process = watching.start()
    watching.wait_said(process, "watching 1 asset")
    watching.write("raise OSError('half written')\n")
    watching.arrive("a.csv")
    watching.wait_said(process, "waiting after")
    assert "the DAG file does not load; again in" in watching.said(process)
    watching.write()
    watching.wait_states("success")
    assert watching.terminate(process).code == 0


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (FILES, {"url": "memory://"}, "memory:// lives in one process"),
        (FILES, {"dag_ids": ["nothing"]}, "has no DAG 'nothing'; it has: load"),
        ("from milepost.sdk import *\nwith DAG('d'): pass\n", {}, "has nothing to watch"),
        (FILES.replace("schedule=[files]", "schedule=[files, Asset('b')]"), {}, "waits for several assets together"),
        ("raise OSError('broken')\n", {}, "OSError: broken"),
    ],
    ids=["memory", "unknown DAG", "no watchers", "several assets", "broken file"],
)
def test_what_cannot_be_watched_is_refused(here: Here, text: str, options: dict[str, Any], said: str) -> None:
    """Each is exit code 2 with one line that says why, and nothing is stored."""
    here.watching.write(text)
    ended = here.watch(**options)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (here.watching.folder / "store.db").exists()


def test_check_warns_of_a_cursor_that_is_stored_too_early(here: Here) -> None:
    """`--check` opens no store; it exits with 0 for the pattern, and with 1 and the line for a cursor stored too early."""
    watching = here.watching
    good = here.watch(check=True)
    assert (good.code, good.err) == (0, "")
    assert good.out == "1 trigger, none stores its cursor before it yields\n"
    lines = FILES.splitlines()
    at = next(number for number, line in enumerate(lines) if "yield" in line)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    watching.write("\n".join(lines))
    bad = here.watch(check=True)
    assert (bad.code, bad.out) == (1, "")
    assert bad.err.startswith(f"{watching.folder / 'pipeline.py'}:{at + 1}: Files stores its cursor here")
    assert not (watching.folder / "store.db").exists()


STORES = """\
import asyncio, json, pathlib
from milepost.sdk import *

class Both(BaseEventTrigger):
    async def run(self):
        told = {}
        told["names"] = [asset.name for asset in self.asset_store]
        await self.asset_store[Asset(name="orders", uri="s3://orders")].aset("n", 1)
        self.asset_store[Asset.ref(uri="s3://rates")].set("n", 2)
        told["values"] = [await self.asset_store[asset].aget("n") for asset in self.asset_store]
        for name, wrong in {"other": Asset.ref(name="other"), "text": "orders"}.items():
            try:
                self.asset_store[wrong]
            except (KeyError, TypeError) as error:
                told[name] = f"{type(error).__name__}: {error}"
        try:
            await self.asset_store.aget("n")
        except ValueError as error:
            told["shorthand"] = str(error)
        told["same"] = self.asset_store is self.asset_state_store
        yield TriggerEvent(told, id="both")
        await asyncio.Event().wait()

both = Both()
orders = Asset("orders", uri="s3://orders", watchers=[AssetWatcher("o", both)])
rates = Asset("rates", uri="s3://rates", watchers=[AssetWatcher("r", both)])
with DAG("either", schedule=orders | rates):
    @task
    def nothing(): pass
    nothing()
with DAG("one", schedule=rates):
    @task
    def nothing(): pass
    nothing()
"""


def test_a_trigger_of_two_assets_has_the_stores_of_both(watching: Watching) -> None:
    """Subscript, iteration, errors and shorthand are about its assets; its one event starts one run of each DAG."""
    watching.write(STORES)
    process = watching.start()
    runs = watching.wait_states("success", "success")
    assert watching.terminate(process).code == 0
    assert {run.dag_id: run.event.asset for run in runs if run.event} == {"either": "orders", "one": "rates"}
    event = json.loads(runs[0].params or "")["event"]
    told = event.pop("payload")
    assert event == {"id": "both", "asset": "orders", "uri": "s3://orders", "watcher": "o"}
    assert told["names"] == ["orders", "rates"]
    assert told["values"] == [1, 2]
    assert told["other"].startswith("AssetNotFoundError: ")
    assert "is not watched by this trigger" in told["other"]
    assert told["text"].startswith("UnsupportedTypeError: not an asset")
    assert "needs a trigger that watches exactly one asset" in told["shorthand"]
    assert told["same"] is True
    with milepost.connect(watching.url) as store:
        entry = store.asset_store(Asset.ref(name="rates")).entry("n")
        assert entry is not None
        assert str(entry.writer) == "watcher (r)"
        assert store.instances.get(TaskScope("one", runs[-1].run_id, "nothing")) is not None
