"""What a task behind a server sees is what an embedded one sees: aliases, and assets that are deactivated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
