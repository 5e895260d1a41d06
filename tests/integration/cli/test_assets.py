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
    cli("asset-store", "get", "a", "watermark", code=4)
    assert "deactivated" in cli("assets", "show", "a").out
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
    assert cli("asset-store", "history", "a", "other", "--json").json == []
    cli("asset-store", "history", "a", "watermark", "--limit", "0", code=2)


def test_copy(cli: Cli, store: Store, asset: Any) -> None:
    """Copy takes all keys to a known asset, or with --create to a new one; over live keys only with --force."""
    assert cli("asset-store", "copy", "a", "b", "--json").json == {"copied": 1}
    assert store.asset_store(B).get("watermark") == "2024-06-02"
    assert "force" in cli("asset-store", "copy", "a", "b", code=5).err
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
