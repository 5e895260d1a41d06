"""What tasks of Airflow 3.3 hear of keys that only Milepost's store has. Airflow is not needed."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from milepost import Asset, JobConflictError, Store, StoreUnreachableError, TaskScope, connect
from milepost.airflow import beside, compat, configuration, process
from milepost.airflow.attempt import Attempt
from milepost.airflow.settings import AirflowSettings

SCOPE = TaskScope("d", "r", "t")
KEY = "job_id"
RUN = SimpleNamespace(run_after=datetime(2026, 1, 1, tzinfo=timezone.utc), clear_number=0, start_date=None)


class Mixin:
    """Stands for Airflow's mixin."""

    external_id_key = KEY
    durable = True


class Operator(Mixin):
    """A durable operator."""


class Plain:
    """A task that is none."""


@dataclass
class Native:
    """Stands for an accessor of Airflow's own."""

    rows: dict[str, Any] = field(default_factory=dict)
    _name: str | None = None
    _uri: str | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """Return what is there."""
        return self.rows.get(key, default)

    async def aget(self, key: str, default: Any = None) -> Any:
        """As `get`."""
        return self.get(key, default)


class World:
    """A process that runs tasks, with a store in memory in the place of the configured one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reachable = True
        self.settings = AirflowSettings({}, None, None, 5, False, 0, take_over=False, durable_operators=True)
        self.asset = Native()

    def open(self, *_: Any, **__: Any) -> Store:
        """Return the store."""
        if not self.reachable:
            raise StoreUnreachableError("nobody answers")
        return self.store

    def earlier(self, max_tries: int = 1) -> Any:
        """Open the attempt that an older Airflow ran, and return its task store."""
        incarnation = f"{RUN.run_after.isoformat()}/-"
        opened = self.store.instances.open(SCOPE, 1, incarnation=incarnation, max_tries=max_tries, run_clears=0)
        return opened["task_store"]

    def native(self, task: Any, *, max_tries: int = 1, **rows: Any) -> Native:
        """Return the task's own store of Airflow, in its second attempt."""
        instance = SimpleNamespace(
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            try_number=2,
            max_tries=max_tries,
            _ti_context_from_server="sent",
        )
        self.asset = Native(_name="orders", _uri="orders")
        names = {"task_state_store": Native(rows), "asset_state_store": SimpleNamespace(_by_name={"orders": self.asset})}
        context = {"dag_run": RUN, "task": task, **names}
        beside.stand_beside(Attempt(instance, context), instance, context, list(names))
        return names["task_state_store"]  # type: ignore[return-value]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world without Airflow."""
    sdk = ModuleType("airflow.sdk")
    sdk.ResumableJobMixin = Mixin  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setattr(configuration, "plainly_configured", lambda *_: None)
    with connect("memory://") as store:
        made = World(store)
        monkeypatch.setattr(process, "settings", lambda: made.settings)
        monkeypatch.setattr(process, "store", made.open)
        yield made


def cut_off(token: str) -> str:
    """Submit a job whose answer is lost."""
    raise TimeoutError


@pytest.mark.parametrize("calls", [1, 2])
def test_an_operator_does_not_submit_what_milepost_holds(world: World, calls: int) -> None:
    """Every look for the id raises, and names the key, the instance and both ways out."""
    world.earlier().submit_once(KEY, lambda _: "j-1")
    native = world.native(Operator())
    for _ in range(calls):
        with pytest.raises(JobConflictError) as raised:
            native.get(KEY)
    assert str(raised.value) == (
        "Airflow's own store has no 'job_id' of d/r/t, but Milepost's has: `milepost airflow export`, run where the "
        "scheduler runs, moves it; or set [milepost] take_over = True. Nothing was submitted; where another job is wanted, "
        "clear the task"
    )


async def test_an_asynchronous_look_raises_too(world: World) -> None:
    """As `get`, so `aget`."""
    world.earlier().set(KEY, "j-1")
    with pytest.raises(JobConflictError, match="milepost airflow export"):
        await world.native(Operator()).aget(KEY)


def test_an_operator_does_not_submit_over_a_submission_without_an_id(world: World) -> None:
    """Where an attempt was cut off while submitting, the error names the token to look for."""
    with pytest.raises(TimeoutError):
        world.earlier().submit_once(KEY, cut_off)
    with pytest.raises(JobConflictError, match=r"a submission that was cut off, token mp-\w+: .*task-store set.* delete"):
        world.native(Operator()).get(KEY)


@pytest.mark.parametrize("on_clear", ["discard", "keep"])
def test_a_clear_wants_another_job(world: World, on_clear: str, caplog: pytest.LogCaptureFixture) -> None:
    """A person cleared the task, as more tries tell: only that is said, unless clears keep what there is."""
    store = world.earlier(max_tries=1)
    store.set(KEY, "j-1")
    operator = Operator()
    operator.__dict__["python_callable"] = SimpleNamespace(
        __milepost_options__=SimpleNamespace(clear_on_success=False, on_clear=on_clear)
    )
    native = world.native(operator, max_tries=3)
    if on_clear == "keep":
        with pytest.raises(JobConflictError):
            native.get(KEY)
        return
    assert native.get(KEY, "none") == "none"
    assert [getattr(one, "action", None) for one in caplog.records if one.levelno >= logging.WARNING] == ["set_aside"]
    assert [one.cause for one in world.store.instances.archives(SCOPE)] == ["clear"]


def test_what_airflow_has_is_not_asked_of_milepost(world: World) -> None:
    """An id in Airflow's own store is taken, whatever Milepost's has."""
    world.earlier().set(KEY, "j-1")
    world.reachable = False
    assert world.native(Operator(), **{KEY: "j-2"}).get(KEY) == "j-2"


def test_an_operator_that_knows_of_no_job_leaves_no_record(world: World) -> None:
    """A task that does not use Milepost is not recorded there."""
    assert world.native(Operator()).get(KEY) is None
    assert list(world.store.instances.list()) == []


def test_a_store_that_cannot_be_reached_fails_no_operator(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Whether there is a job cannot be told: the log says so, and the task goes on as if Milepost were not there."""
    world.earlier().set(KEY, "j-1")
    world.reachable = False
    assert world.native(Operator()).get(KEY, 0) == 0
    assert [one.message for one in caplog.records] == [
        "it cannot be told whether Milepost's store has the key 'job_id', which Airflow's own has not: nobody answers"
    ]


def test_other_looks_are_told_in_the_log_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Only the look for the id of a durable operator's job raises, and only where `durable_operators` is on."""
    store = world.earlier()
    store.set_many({KEY: "j-1", "page": 7})
    world.store.asset_store(Asset("orders")).set(KEY, 1)
    forgets = Operator()
    forgets.durable = False
    operator = world.native(Operator())
    native = [operator, world.native(Plain()), world.native(forgets)]
    assert [one.get("page", 0) for one in native] == [0, 0, 0]
    assert [one.get(KEY, 0) for one in native[1:]] == [0, 0]
    assert world.asset.get(KEY, 0) == 0
    with pytest.raises(JobConflictError):
        operator.get(KEY)
    world.settings = world.settings._replace(durable_operators=False)
    assert operator.get(KEY, 0) == 0
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert [one.action for one in told] == ["airflow_native_empty"] * 5  # type: ignore[attr-defined]
    assert all(one.message.endswith("Until then this task begins anew") for one in told)


def test_a_test_run_is_told_nothing(world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`dag.test()` without `keep_test_state` has no state to look for."""
    world.earlier().set(KEY, "j-1")
    monkeypatch.setattr(compat, "in_process", lambda: True)
    assert world.native(Operator()).get(KEY, 0) == 0
    assert caplog.records == []
