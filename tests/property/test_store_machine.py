"""Any sequence of calls does to a store what it does to the model."""

# ruff: noqa: D102  (rules are named after the calls that they make)

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from milepost import NEVER_EXPIRE, Asset, ManualClock, MilepostError, StaleAttemptError, Store, TaskScope
from milepost.clock import to_micros
from milepost.config import load_settings
from milepost.metastore.memory import MemoryMetastore
from milepost.metastore.network import NetworkMetastore
from milepost.metastore.sql import SqliteMetastore
from milepost.remote.client import HttpMetastore
from tests.fault.server_helpers import DIALECTS
from tests.property.model import DAY, Handle, Instance, Model, Row
from tests.support.driver import Loops, drive
from tests.support.servers import Databases, engine_of, in_use
from tests.support.serving import SECRET, Served

SCOPES = [TaskScope("dag", "run", "m", 0), TaskScope("dag", "run", "m", 1), TaskScope("dag", "run%", "m", 1)]
ASSETS = ["orders"]
KEYS = ["k", "K", "k "]
HOUR = 3_600_000_000

keys = st.sampled_from(KEYS)
values = st.one_of(
    st.sampled_from([0, 0.0, -0.0, False, True, "", [], {}, 2**70, 1, 1.0, "1", "a\0b", {"b": 1, "a": [None]}]),
    st.integers(-(2**80), 2**80),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
retentions = st.sampled_from([None, None, HOUR, HOUR, 40 * DAY, "never"])
amounts = st.sampled_from([1, -1, 0, 2**70, 0.5])
steps = st.sampled_from([1, 1, HOUR, HOUR, 2 * DAY, 31 * DAY, 91 * DAY])
seldom = st.sampled_from([False, False, False, True])
scopes = st.sampled_from(SCOPES)


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal, types and signs of zero included."""
    return type(left) is type(right) and repr(left) == repr(right)


def as_timedelta(retention: int | str | None) -> timedelta | None:
    """Return a retention as callers give it."""
    return timedelta(microseconds=retention) if isinstance(retention, int) else NEVER_EXPIRE if retention else None


class StoreMachine(RuleBasedStateMachine):
    """A store and the model, driven side by side."""

    kind = "memory"
    style = "sync"
    database: Any = None
    served: Any = None
    handles: Bundle[Any] = Bundle("handles")
    attempts: Bundle[Any] = Bundle("attempts")
    anyone = attempts | attempts | handles

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model = Model(self.clock.now())
        self.loops = Loops()
        self.folder = tempfile.TemporaryDirectory()
        policy = load_settings({"url": "memory://"}, {})
        self.metastore = self.open_metastore(policy)
        self.client = self.metastore
        if self.served is not None:
            self.client = HttpMetastore(self.served.add(Store(self.metastore, policy), rest=False), SECRET, clock=self.clock)
        self.store = drive(Store(self.client, policy), self.style, self.loops)
        self.people = {Handle(scope): self.store.task_store(scope) for scope in SCOPES}
        self.people |= {Handle(name): self.store.asset_store(Asset(name)) for name in ASSETS}
        self.versions: set[str] = set()

    def open_metastore(self, policy: Any) -> Any:
        """Return an empty metastore."""
        if self.database is not None:
            self.database.empty()
            return NetworkMetastore(engine_of(self.database, self.clock), policy=policy)
        if self.kind == "memory":
            return MemoryMetastore(clock=self.clock, policy=policy)
        path = Path(self.folder.name) / "store.db"
        return SqliteMetastore(path, clock=self.clock, policy=policy, synchronous="normal")

    def teardown(self) -> None:
        """Close everything; no connection may be left in use."""
        engine = self.metastore.engine
        try:
            assert (engine._opened == len(engine._idle)) if self.database is None else (in_use(engine) == 0)
        finally:
            self.client.close()
            self.metastore.close()
            self.loops.close()
            self.folder.cleanup()

    def both(self, real: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """Run a call on both sides: the same answer or the same error. What the real one returned."""
        try:
            expected = model()
        except MilepostError as error:
            with pytest.raises(type(error)):
                real()
            return None
        answer = real()
        assert same(answer, expected)
        return answer

    # -- handles ----------------------------------------------------------------------------------------------------

    @initialize(target=handles)
    def unfenced(self) -> Any:
        """People's and tools' accessors."""
        return multiple(*self.people.items())

    @initialize(target=attempts)
    def first(self) -> Any:
        """One attempt that runs."""
        return self.begin(SCOPES[0], 1, None)

    @rule(target=attempts, scope=scopes, later=st.sampled_from([0, 1, 1, 2, -1]))
    def open(self, scope: TaskScope, later: int) -> Any:
        known = self.model.instances.get(scope)
        return self.begin(scope, max(1, (known.attempt if known else 0) + later), None)

    @rule(target=attempts, scope=scopes, incarnation=st.sampled_from("abc"), sure=seldom)
    def open_incarnation(self, scope: TaskScope, incarnation: str, sure: bool) -> Any:
        return self.begin(scope, 1, incarnation) if sure else multiple()

    def begin(self, scope: TaskScope, attempt: int, incarnation: str | None) -> Any:
        """Open an attempt on both sides and return its accessors with their handles."""
        opened: dict[str, Any] = {}
        instances: list[Instance] = []
        assets = [Asset(name) for name in ASSETS]
        self.both(
            lambda: opened.update(self.store.instances.open(scope, attempt, incarnation=incarnation, outlets=assets)),
            lambda: instances.append(self.model.open(scope, attempt, incarnation)),
        )
        if not instances:
            return multiple()
        held = instances[0], instances[0].fence
        return multiple(
            (Handle(scope, scope, *held), opened["task_store"]),
            *((Handle(asset.name, scope, *held), opened["asset_store"][asset]) for asset in assets),
        )

    # -- keys ---------------------------------------------------------------------------------------------------------

    def options(self, handle: Handle, retention: int | str | None) -> dict[str, Any]:
        """Return the keyword arguments that say how long; assets take none."""
        return {} if isinstance(handle.owner, str) else {"retention": as_timedelta(retention)}

    @rule(at=anyone, key=keys, value=values, retention=retentions)
    def set(self, at: Any, key: str, value: Any, retention: Any) -> None:
        handle, accessor = at
        self.both(
            lambda: accessor.set(key, value, **self.options(handle, retention)),
            lambda: self.model.set_many(handle, {key: value}, retention),
        )

    @rule(at=anyone, mapping=st.dictionaries(keys, values, min_size=1, max_size=3), retention=retentions, bad=st.booleans())
    def set_many(self, at: Any, mapping: dict[str, Any], retention: Any, bad: bool) -> None:
        handle, accessor = at
        options = self.options(handle, retention)
        if bad:
            with pytest.raises(ValueError, match="JSON has no number"):
                accessor.set_many({**mapping, "k2": [float("nan")]}, **options)
            return
        self.both(lambda: accessor.set_many(mapping, **options), lambda: self.model.set_many(handle, mapping, retention))

    @rule(at=anyone, key=keys, value=values, retention=retentions)
    def set_default(self, at: Any, key: str, value: Any, retention: Any) -> None:
        handle, accessor = at
        self.both(
            lambda: accessor.set_default(key, value, **self.options(handle, retention)),
            lambda: self.model.set_default(handle, key, value, retention),
        )

    @rule(at=anyone, key=keys, value=values, retention=retentions, which=st.sampled_from(["current", "none", "old"]))
    def compare_and_set(self, at: Any, key: str, value: Any, retention: Any, which: str) -> None:
        handle, accessor = at
        row = self.model.live(handle).get(key)
        version = {"none": None, "old": "bygone", "current": row.version if row else None}[which]
        self.both(
            lambda: accessor.compare_and_set(key, value, version=version, **self.options(handle, retention)) and None,
            lambda: self.model.compare_and_set(handle, key, value, version, retention),
        )

    @rule(at=anyone, key=keys, by=amounts)
    def increment(self, at: Any, key: str, by: float) -> None:
        handle, accessor = at
        self.both(lambda: accessor.increment(key, by), lambda: self.model.increment(handle, key, by))

    @rule(at=anyone, key=keys)
    def update(self, at: Any, key: str) -> None:
        handle, accessor = at

        def fn(old: Any) -> Any:
            return [old] if len(repr(old)) < 60 else 0

        self.both(lambda: accessor.update(key, fn, "none"), lambda: self.model.update(handle, key, fn, "none"))

    @rule(at=anyone, key=keys, retention=retentions)
    def touch(self, at: Any, key: str, retention: Any) -> None:
        handle, accessor = at
        if not isinstance(handle.owner, str):
            self.both(
                lambda: accessor.touch(key, retention=as_timedelta(retention)),
                lambda: self.model.touch(handle, key, retention),
            )

    @rule(at=anyone, key=keys)
    def delete(self, at: Any, key: str) -> None:
        handle, accessor = at
        self.both(lambda: accessor.delete(key), lambda: self.model.delete(handle, key))

    @rule(at=anyone, everywhere=st.booleans(), sure=seldom)
    def clear(self, at: Any, everywhere: bool, sure: bool) -> None:
        handle, accessor = at
        options = {} if isinstance(handle.owner, str) else {"all_map_indices": everywhere}
        if sure or self.model.stale(handle):
            self.both(lambda: accessor.clear(**options), lambda: self.model.clear(handle, **options))

    @rule(at=anyone, key=keys)
    def read(self, at: Any, key: str) -> None:
        """What is current reads the truth; what is stale reads a stored value or raises."""
        handle, accessor = at
        live = {key: row.value for key, row in sorted(self.model.live(handle).items())}
        reads: dict[str, tuple[Callable[[], Any], Any]] = {
            "get": (lambda: accessor.get(key, "ABSENT"), live.get(key, "ABSENT")),
            "in": (lambda: key in accessor, key in live),
            "get_many": (lambda: accessor.get_many([key, "x"]), {key: live[key]} if key in live else {}),
            "keys": (accessor.keys, list(live)),
            "prefix": (lambda: accessor.keys("k"), [one for one in live if one.startswith("k")]),
            "items": (accessor.items, list(live.items())),
            "len": (lambda: len(accessor), len(live)),
        }
        stale = self.model.stale(handle)
        for name, (call, expected) in reads.items():
            try:
                answer = call()
            except StaleAttemptError:
                assert stale
                continue
            assert same(answer, expected), name
            assert not stale or (key in live and name in ("get", "in"))

    # -- life ---------------------------------------------------------------------------------------------------------

    @rule(
        scope=scopes,
        off=st.sampled_from([0, 0, 0, 0, 1]),
        state=st.sampled_from(["success", "failed", "up_for_retry", "deferred"]),
    )
    def finish(self, scope: TaskScope, off: int, state: str) -> None:
        known = self.model.instances.get(scope)
        attempt = max(1, known.attempt if known else 1) + off
        self.both(
            lambda: self.store.instances.finish(scope, attempt, state), lambda: self.model.finish(scope, attempt, state)
        )

    @rule(scope=scopes, keep=st.booleans())
    def clear_instance(self, scope: TaskScope, keep: bool) -> None:
        self.both(
            lambda: self.store.instances.clear(scope, keep=keep) and None,
            lambda: self.model.clear_instance(scope, keep=keep),
        )

    @rule(scope=scopes, value=values, force=st.booleans(), later=steps)
    def clear_and_restore(self, scope: TaskScope, value: Any, force: bool, later: int) -> None:
        """What random rules seldom do in a row: write, clear, wait, perhaps write, restore."""
        (person,) = [one for one in self.people.items() if one[0].owner == scope]
        self.set(person, "k", value, None)
        self.clear_instance(scope, False)
        self.advance(later)
        if force:
            self.set(person, "K", value, HOUR)
        self.restore(scope, force)

    @rule(scope=scopes, force=st.booleans())
    def restore(self, scope: TaskScope, force: bool) -> None:
        self.both(lambda: self.store.instances.restore(scope, force=force), lambda: self.model.restore(scope, force=force))

    @rule(run=st.sampled_from(["run", "run%"]), sure=seldom)
    def delete_run(self, run: str, sure: bool) -> None:
        if sure:
            self.both(lambda: self.store.instances.delete_run("dag", run), lambda: self.model.delete_run("dag", run))

    @rule(by=steps)
    def advance(self, by: int) -> None:
        self.clock.advance(microseconds=by)
        self.model.now += by

    @rule(batch=st.sampled_from([None, 1, 2]))
    def clean(self, batch: int | None) -> None:
        dry = self.store.clean(dry_run=True)
        wet = self.store.clean(batch_size=batch)
        assert (dry.expired, dry.retired, dry.changes) == (wet.expired, wet.retired, wet.changes)
        assert (wet.expired, wet.retired) == self.model.clean()

    # -- always -------------------------------------------------------------------------------------------------------

    @invariant()
    def everything_is_as_in_the_model(self) -> None:
        """All keys, values, times, expiries and records are the model's; versions are new where something was written."""
        for handle, accessor in self.people.items():
            live = self.model.live(handle)
            assert same(accessor.items(), [(key, live[key].value) for key in sorted(live)])
            assert len(accessor) == len(live)
            for key in KEYS:
                assert same(accessor.get(key, "ABSENT"), live[key].value if key in live else "ABSENT")
            for key, row in live.items():
                self.check_entry(accessor.entry(key), row)
        for scope in SCOPES:
            record, known = self.store.instances.get(scope), self.model.instances.get(scope)
            assert (record is None) == (known is None)
            if record is not None and known is not None:
                assert (record.state, record.attempt) == (known.state, known.attempt)
                assert to_micros(record.updated_at) == known.updated

    def check_entry(self, entry: Any, row: Row) -> None:
        """Compare one entry with its row."""
        assert (to_micros(entry.created_at), to_micros(entry.updated_at)) == (row.created, row.updated)
        expires = None if entry.expires_at is None else to_micros(entry.expires_at)
        assert (expires, entry.never_expires) == (
            row.expires if isinstance(row.expires, int) else None,
            row.expires == "never",
        )
        if row.version is None:
            assert entry.version not in self.versions
            self.versions.add(entry.version)
            row.version = entry.version
        assert entry.version == row.version


def check(machine: type[StoreMachine], examples: int, steps: int) -> None:
    """Try that many sequences of that many calls at most."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            # Without Phase.shrink: it takes longer than a test may, and the steps are printed anyway.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_store_does_what_the_model_does(kind: str, style: str) -> None:
    """Any sequence of calls gives the same answers, errors and state as an independent model, on every embedded store."""
    machine = type("Machine", (StoreMachine,), {"kind": kind, "style": style})
    check(machine, 80 if style == "sync" else 25, 60)


@pytest.mark.parametrize("style", ["sync", "async"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_store_on_a_server_does_what_the_model_does(dialect: str, style: str, databases: Databases) -> None:
    """The same on database servers, with fewer and shorter sequences."""
    machine = type("Machine", (StoreMachine,), {"kind": dialect, "style": style, "database": databases.get(dialect)})
    check(machine, 12 if style == "sync" else 5, 30)


@pytest.mark.parametrize("style", ["sync", "async"])
def test_a_store_behind_a_server_does_what_the_model_does(style: str, served: Served) -> None:
    """The same over HTTP."""
    machine = type("Machine", (StoreMachine,), {"kind": "sqlite", "style": style, "served": served})
    check(machine, 10 if style == "sync" else 5, 30)
