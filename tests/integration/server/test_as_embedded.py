"""What a task behind a server sees is what an embedded one sees: aliases, and assets that are deactivated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from milepost import Asset, AssetAlias, AssetScope, ForbiddenError, Store, TaskScope, calls
from milepost.remote.wire import dump_call
from tests.integration.server.conftest import Ask, Worker

OWN = TaskScope("dag", "run", "task", 0)
A = Asset("a", uri="s3://a")
MakeWorker = Callable[..., Worker]


def test_a_token_opens_what_its_aliases_stand_for(behind: Store, worker: MakeWorker) -> None:
    """An alias among the inlets opens its concrete assets, those that it stands for when the attempt opens and no others."""
    behind.asset_store(A).set("k", 1)
    behind.asset_store(Asset("later")).set("k", 2)
    behind.assets.attach(AssetAlias("daily"), A)
    mine = worker(OWN, aliases=["daily", "of nothing"])
    opened = mine.open()["asset_store"]
    assert [(asset.name, asset.uri) for asset in opened] == [("a", "s3://a")]
    assert opened.get("k") == 1
    opened[A].advance("k", 5)
    assert behind.asset_store(A).get("k") == 5
    behind.assets.attach(AssetAlias("daily"), Asset("later"))
    with pytest.raises(KeyError, match="is not an inlet or outlet of this task"):
        opened[Asset("later")]
    assert sorted(asset.name for asset in mine.open()["asset_store"]) == ["a", "later"]


def test_an_asset_that_is_none_of_the_tasks_is_a_key_error(behind: Store, worker: MakeWorker) -> None:
    """A subscript with an asset that the task did not declare is the KeyError that names its assets, behind a server too."""
    behind.asset_store(Asset("other"))
    opened = worker(OWN, inlets=[AssetScope(uri="s3://a")], outlets=[AssetScope(name="s3://a", uri="s3://a")]).open()
    for unknown in (Asset("other"), Asset("unknown")):
        with pytest.raises(KeyError, match="is not an inlet or outlet of this task"):
            opened["asset_store"][unknown]
    behind.asset_store(A).set("k", 1)  # the one known by its URI gets its name
    assert opened["asset_store"][Asset.ref(name="a")].get("k") == 1


def test_s27_declared_aliases_only(behind: Store, worker: MakeWorker, ask: Ask) -> None:
    """S-27: a token opens the aliases that the task declared, no others, and cannot say what an alias stands for."""
    behind.asset_store(Asset("secret")).set("k", "theirs")
    behind.assets.attach(AssetAlias("everything"), Asset("secret"))
    mine = worker(OWN, aliases=["daily"])
    mine.open()
    for aliases in (["everything"], ["daily", "everything"]):
        opening = calls.Open(OWN, 1, inlet_aliases=aliases)
        assert ask("/execution/v1/call", dump_call(opening), credential=mine.token).status == 403
    attach = calls.AttachAsset("daily", AssetScope(name="secret"), True, "python")
    assert ask("/execution/v1/call", dump_call(attach), credential=mine.token).status == 403
    with pytest.raises(ForbiddenError):
        mine.store.assets.attach(AssetAlias("daily"), Asset("secret"))
    assert list(mine.open()["asset_store"]) == []


READS: list[Callable[[Any], Any]] = [
    lambda asset: asset.get("k"),
    lambda asset: asset.entry("k"),
    lambda asset: asset.keys(),
    lambda asset: asset.items(),
    lambda asset: asset.get_many(["k"]),
    len,
    lambda asset: asset.history("k"),
    lambda asset: asyncio.run(asset.aget("k")),
]


def test_a_read_of_a_deactivated_asset_warns_once(
    behind: Store, launcher: Store, worker: MakeWorker, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever reads nothing because the asset is deactivated has that in its own log, once for each accessor."""
    behind.asset_store(A).set("k", 1)
    mine = worker(OWN, inlets=[AssetScope(name="a", uri="s3://a")]).open()["asset_store"][A]
    readers = [(mine, read) for read in READS[:1]] + [(launcher.asset_store(A), read) for read in READS]
    mine.get("absent")
    assert not caplog.records
    behind.assets.deactivate(A)
    for accessor, read in readers:
        caplog.clear()
        read(accessor)
        read(accessor)
        (warning,) = [record.getMessage() for record in caplog.records if record.name == "milepost"]
        assert warning.startswith("the asset a (s3://a) is deactivated, so reads find nothing; its state comes back with: ")


def test_a_batch_notes_what_is_deactivated(behind: Store, ask: Ask) -> None:
    """Of several calls in one request, those that met a deactivated asset say so."""
    behind.asset_store(A).set("k", 1)
    number = behind.assets.deactivate(A).id
    handle = calls.Handle(AssetScope(number, "a", "s3://a"), "python", owner_id=number)
    answer = ask("/execution/v1/call", [dump_call(calls.Get(handle, "k")), dump_call(calls.Now())])
    assert answer.body[0] == {"answer": None, "note": "deactivated"}
    assert list(answer.body[1]) == ["answer"]


DAMAGE = {
    "entries": ("updated_at = 9e18", "updated_at = 'x'"),
    "changes": ("event = x'ff'", "at = 9e18", "at = -1", "version = x'00'", "old_writer = 'x'", "cause = x'ff'"),
    "runs": ("created_at = -1", "held_until = -1", "state = x'ff'"),
    "instances": ("opened_at = -1", "updated_at = 9e18", "map_index = 1.5"),
    "assets": ("name = x'ff'", "uri = x'ff'", "created_at = -1"),
    "asset_aliases": ("alias = x'ff'",),
    "outcomes": ("state = x'ff'", "error = x'ff'", "attempt = x'ff'", "at = x'ff'"),
    "tokens": ("created_at = -1", "role = 'king'"),
}


def test_damage_looks_the_same(behind: Store, launcher: Store) -> None:
    """Whatever somebody does to a row: over HTTP it is shown, or refused, as beside the server, and never a fault of it."""
    own = behind.task_store(OWN)
    asset = behind.assets.attach(AssetAlias("daily"), A)
    behind.asset_store(A).set("k", 1)
    behind.asset_store(A).set("k", 2)
    behind.instances.open(OWN, 1)["task_store"].set("k", 1)
    behind.instances.finish(OWN, 1, "failed", error="why")
    behind.instances.clear(OWN)
    own.set("k", 2)
    behind.tokens.create("somebody", role="viewer")
    looks: list[Callable[[Store], Any]] = [
        lambda store: store.task_store(OWN).items(),
        lambda store: store.instances.list(),
        lambda store: store.instances.archives(OWN),
        lambda store: store.runs.list(),
        lambda store: store.runs.outcomes("dag", "run"),
        lambda store: store.assets.list(),
        lambda store: store.asset_store(AssetScope(asset.id)).history("k"),
        lambda store: store.tokens.list(),
        lambda store: store.stats().newest,
    ]
    engine: Any = behind.metastore.engine  # type: ignore[attr-defined]
    connection = engine.take()
    try:
        for table, changes in DAMAGE.items():
            for change in changes:
                connection.execute(f"UPDATE {table} SET {change}")
                assert [repr(look(launcher)) for look in looks] == [repr(look(behind)) for look in looks], (table, change)
    finally:
        engine.give(connection)


def test_a_run_of_a_day_before_1970(behind: Store, launcher: Store) -> None:
    """The logical date of a run may be any day, over HTTP too."""
    day = datetime(1965, 3, 4, tzinfo=timezone.utc)
    launcher.runs.begin("dag", "old", holder="me", ttl=30, logical_date=day)
    for store in (launcher, behind):
        record = store.runs.get("dag", "old")
        assert record is not None
        assert (record.logical_date, record.damaged) == (day, None)
