"""Edits by several people, damaged rows, assets, runs."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Asset, Store, TaskScope
from tests.integration.cli.conftest import ONE, Cli


def damage(store: Store, statement: str, *values: Any) -> None:
    """Change a row behind the store's back, as someone with an editor would."""
    engine = store.metastore.engine  # type: ignore[attr-defined]
    connection = engine.take()
    connection.execute(statement, values)
    engine.give(connection)


def test_the_second_of_two_editors_is_told(cli: Cli, task: Any) -> None:
    """Of two edits of one version the second is exit 5 and changes nothing."""
    task.set("k", 1)
    version = cli("task-store", "get", *ONE, "k", "--json").json["version"]
    cli("task-store", "set", *ONE, "k", "2", "--if-version", version)
    cli("task-store", "set", *ONE, "k", "3", "--if-version", version, code=5)
    cli("task-store", "set", *ONE, "k", "3", "--if-version", "absent", code=5)
    assert task.get("k") == 2
    cli("task-store", "set", *ONE, "fresh", "1", "--if-version", "absent")
    assert task.get("fresh") == 1


def test_the_second_of_two_editors_of_an_asset_is_told(cli: Cli, store: Store) -> None:
    """An asset's key is edited over a version, too."""
    asset = store.asset_store(Asset("orders"))
    asset.set("w", 1)
    version = cli("asset-store", "get", "orders", "w", "--json").json["version"]
    cli("asset-store", "set", "orders", "w", "2", "--if-version", version)
    cli("asset-store", "set", "orders", "w", "3", "--if-version", version, code=5)
    cli("asset-store", "set", "orders", "w", "3", "--if-version", "absent", code=5)
    assert asset.get("w") == 2


def test_a_damaged_row_is_marked_and_mended(cli: Cli, store: Store, task: Any) -> None:
    """A damaged value is marked in lists, named when read (exit 3), and can be overwritten and deleted."""
    task.set_many({"bad": 1, "good": 2})
    for mend in (("set", *ONE, "bad", "3"), ("delete", *ONE, "bad"), ("clear", *ONE)):
        task.set("bad", 1)
        damage(store, "UPDATE entries SET value = '{\"broken' WHERE key = 'bad'")
        listed = cli("task-store", "list", *ONE, "--json").json
        assert (listed[0]["key"], "damaged" in listed[0]) == ("bad", True)
        assert "DAMAGED" in cli("task-store", "list", *ONE).out
        for options in ((), ("--json",), ("--string",)):
            assert "'bad' is damaged" in cli("task-store", "get", *ONE, "bad", *options, code=3).err
        cli("task-store", *mend)
        cli("task-store", "list", *ONE)
    assert task.keys() == []


def test_bytes_in_the_place_of_text_hide_nothing(cli: Cli, store: Store, task: Any) -> None:
    """Bytes that are no text, as a key or a value, are shown escaped and do not hide the other rows."""
    task.set_many({"a": 1, "b": 2, "c": 3})
    damage(store, "UPDATE entries SET key = CAST(x'ff41' AS TEXT) WHERE key = 'a'")
    damage(store, "UPDATE entries SET value = x'ff' WHERE key = 'b'")
    shown = {one["key"]: one.get("value", "damaged") for one in cli("task-store", "list", *ONE, "--json").json}
    assert shown == {"\\xffA": "damaged", "b": "damaged", "c": 3}


def test_assets_are_looked_at_and_edited(cli: Cli, store: Store) -> None:
    """`asset-store` lists, gets, sets, deletes and clears; an unknown asset is exit 4 for each of them."""
    for command in (("list", "x"), ("get", "x", "k"), ("set", "x", "k", "1"), ("delete", "x", "k"), ("clear", "x")):
        cli("asset-store", *command, code=4)
    assert store.stats().assets == 0
    cli("asset-store", "set", "orders", "w", "--string", "2026-01-01", "--create")
    cli("asset-store", "set", "orders", "n", "-3")
    assert cli("asset-store", "list", "orders", "--json").json == [
        {"key": "n", "value": -3},
        {"key": "w", "value": "2026-01-01"},
    ]
    assert cli("asset-store", "get", "orders", "w", "--string").out == "2026-01-01\n"
    assert cli("asset-store", "get", "orders", "w", "--json").json["writer"]["kind"] == "cli"
    cli("asset-store", "delete", "orders", "n")
    cli("asset-store", "get", "orders", "n", code=4)
    cli("asset-store", "clear", "orders")
    assert store.asset_store(Asset("orders")).keys() == []


def test_runs_are_listed_and_shown(cli: Cli, store: Store) -> None:
    """`runs list` has the latest first and takes filters; `runs show` has states, attempts and progress."""
    for run in ("r1", "r2"):
        store.runs.begin("flights", run, holder="me", ttl=60)
        store.runs.end("flights", run, "me", "failed" if run == "r1" else "success")
    store.runs.begin("other", "r3", holder="me", ttl=60)
    opened = store.instances.open(TaskScope("flights", "r1", "load"), 2)["task_store"]
    opened.set("progress", {"done": 1, "total": 4, "message": "page\n1"})
    assert [one["run_id"] for one in cli("runs", "list", "--json").json] == ["r3", "r2", "r1"]
    assert [one["run_id"] for one in cli("runs", "list", "--dag", "flights", "--json").json] == ["r2", "r1"]
    assert [one["run_id"] for one in cli("runs", "list", "--state", "failed", "--json").json] == ["r1"]
    assert [one["run_id"] for one in cli("runs", "list", "--limit", "1", "--json").json] == ["r3"]
    shown = cli("runs", "show", "flights", "r1").out
    assert "[█████···············]  25% page 1" in shown
    assert shown.startswith("flights r1: failed")
    data = cli("runs", "show", "flights", "r1", "--json").json
    assert [(one["scope"]["task_id"], one["state"], one["attempt"]) for one in data["instances"]] == [("load", "running", 2)]
    damage(store, "UPDATE entries SET value = 'x' WHERE key = 'progress'")
    assert "DAMAGED" in cli("runs", "show", "flights", "r1").out


@pytest.mark.parametrize("verb", ["show", "clear", "delete"])
def test_an_unknown_run_is_not_found(cli: Cli, store: Store, verb: str) -> None:
    """Every verb on an unknown run is exit 4."""
    cli("runs", verb, "d", "nope", code=4)


def test_a_run_is_deleted_only_when_confirmed(cli: Cli, store: Store, task: Any) -> None:
    """`runs delete` asks; where nobody can be asked it names --yes and deletes nothing; with it, task state only."""
    task.set("k", 1)
    store.asset_store(Asset("orders")).set("w", 1)
    for given in ("", "y\n"):
        assert "say --yes" in cli("runs", "delete", "d", "r", code=2, given=given).err
    assert task.get("k") == 1
    assert cli("runs", "delete", "d", "r", "--yes").out == "run deleted with 1 task instance\n"
    assert store.instances.list() == []
    assert store.asset_store(Asset("orders")).get("w") == 1
