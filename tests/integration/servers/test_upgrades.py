"""Stores that earlier releases wrote, with everything in them that they could hold, come through upgrades whole."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, ManualClock, SchemaOutdatedError, StaleAttemptError, connect
from milepost.cli import main
from milepost.metastore.engines import sqlite_schema
from milepost.metastore.migrations import migrations
from tests.fault.server_helpers import DIALECTS
from tests.fixtures.record import DATA, SCHEMAS
from tests.support.servers import Databases, dialect_sql, engine_of
from tests.support.transfers import KEYS, TASK, VALUES, content, exported

Load = Callable[..., str]


def rows_of(dialect: str, schema: int) -> list[str]:
    """Return the recorded rows as statements."""
    text = (DATA / f"{dialect}-{schema:04}.sql").read_text(encoding="utf-8")
    return [statement for statement in text.split(";\n") if statement]


@pytest.fixture
def load(databases: Databases, tmp_path: Path) -> Load:
    """Return a function that makes a database as an earlier release left it, and returns its URL."""

    def on_sqlite(schema: int, more: Sequence[str]) -> str:
        path = tmp_path / "store.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        sqlite_schema.upgrade(connection, str(path), schema)
        for statement in [*rows_of("sqlite", schema), *more]:
            connection.execute(statement)
        connection.close()
        return f"sqlite:///{path}"

    def build(dialect: str, schema: int, more: Sequence[str] = ()) -> str:
        if dialect == "sqlite":
            return on_sqlite(schema, more)
        database = databases.fresh(dialect)
        engine = engine_of(database)
        connection = engine.open()
        engine.migrate(connection, migrations(dialect)[:schema])
        connection.close()
        for statement in [*rows_of(dialect, schema), *more]:
            database.execute(statement)
        return database.url

    return build


def upgrade(url: str) -> None:
    """Run the command that upgrades a store."""
    with pytest.raises(SystemExit) as ended:
        main(["db", "upgrade", "--url", url])
    assert ended.value.code in (0, None)


def by_kind(text: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of an export by their kind, in order."""
    found = defaultdict(list)
    for line in content(text):
        row = json.loads(line)
        found[row["type"]].append(row)
    return found


WHERE = [(dialect, schema) for dialect in ("sqlite", *DIALECTS) for schema in SCHEMAS]


@pytest.mark.parametrize(("dialect", "schema"), WHERE)
def test_an_upgraded_store_holds_what_it_held(load: Load, dialect: str, schema: int) -> None:
    """After `milepost db upgrade`, an export has every field of every row that the earlier release exported."""
    url = load(dialect, schema)
    upgrade(url)
    recorded = by_kind((DATA / f"{dialect}-{schema:04}.jsonl").read_bytes())
    assert len(recorded) >= 7
    clock = ManualClock()
    clock.advance(seconds=65)  # as far as it had moved when the rows were recorded
    with connect(url, clock=clock) as store:
        store.verify()
        found = by_kind(exported(store))
    for kind, rows in recorded.items():
        assert [{name: row.get(name) for name in old} for row, old in zip(found[kind], rows, strict=True)] == rows


@pytest.mark.parametrize(("dialect", "schema"), WHERE)
def test_an_upgraded_store_goes_on(load: Load, dialect: str, schema: int) -> None:
    """Values read back through the accessors, the running attempt goes on, stale ones stay stale, archives come back."""
    url = load(dialect, schema)
    upgrade(url)
    clock = ManualClock()
    clock.advance(seconds=65)
    with connect(url, clock=clock) as store:
        values = dict(store.task_store(TASK).items())
        assert {key: repr(values[key]) for key in KEYS[: len(VALUES)]} == {
            key: repr(value) for key, value in zip(KEYS, reversed(VALUES), strict=False)
        }
        assert store.asset_store(Asset("orders", uri="s3://orders")).get("watermark") == {"at": "z"}
        assert json.loads(store.runs.get_result(TASK) or "") == ["\0", "😀"]
        assert store.clean().held_by == "a collector that was killed"
        clock.advance(minutes=2)
        assert store.clean().expired == 1
        with pytest.raises(StaleAttemptError):
            store.instances.open(TASK, 1)
        task = store.instances.open(TASK, 2)["task_store"]
        task.set("new", "value")
        assert task.get("new") == "value"
        store.instances.finish(TASK, 2, "success")
        before = store.task_store(TASK).keys()
        store.instances.clear(TASK)
        assert store.instances.restore(TASK) == len(before)
        assert store.task_store(TASK).keys() == before


@pytest.mark.parametrize("dialect", ["sqlite", *DIALECTS])
def test_s21_rows_that_an_older_release_orphaned_are_collected(load: Load, dialect: str) -> None:
    """S-21: keys that a deleted run had left behind, never-expiring ones too, are found by the first collection."""
    columns = "owner_id, key, encoding, version, created_at, updated_at, expires_at, default_day, writer, value"
    rows = [f"INSERT INTO entries ({columns}) VALUES (999, '{name}', 0, '{name}', 1, 1, {kept}, 'w', '1')"
            for name, kept in (("never", "NULL, NULL"), ("default", "NULL, 20454"))]  # fmt: skip
    url = load(dialect, SCHEMAS[0], [dialect_sql(dialect, row) for row in rows])
    upgrade(url)
    clock = ManualClock()
    clock.advance(minutes=5)
    with connect(url, clock=clock) as store:
        assert store.clean().expired == 3  # one more had expired by then
        assert store.stats().expired == 0


@pytest.mark.parametrize(("dialect", "schema"), [pair for pair in WHERE if pair[0] != "sqlite"])
def test_a_server_is_not_upgraded_by_the_way(load: Load, dialect: str, schema: int) -> None:
    """`connect` refuses the schema of an earlier release on a server, names the command, and changes nothing."""
    if schema == len(migrations(dialect)):
        pytest.skip("the newest schema is that one")
    url = load(dialect, schema)
    for options in ({}, {"upgrade": False}):
        with pytest.raises(SchemaOutdatedError, match="milepost db upgrade"):
            connect(url, **options)
    with pytest.raises(SystemExit) as ended:
        main(["task-store", "list", TASK.dag_id, TASK.run_id, TASK.task_id, "--url", url])
    assert ended.value.code == 6
    upgrade(url)
    with connect(url) as store:
        store.verify()


def test_sqlite_is_upgraded_at_connect(load: Load) -> None:
    """A file of an earlier release is upgraded when it is opened; with `upgrade=False` it is refused and stays as it is."""
    url = load("sqlite", SCHEMAS[0])
    with pytest.raises(SchemaOutdatedError, match="milepost db upgrade"):
        connect(url, upgrade=False)
    with connect(url) as store:
        assert store.metastore.found_schema == SCHEMAS[0]
        store.verify()


def test_the_records_are_complete() -> None:
    """For each schema that a release had, both files are there in each dialect, with every kind of line."""
    names = {f"{dialect}-{schema:04}.{kind}" for dialect, schema in WHERE for kind in ("sql", "jsonl")}
    assert {path.name for path in DATA.iterdir()} == names
    for dialect, schema in WHERE:
        tables = {statement.split()[2].split(".")[-1].removeprefix("milepost_") for statement in rows_of(dialect, schema)}
        assert tables >= {"owners", "runs", "instances", "assets", "entries", "changes", "results", "leases"}
