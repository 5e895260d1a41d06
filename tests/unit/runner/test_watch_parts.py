"""Parts of `milepost watch` that need no process: waits, ids of events, what there is to watch."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, Store, Writer, connect
from milepost.accessors import AssetStoreAccessor
from milepost.calls import Handle, RecordedEvent, RecordEvent
from milepost.errors import StoreUnreachableError
from milepost.events import Events
from milepost.runner import DagLoadError, RunnerUsageError, load_dags
from milepost.runner.declaring import scheduled_elsewhere
from milepost.runner.watch.display import WatchDisplay
from milepost.runner.watch.ids import EventIds, Noticing
from milepost.runner.watch.plan import Plan, Watched, make_plan
from milepost.runner.watch.trigger import RunningTrigger, backoff
from milepost.sdk import BaseEventTrigger, TriggerEvent
from milepost.sdk.triggers import collecting_watchers


def test_waits_double_up_to_a_minute() -> None:
    """The wait after n failures in a row is 1, 2, 4, … seconds, at most 60, less a drawn share of up to half."""
    assert [backoff(n, lambda: 0.0) for n in (1, 2, 3, 6, 7, 5_000)] == [1, 2, 4, 32, 60, 60]
    assert [backoff(n, lambda: 1.0) for n in (1, 2, 7)] == [0.5, 1, 30]
    assert all(15 <= backoff(6) <= 32 for _ in range(100))


# -- ids ------------------------------------------------------------------------------------------------------------------


class Cursor:
    """A trigger's view of one asset, begun anew by each instance as after a kill."""

    def __init__(self, store: Store, watcher: str = "w") -> None:
        noticing = Noticing(store.metastore)
        scope: Any = store.asset_store(Asset("orders", uri="s3://orders")).scope
        handle = Handle(scope, f"watcher:{watcher}", owner_id=scope.asset_id)
        self.accessor = AssetStoreAccessor(noticing, handle, 0)
        self.ids = EventIds(noticing, [handle])

    def name(self, payload: Any, event_id: str | None = None) -> str:
        """Return the id of an event."""
        return asyncio.run(self.ids.name(TriggerEvent(payload, id=event_id)))


@pytest.fixture
def store() -> Any:
    """A store in memory."""
    with connect("memory://", writer=Writer("watcher")) as opened:
        yield opened


def test_a_given_id_is_kept(store: Store) -> None:
    """An id that the trigger gives is the id."""
    assert Cursor(store).name({"any": 1}, "mine") == "mine"


def test_the_same_event_behind_the_same_cursor_has_the_same_id(store: Store) -> None:
    """A trigger that begins again and finds its cursor where it was yields the same events under the same ids."""
    first = Cursor(store)
    first.accessor.get("n")
    named = [first.name(payload) for payload in ({"b": 1, "a": [None]}, 2, 2, None)]
    assert len(set(named)) == 4
    again = Cursor(store)
    again.accessor.get("n")
    assert [again.name(payload) for payload in ({"a": [None], "b": 1}, 2, 2, None)] == named


def test_a_moved_cursor_makes_other_events(store: Store) -> None:
    """The same payload after the cursor moved is another event, also where the cursor was moved back."""
    cursor = Cursor(store)
    named = []
    for value in (1, 2, 1):
        cursor.accessor.set("n", value)
        named.append(cursor.name("same"))
    assert len(set(named)) == 3
    assert cursor.name("same") not in named


def test_what_others_store_moves_no_cursor(store: Store) -> None:
    """A task, a person or another trigger that writes to the asset between two starts of the trigger changes no id."""
    cursor, other = Cursor(store), Cursor(store, "other")
    cursor.accessor.set("n", 1)
    named = cursor.name("same")
    other.accessor.set("other n", 1)
    assert other.name("same") != named
    Store(store.metastore, store.settings, Writer("python")).asset_store(Asset.ref(name="orders")).set("watermark", 5)
    again = Cursor(store)
    again.accessor.get("n")
    assert again.name("same") == named


def test_without_a_cursor_every_event_is_another(store: Store) -> None:
    """A trigger that never used its store yields the same payload as a new event each time, after a restart too."""
    assert len({Cursor(store).name("same") for _ in range(3)} | {(one := Cursor(store)).name("same"), one.name("same")}) == 5


# -- persisting -----------------------------------------------------------------------------------------------------------


class Flaky(Noticing):
    """A metastore whose answers to the first two records of events are lost, once they are made."""

    lost = 0

    async def acall(self, call: Any, /) -> Any:
        """Run a call; see `Metastore.acall`."""
        answer = await super().acall(call)
        if isinstance(call, RecordEvent) and self.lost < 2:
            self.lost += 1
            raise StoreUnreachableError("gone")
        return answer


class Twice(BaseEventTrigger):
    """Yields two events, and notes what is recorded when it is resumed."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.resumed: list[list[str]] = []

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield two events."""
        for name in ("one", "two"):
            yield TriggerEvent(None, id=name)
            self.resumed.append([run.event.id for run in self.store.runs.list() if run.event])
        await asyncio.Event().wait()


async def test_a_trigger_is_resumed_when_its_event_and_run_are_in_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the store takes to answer, and although an answer was lost: one run for each event, before the resumption."""
    monkeypatch.setattr("milepost.runner.watch.trigger.backoff", lambda _: 0.0)
    scope: Any = store.asset_store(Asset("orders", uri="s3://orders")).scope
    trigger = Twice(store)
    watched = Watched(trigger, "here", {("orders", "s3://orders"): "w"}, {"dag": [("orders", "s3://orders")]})
    flaky = Flaky(store.metastore)
    started: list[str] = []

    async def note(recorded: RecordedEvent) -> None:
        started.extend(key.dag_id for key in recorded.runs)

    display = WatchDisplay(as_json=False)
    running = RunningTrigger(watched, [(scope, "w")], store, Events(flaky, 0), display, note)
    task = asyncio.create_task(running.run())
    while len(trigger.resumed) < 2:
        assert not task.done()
        await asyncio.sleep(0)
    running.stopping = True
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert trigger.resumed == [["one"], ["two", "one"]]
    assert (flaky.lost, started) == (2, ["dag", "dag"])
    assert capsys.readouterr().err.count("an event waits for the store") == 2


# -- what there is to watch -----------------------------------------------------------------------------------------------

HEAD = """\
from datetime import timedelta
from milepost.sdk import *

class T(BaseEventTrigger):
    def __init__(self, n=0, path=None):
        super().__init__()
        self.n, self.path = n, path
    def serialize(self):
        if self.path is None:
            raise NotImplementedError
        return "T", {"path": self.path}
    async def run(self):
        yield TriggerEvent(self.n)

def asset(name, *triggers):
    return Asset(name, uri=f"s3://{name}", watchers=[AssetWatcher(f"{name}{n}", t) for n, t in enumerate(triggers)])

"""


@pytest.fixture
def plan_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from the text of a DAG file to what there is to watch in it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "pipeline.py"

    def make(text: str, *dag_ids: str) -> Plan:
        path.write_text(HEAD + textwrap.dedent(text))
        with collecting_watchers() as watchers:
            dags = load_dags(path)
        return make_plan(dags, watchers, dag_ids, "pipeline.py")

    return make


def shown(plan: Plan) -> list[tuple[list[str], dict[str, list[str]]]]:
    """Return the names of the assets of each trigger, and what it starts."""
    return [
        ([name for name, _ in one.assets], {dag: [name for name, _ in on] for dag, on in one.dags.items()})
        for one in plan.watched
    ]


@pytest.mark.parametrize(
    "schedule",
    [
        "a",
        "[a]",
        "(a,)",
        "a | b",
        "[a | b]",
        "b | (a | c)",
        "Asset.ref(name='a')",
        "[Asset.ref(uri='s3://a')]",
        "a | Asset('a2')",
    ],
)
def test_a_dag_is_started_by_any_asset_that_it_is_scheduled_on(plan_of: Any, schedule: str) -> None:
    """One asset, a list of one, `a | b` and references start the DAG; a trigger runs for watched assets of inlets too."""
    plan = plan_of(
        f"""
        a, b, c = asset("a", T(1)), asset("b"), asset("c")
        with DAG("on", schedule={schedule}): pass
        with DAG("other", schedule=timedelta(days=1)):
            @task(inlets=[a, b])
            def f(): pass
            f()
        """
    )
    assert shown(plan) == [(["a"], {"on": ["a"]})]
    assert plan.notes == []


@pytest.mark.parametrize("schedule", ["[a, b]", "a & b", "(a & b) | c", "{a, b}", "[a | b, c]"])
def test_waiting_for_several_assets_is_refused(plan_of: Any, schedule: str) -> None:
    """A DAG that no single event can start is refused with its line, if one of its assets is watched."""
    with pytest.raises(DagLoadError, match=r"pipeline.py:19: the schedule of DAG 'on' waits for several assets together"):
        plan_of(f"a, b, c = asset('a', T()), asset('b'), asset('c')\nwith DAG('on', schedule={schedule}): pass\n")
    plan = plan_of(
        f"a, b, c = asset('a'), asset('b'), asset('c')\nwith DAG('on', schedule={schedule}): pass\n"
        "with DAG('other', schedule=asset('d', T())): pass\n"
    )
    assert shown(plan) == [(["d"], {"other": ["d"]})]


def test_equal_triggers_are_one(plan_of: Any) -> None:
    """Watchers share a trigger that is the same object, or whose serialize() returns the same; others have their own."""
    plan = plan_of(
        """
        both = T()
        a, b = asset("a", both, T(path="p"), T()), asset("b", both, T(path="p"), T(path="q"), T())
        with DAG("d", schedule=a | b): pass
        """
    )
    assert shown(plan) == [
        (["a", "b"], {"d": ["a", "b"]}),
        (["a", "b"], {"d": ["a", "b"]}),
        (["a"], {"d": ["a"]}),
        (["b"], {"d": ["b"]}),
        (["b"], {"d": ["b"]}),
    ]


def test_only_the_named_dags_are_looked_at(plan_of: Any) -> None:
    """With ids of DAGs, the assets of others are not watched; an unknown id and a file without watchers are refused."""
    text = "with DAG('one', schedule=asset('a', T())): pass\nwith DAG('two', schedule=asset('b', T())): pass\n"
    assert shown(plan_of(text, "two")) == [(["b"], {"two": ["b"]})]
    with pytest.raises(RunnerUsageError, match="has no DAG 'three'; it has: one, two"):
        plan_of(text, "three")
    with pytest.raises(RunnerUsageError, match="nothing to watch"):
        plan_of("with DAG('one', schedule=asset('a')): pass\n")


def test_what_may_surprise_is_noted(plan_of: Any) -> None:
    """A watcher of an asset that no DAG uses, and an asset whose events start nothing, are named with their lines."""
    plan = plan_of(
        """
        idle, a = asset("idle", T()), asset("a", T())
        with DAG("d"):
            @task(outlets=[a])
            def f(): pass
            f()
        """
    )
    assert [note.partition("pipeline.py:")[2] for note in plan.notes] == [
        "16: the watcher 'idle0' is of no asset that a DAG of this file uses, so it is not run",
        "16: no DAG of this file is scheduled on the asset 'a'; its events are recorded and start no run",
    ]


def test_watchers_of_one_name_are_noted(plan_of: Any) -> None:
    """Two watchers of an asset under one name are named, as their events without ids may be taken for each other."""
    text = """
        a = Asset("a", watchers=[AssetWatcher(name, T()) for name in ("one", "{}")])
        with DAG("d", schedule=[a]):
            @task
            def f(): pass
            f()
        """
    assert plan_of(text.format("two")).notes == []
    (note,) = plan_of(text.format("one")).notes
    assert note.startswith("2 watchers of the asset 'a' are called 'one'")


def test_dags_of_other_files_that_miss_the_events_are_named(store: Store) -> None:
    """A DAG of another file that is scheduled on a watched asset is named; readers and this file's own DAGs are not."""
    both = Asset("a", uri="s3://a"), Asset("b", uri="s3://b")
    store.assets.declare("own", schedule=both)
    store.assets.declare("other", schedule=both)
    store.assets.declare("reader", inlets=both)
    (note,) = scheduled_elsewhere(store, {"own"}, {("a", "s3://a")})
    assert note.startswith("the asset a also schedules other, which this file has not")


def test_a_trigger_that_cannot_yield_is_refused(plan_of: Any) -> None:
    """A run() that is no generator is refused before anything is watched, with the line of the watcher."""
    with pytest.raises(DagLoadError, match=r"pipeline.py:16: run\(\) of Never yields nothing: it has to be"):
        plan_of(
            """
            class Never(BaseEventTrigger):
                async def run(self): return 1
            with DAG("d", schedule=asset("a", Never())): pass
            """
        )
