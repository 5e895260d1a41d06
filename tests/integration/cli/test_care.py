"""Collection, care of the database, and doctor at the command line."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, ManualClock, SchemaOutdatedError, Store, StoreUnreachableError, TaskScope, connect
from milepost.calls import TakeLease
from milepost.metastore.engines import sqlite_schema
from milepost.metastore.migrations import Migration, migrations
from tests.integration.cli.conftest import ONE, PROGRAM, Cli

DAY = timedelta(days=1)


def old(path: Path) -> None:
    """Make a store by hand whose schema is older than any: Milepost's mark, version 0."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {sqlite_schema.APPLICATION_ID}")
    connection.close()


def digest(path: Path) -> str:
    """Return what tells whether a file changed."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def due(cli: Cli) -> Cli:
    """The command line on a store of last year: three expired keys, two old ones, one for good."""
    long_ago = ManualClock(datetime.now(timezone.utc) - 400 * DAY)
    with connect(cli.url, clock=long_ago) as store:
        task = store.task_store(TaskScope(*ONE))
        task.set_many({"a": 1, "b": 2, "c\n": 3}, retention=DAY)
        task.set_many({"d": 4, "e": 5})
        task.set("keep", 6, retention=timedelta.max)
    return cli


def test_a_dry_run_names_what_the_real_run_removes(due: Cli) -> None:
    """`clean --dry-run` prints the counts and the first keys and removes nothing; `clean` then removes just that."""
    dry = due("clean", "--dry-run", "--json").json
    assert (dry["expired"], dry["retired"], dry["changes"], dry["dry_run"]) == (3, 2, 0, True)
    assert dry["first"] == [
        {"what": what, "owner": "d/r/t", "key": key}
        for what, keys in (("expired", ["a", "b", "c\n"]), ("retired", ["d", "e"]))
        for key in keys
    ]
    assert '"c\\n"' in due("clean", "--dry-run").out
    wet = due("clean", "--json", "--batch-size", "2").json
    assert (wet["expired"], wet["retired"], wet["changes"], wet["dry_run"]) == (3, 2, 0, False)
    assert due("state-store", "cleanup-task-store", "--json").json["expired"] == 0
    assert [one["key"] for one in due("task-store", "list", *ONE, "--json").json] == ["keep"]


def test_one_collector_at_a_time(due: Cli) -> None:
    """5: while another collector is at work `clean` removes nothing and says who that is; a dry run is free."""
    with connect(due.url) as store:
        store.metastore.call(TakeLease("collection", "somebody", 60))
    assert "somebody" in due("clean", code=5).err
    code, out, _ = due.raw("clean", "--json")
    assert (code, json.loads(out)["held_by"], json.loads(out)["expired"]) == (5, "somebody", 0)
    assert due("clean", "--dry-run", "--json").json["expired"] == 3


def test_what_a_dry_run_names_is_bounded(cli: Cli) -> None:
    """A dry run names 20 keys of a kind at most, and says that there are more."""
    with connect(cli.url, clock=ManualClock(datetime.now(timezone.utc) - 400 * DAY)) as store:
        store.task_store(TaskScope(*ONE)).set_many({f"k{number:03}": number for number in range(100)}, retention=DAY)
    dry = cli("clean", "--dry-run", "--json").json
    assert (dry["expired"], len(dry["first"])) == (100, 20)
    assert "the first 20" in cli("clean", "--dry-run").out


def test_a_terminal_gets_a_progress_bar(due: Cli) -> None:
    """With a terminal as standard error `clean` draws there, and standard output stays as it is; elsewhere it is silent."""
    pty = pytest.importorskip("pty")
    outer, inner = pty.openpty()
    environment = {**due.environment, "TERM": "xterm", "PYTHONWARNINGS": ""}
    done = subprocess.run(
        [*PROGRAM, "clean", "--json", "--batch-size", "1"], stdout=subprocess.PIPE, stderr=inner, env=environment, timeout=60
    )
    os.close(inner)
    drawn = os.read(outer, 100_000)
    os.close(outer)
    assert (done.returncode, done.stdout[:1]) == (0, b"{")
    assert "━".encode() in drawn


def test_db_stats_counts(cli: Cli, store: Store, task: Any) -> None:
    """`db stats` prints version, size and rows of each table."""
    task.set_many({"a": 1, "b": 2})
    task.set("gone", 1, retention=timedelta(microseconds=1))
    store.asset_store(Asset("orders")).set("w", 1)
    found = cli("db", "stats", "--json").json
    assert {name: found[name] for name in ("schema", "runs", "instances", "entries", "expired", "assets")} == {
        "schema": len(migrations("sqlite")),
        "runs": 1,
        "instances": 1,
        "entries": 4,
        "expired": 1,
        "assets": 1,
    }
    assert found["bytes"] > 4096
    assert datetime.fromisoformat(found["newest"]).tzinfo is not None
    assert "4, of which 1 expired" in cli("db", "stats").out


def test_verify_changes_nothing(cli: Cli, store: Store, task: Any) -> None:
    """`db verify`, `db stats` and `doctor` leave every byte of a store as it was."""
    task.set("k", 1)
    store.close()
    before = digest(cli.file)
    assert cli("db", "verify").out.endswith("is in order\n")
    cli("db", "stats")
    cli("doctor")
    assert digest(cli.file) == before
    assert [path.name for path in cli.home.iterdir()] == ["milepost.db"]


def test_verify_creates_nothing(cli: Cli) -> None:
    """`db verify`, `stats` and `upgrade` of a store that is not there are exit 6 and make none; doctor is content."""
    for command in ("verify", "upgrade"):
        assert "there is no store" in cli("db", command, code=6).err
    cli("db", "stats", code=6)
    assert "not there yet" in cli("doctor").out
    assert list(cli.home.iterdir()) == []


def test_an_older_schema_is_left_to_upgrade(cli: Cli) -> None:
    """`db verify` refuses an older schema, naming `db upgrade`, and does not touch it; that says from where to where."""
    old(cli.file)
    before = digest(cli.file)
    assert "milepost db upgrade" in cli("db", "verify", code=6).err
    cli("db", "stats", code=6)
    assert "milepost db upgrade" in cli.raw("doctor")[1].decode()
    assert digest(cli.file) == before
    newest = len(migrations("sqlite"))
    assert cli("db", "upgrade").out.endswith(f"is upgraded from schema 0 to {newest}\n")
    assert cli("db", "upgrade").out.endswith(f"is up to date, with schema {newest}\n")
    cli("db", "verify")


def test_an_upgrade_keeps_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``upgrade`` an older store is refused untouched; with it, it is migrated and says which version it found."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with connect(url) as store:
        store.task_store(TaskScope(*ONE)).set("k", 1)
    newest = len(migrations("sqlite"))
    later = [*migrations("sqlite"), Migration(newest + 1, "later", "CREATE TABLE later (x INTEGER);")]
    monkeypatch.setattr(sqlite_schema, "migrations", lambda _: later)
    with pytest.raises(SchemaOutdatedError, match=f"schema {newest} and needs {newest + 1}"):
        connect(url, upgrade=False)
    with connect(url) as store:
        assert (store.metastore.found_schema, store.stats().schema) == (newest, newest + 1)
        assert store.task_store(TaskScope(*ONE)).get("k") == 1
    with connect(url, upgrade=False) as store:
        assert store.metastore.found_schema == newest + 1


def test_without_upgrade_nothing_is_created(tmp_path: Path) -> None:
    """``connect(upgrade=False)`` of a file that is not there raises and makes neither the file nor its folder."""
    with pytest.raises(StoreUnreachableError, match="no store"):
        connect(f"sqlite:///{tmp_path / 'folder' / 'store.db'}", upgrade=False)
    assert list(tmp_path.iterdir()) == []
    connect("memory://", upgrade=False).close()


def checks(cli: Cli, *args: str, code: int = 0, env: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Return what doctor says: status and text by the name of the check."""
    got, out, err = cli.raw("doctor", "--json", *args, env=env)
    assert (got, err) == (code, b"")
    found = json.loads(out)
    assert found["ok"] is (code == 0)
    for check in found["checks"]:
        assert check["status"] == "ok" or check["fix"]
    return {check["name"]: (check["status"], check["text"]) for check in found["checks"]}


def test_a_healthy_store(cli: Cli, task: Any) -> None:
    """Doctor looks at versions, settings, disk, modes, WAL, a trial of syncs, schema and clock, and all are well."""
    task.set("k", 1)
    found = checks(cli)
    names = {
        "milepost", "python", "sqlite", "configuration", "store", "file system", "folder", "file", "wal", "free space",
        "write and sync", "schema", "clock",
    }  # fmt: skip
    assert set(found) == names
    well = {name for name, (status, _) in found.items() if status == "ok"}
    assert well >= names - {"file system", "free space", "write and sync"}  # these are the machine's
    assert "ms per fsync" in found["write and sync"][1]
    lines = cli("doctor").out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [status for status, _ in found.values()]


def test_doctor_warns_of_open_modes(cli: Cli, task: Any) -> None:
    """A store that others can read, in a folder that others can write, is a warning; the exit code stays 0."""
    cli.file.chmod(0o644)
    cli.home.chmod(0o777)
    found = checks(cli)
    assert (found["file"][0], found["folder"][0]) == ("warn", "warn")
    assert "chmod 600" in cli("doctor").out


def test_doctor_warns_of_a_clock_that_is_behind(cli: Cli) -> None:
    """A system clock behind the newest row in the store is a warning."""
    with connect(cli.url, clock=ManualClock(datetime.now(timezone.utc) + DAY)) as store:
        store.task_store(TaskScope(*ONE)).set("k", 1)
    assert checks(cli)["clock"][0] == "warn"


def test_doctor_warns_of_a_big_wal(cli: Cli, store: Store, task: Any) -> None:
    """A log of more than 64 MiB that is not yet in the main file is a warning with its size."""
    log = cli.file.with_name("milepost.db-wal")
    os.truncate(log, 65 * 2**20)
    status, text = checks(cli)["wal"]
    assert (status, "65.0 MiB" in text) == ("warn", True)


def test_doctor_fails_where_wal_is_not_in_force(cli: Cli, store: Store) -> None:
    """A file that is not in WAL mode is a failure."""
    store.close()
    connection = sqlite3.connect(cli.file)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    assert checks(cli, code=6)["wal"][0] == "fail"


def test_doctor_leaves_no_trace(cli: Cli, store: Store) -> None:
    """The trial of writing and syncing removes its file."""
    store.close()
    checks(cli)
    assert [path.name for path in cli.home.iterdir()] == ["milepost.db"]


def test_doctor_names_the_file_of_settings(cli: Cli) -> None:
    """Doctor says which configuration file is in force and what is set."""
    (cli.home / "milepost.cfg").write_text("[state_store]\narchive_days = 3\n")
    text = checks(cli)["configuration"][1]
    assert "milepost.cfg" in text
    assert "archive_days" in text


def test_doctor_says_that_memory_is_gone(cli: Cli) -> None:
    """For memory:// doctor warns that nothing is kept."""
    assert checks(cli, "--url", "memory://")["durability"][0] == "warn"
