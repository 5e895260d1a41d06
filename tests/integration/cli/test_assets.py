"""`milepost assets`, and history, rollback, copy and restore of `milepost asset-store`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from milepost import Asset, ManualClock, Store, TaskScope, Writer, connect
from tests.integration.cli.conftest import Cli

A, B = Asset("a", uri="s3://a"), Asset("b", uri="s3://b")
TASK = TaskScope("dag", "run", "load")


@pytest.fixture
def asset(store: Store) -> Any:
    """An asset that a DAG writes, with a watermark that a task has moved."""
    store.assets.declare("dag", inlets=[B], outlets=[A])
    task = store.instances.open(TASK, 2, outlets=[A])["asset_store"]
    task.set("watermark", "2024-06-01")
    task.set("watermark", "2024-06-02")
    return store.asset_store(A)


def test_list_and_show(cli: Cli, store: Store, asset: Any) -> None:
    """Assets are listed with those who refer to them; one is shown with its keys and who moved them."""
    listed = cli("assets", "list", "--json").json
    assert [(one["name"], one["active"], one["references"]) for one in listed] == [
        ("a", True, [{"dag_id": "dag", "direction": "outlet"}]),
        ("b", True, [{"dag_id": "dag", "direction": "inlet"}]),
    ]
    assert cli("assets", "list", "--dag", "other", "--json").json == []
    assert [one["name"] for one in cli("assets", "list", "--active", "--json").json] == ["a", "b"]
    assert cli("assets", "list", "--deactivated", "--json").json == []
    text = cli("assets", "list").out
    assert "s3://a" in text
    assert "dag (outlet)" in text
    shown = cli("assets", "show", "s3://a", "--json").json
    assert shown["asset"]["name"] == "a"
    assert [(one["key"], one["value"], one["writer"]["task_id"]) for one in shown["entries"]] == [
        ("watermark", "2024-06-02", "load")
    ]
    assert "task dag/run/load attempt 2" in cli("assets", "show", "a").out
    for command in ("show", "activate", "deactivate"):
        assert "nobody" in cli("assets", command, "nobody", code=4).err
    assert [one.name for one in store.assets.list()] == ["a", "b"]


def test_activate_and_deactivate(cli: Cli, store: Store, asset: Any) -> None:
    """A deactivated asset takes no write (exit 5) and shows no keys until it is activated again."""
    assert "a is deactivated (command)" in cli("assets", "deactivate", "a").out
    assert store.assets.get(A).deactivated_by == Writer("cli")
    assert cli("assets", "deactivate", "a", "--json").json["active"] is False
    cli("asset-store", "set", "a", "watermark", "1", code=5)
    until = store.assets.get(A).kept_until(24).astimezone().isoformat(sep=" ", timespec="seconds")
    for command in (("list", "a"), ("get", "a", "watermark"), ("history", "a", "watermark"), ("restore", "a", "--list")):
        err = cli("asset-store", *command, code=4).err
        assert (
            f"the asset a (s3://a) is deactivated, so reads find nothing, and its state may be removed from {until}" in err
        )
        assert "milepost assets activate a --uri s3://a" in err
    shown = cli("assets", "show", "a").out
    assert f"holds 1 key (watermark), kept until {until} (orphan_grace_hours); then a collection removes it" in shown
    assert "to have it back: milepost assets activate a --uri s3://a" in shown
    assert cli("assets", "show", "a", "--json").json["keys"] == 1
    store.assets.deactivate(B)
    assert "holds 0 keys, kept for as long as a DAG reads it" in cli("assets", "show", "b").out
    store.assets.activate(B)
    assert [one["name"] for one in cli("assets", "list", "--deactivated", "--json").json] == ["a"]
    assert cli("assets", "activate", "a").out == "a is active\n"
    assert cli("asset-store", "get", "a", "watermark").out == '"2024-06-02"\n'


def test_history_and_rollback(cli: Cli, asset: Any) -> None:
    """History shows versions with their writers; a rollback to one is exit 0, to a version that is not there exit 4."""
    (past,) = cli("asset-store", "history", "a", "watermark", "--json").json
    assert (past["value"], past["cause"], past["writer"]["attempt"]) == ("2024-06-01", "set", 2)
    assert "2024-06-01" in cli("asset-store", "history", "a", "watermark", "--limit", "1").out
    done = cli("asset-store", "rollback", "a", "watermark", "--version", past["version"])
    assert done.out == '"2024-06-01"\n'
    assert asset.entry("watermark").writer == Writer("cli")
    newest = cli("asset-store", "history", "a", "watermark", "--json").json[0]
    assert (newest["value"], newest["cause"], newest["replaced_by"]["kind"]) == ("2024-06-02", "rollback", "cli")
    cli("asset-store", "rollback", "a", "watermark", "--version", "nothing", code=4)
    assert "no key 'other' and no earlier values" in cli("asset-store", "history", "a", "other", code=4).err
    cli("asset-store", "set", "a", "fresh", "1")
    assert cli("asset-store", "history", "a", "fresh", "--json").json == []
    assert cli("asset-store", "history", "a", "fresh").out == "no earlier values of fresh\n"
    cli("asset-store", "history", "a", "watermark", "--limit", "0", code=2)


def test_rollback_by_the_beginning_of_a_version(cli: Cli, asset: Any) -> None:
    """A version may be cut short as long as it is the only one that begins so; otherwise nothing is written."""
    (past,) = asset.history("watermark")
    now = asset.entry("watermark").version
    same = next(n for n in range(len(now) + 1) if past.version[: n + 1] != now[: n + 1])
    if same:
        assert "versions of 'watermark' start with" in (
            cli("asset-store", "rollback", "a", "watermark", "--version", now[:same], code=3).err
        )
    cli("asset-store", "rollback", "a", "watermark", "--version", "", code=4)
    assert asset.entry("watermark").version == now
    done = cli("asset-store", "rollback", "a", "watermark", "--version", past.version[: same + 1])
    assert done.out == '"2024-06-01"\n'


def test_forget(cli: Cli, store: Store, asset: Any) -> None:
    """A DAG that is gone loses its references; what no other one refers to is deactivated, and named."""
    store.assets.declare("other", inlets=[B])
    said = cli("assets", "forget", "dag").out.splitlines()
    assert said[0] == "dag refers to no asset any more"
    assert said[1].startswith("a is deactivated (unreferenced); its state is kept until ")
    assert len(said) == 2
    assert store.assets.list(dag_id="dag") == []
    assert store.assets.get(B).active
    assert "refers to no asset" in cli("assets", "forget", "dag", code=4).err
    assert [one["name"] for one in cli("assets", "forget", "other", "--json").json["deactivated"]] == ["b"]


def test_a_dry_run_names_what_orphans_hold_and_until_when(cli: Cli, store: Store) -> None:
    """A dry run shows deactivated assets, due or not yet, with their keys and the end of their grace."""
    with connect(cli.url, clock=ManualClock(datetime(2024, 1, 1, tzinfo=timezone.utc))) as early:
        early.asset_store(A).set_many({f"k{n:02}": n for n in range(21)})
        early.assets.deactivate(A)
    store.asset_store(B).set("watermark", 1)
    store.assets.deactivate(B)
    read = Asset("read")
    store.assets.declare("dag", inlets=[read])
    store.assets.deactivate(read)
    until = store.assets.get(B).kept_until(24)
    dry = cli("clean", "--dry-run", "--json").json
    assert dry["deactivated"] == [
        {
            "asset": "a (s3://a)",
            "kept_until": "2024-01-02T00:00:00+00:00",
            "keys": 21,
            "first": [f"k{n:02}" for n in range(20)],
        },
        {"asset": "b (s3://b)", "kept_until": until.isoformat(), "keys": 1, "first": ["watermark"]},
    ]
    lines = [line.split() for line in cli("clean", "--dry-run").out.splitlines()]
    assert ["a", "(s3://a)", "due", "now", "21", "k00,"] in [line[:6] for line in lines]
    shown = until.astimezone().isoformat(sep=" ", timespec="seconds").split()
    assert ["b", "(s3://b)", *shown, "1", "watermark"] in lines


def test_copy(cli: Cli, store: Store, asset: Any) -> None:
    """Copy takes all keys to a known asset, or with --create to a new one; over live keys only with --force."""
    assert cli("asset-store", "copy", "a", "b", "--json").json == {"copied": 1}
    assert store.asset_store(B).get("watermark") == "2024-06-02"
    assert "(--force) writes over them" in cli("asset-store", "copy", "a", "b", code=5).err
    assert cli("asset-store", "copy", "a", "b", "--force").out == "1 key copied\n"
    assert "--create" in cli("asset-store", "copy", "a", "new", code=4).err
    assert cli("asset-store", "copy", "a", "new", "--to-uri", "s3://new", "--create").out == "1 key copied\n"
    assert store.asset_store(Asset("new", uri="s3://new")).items() == [("watermark", "2024-06-02")]
    cli("asset-store", "copy", "a", "a", code=3)


def test_restore(cli: Cli, asset: Any) -> None:
    """What was deleted or cleared at the command line can be listed and restored."""
    cli("asset-store", "clear", "a")
    (archive,) = cli("asset-store", "restore", "a", "--list", "--json").json
    assert (archive["cause"], archive["keys"], archive["scope"]["name"]) == ("clear", ["watermark"], "a")
    assert "watermark" in cli("asset-store", "restore", "a", "--list").out
    assert cli("asset-store", "restore", "a").out == "1 key restored\n"
    cli("asset-store", "restore", "a", code=5)
    assert cli("asset-store", "restore", "a", "--archive", str(archive["id"]), "--force", "--json").json == {"restored": 1}
    cli("asset-store", "restore", "a", "--archive", "999", code=4)
    assert asset.get("watermark") == "2024-06-02"


def test_clean_names_orphans(cli: Cli) -> None:
    """A collection names the assets that it removes, as its dry run does."""
    with connect(cli.url, clock=ManualClock(datetime(2024, 1, 1, tzinfo=timezone.utc))) as store:
        store.asset_store(A).set("k", 1)
        store.assets.deactivate(A)
    dry = cli("clean", "--dry-run", "--json").json
    assert (dry["orphans"], dry["swept"]) == (1, ["a (s3://a)"])
    assert "a (s3://a)" in cli("clean", "--dry-run").out
    assert "a (s3://a)" in cli("clean").out
    cli("assets", "show", "a", code=4)
    assert cli("clean", "--json").json["swept"] == []
