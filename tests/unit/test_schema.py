"""Statements, migrations and the schema agree."""

from __future__ import annotations

import ast
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import milepost
from milepost import DamagedStoreError, ManualClock, SchemaOutdatedError, SchemaTooNewError, TaskScope, connect
from milepost.metastore import operations
from milepost.metastore.engines import sqlite_schema
from milepost.metastore.engines.sqlite import STATEMENTS
from milepost.metastore.migrations import Migration, migrations
from milepost.metastore.operations import OPERATIONS
from milepost.metastore.statements import Statements
from milepost.remote.incoming import CALLS

SOURCE = Path(milepost.__file__).parent
FIXTURES = Path(__file__).parent.parent / "fixtures" / "schema"
STEPS = migrations("sqlite")


def texts_in(folder: Path) -> tuple[set[str], list[re.Pattern[str]]]:
    """Return the string constants of a folder's code, and the patterns of its f-strings."""
    constants: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                constants.add(node.value)
            elif isinstance(node, ast.JoinedStr) and len(node.values) == 2:
                parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z_]+" for part in node.values]
                patterns.append(re.compile("".join(parts)))
    return constants, patterns


def yielded_names() -> Iterator[str]:
    """Return every constant name of a statement that an operation yields."""
    for path in (SOURCE / "metastore" / "operations").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
                first = node.value.elts[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value


def test_every_statement_that_operations_yield_exists() -> None:
    """Each name that an operation yields is a statement of the dialect."""
    names = set(yielded_names())
    assert len(names) > 30
    assert names - STATEMENTS.keys() == set()


def test_every_statement_is_used() -> None:
    """No statement is dead: each is named somewhere in the metastore's code."""
    constants, patterns = texts_in(SOURCE / "metastore")
    constants |= {statement.each for statement in STATEMENTS.values() if statement.each}
    unused = [
        name for name in STATEMENTS if name not in constants and not any(pattern.fullmatch(name) for pattern in patterns)
    ]
    assert unused == []


def test_every_call_has_an_operation() -> None:
    """Every class of call is run by one operation, which its module exports, and no operation is of a class that is gone."""
    plans = {name: OPERATIONS[cls] for name, cls in CALLS.items()}
    exported = [plan.operation.__name__ in sys.modules[plan.operation.__module__].__all__ for plan in plans.values()]
    assert all(exported)
    assert sorted(operations._READS.keys() | operations._WRITES.keys()) == sorted(CALLS)
    assert operations._READS.keys() & operations._WRITES.keys() == set()
    assert [name for name, plan in plans.items() if plan.direct is not None] == sorted(operations._DIRECT)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The database that `connect` makes; tests only look at it."""
    path = tmp_path_factory.mktemp("schema") / "fresh.db"
    connect(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def schema_of(connection: sqlite3.Connection) -> str:
    """Return the whole schema as text, in an order of its own."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name")
    return "\n".join(f"{row[0]};" for row in rows if "sqlite_sequence" not in row[0]) + "\n"


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_every_statement_is_valid_on_the_schema(fresh: sqlite3.Connection, name: str) -> None:
    """SQLite can prepare each statement, for one row and for many, on a fresh schema."""
    statement = STATEMENTS[name]
    for text, used in ((statement.text, statement.used), (statement.many, statement.many_used)):
        if text:
            fresh.execute(f"EXPLAIN {text}", [None] * len(used))


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_placeholder_has_a_name_or_number(name: str) -> None:
    """Python 3.12.0 to 3.12.3 warn where a sequence meets a placeholder that has a name or a number, so none has."""
    statement = STATEMENTS[name]
    text = re.sub(r"'[^']*'", "''", statement.text + statement.many)
    assert re.findall(r"\?\d|[:@$]\w", text) == []


def test_migrations_step_by_step_make_the_fresh_schema(fresh: sqlite3.Connection, tmp_path: Path) -> None:
    """Upgrading one version at a time ends with the schema and the numbers of a fresh file."""
    connection = sqlite3.connect(tmp_path / "stepped.db", isolation_level=None)
    try:
        for step in STEPS:
            sqlite_schema.upgrade(connection, "stepped", step.version)
            assert connection.execute("PRAGMA user_version").fetchone() == (step.version,)
        assert schema_of(connection) == schema_of(fresh)
        for pragma in ("user_version", "application_id"):
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == fresh.execute(f"PRAGMA {pragma}").fetchone()
        sqlite_schema.verify(connection, "stepped")
    finally:
        connection.close()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_released_migration_is_never_edited(step: Migration) -> None:
    """The schema after each migration is the recorded one; a change of schema is a new migration and a new record."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        sqlite_schema.upgrade(connection, "memory", step.version)
        recorded = FIXTURES / f"sqlite-{step.version:04}.sql"
        assert recorded.is_file(), f"record the schema of migration {step.version} in {recorded.name}"
        assert schema_of(connection) == recorded.read_text(encoding="utf-8")
    finally:
        connection.close()


def test_no_record_without_migration() -> None:
    """Every recorded schema belongs to a migration."""
    assert sorted(path.name for path in FIXTURES.glob("sqlite-*.sql")) == [f"sqlite-{s.version:04}.sql" for s in STEPS]


def test_a_newer_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    """A file of a newer release is refused by connect and verify, and left as it is."""
    path = tmp_path / "store.db"
    connect(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with pytest.raises(SchemaTooNewError, match="upgrade Milepost"):
        connect(f"sqlite:///{path}")
    with pytest.raises(SchemaTooNewError):
        sqlite_schema.verify(connection, "x")
    assert connection.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
    connection.execute("PRAGMA user_version = 0")
    with pytest.raises(SchemaOutdatedError, match="upgrade"):
        sqlite_schema.verify(connection, "x")
    connection.close()


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    """Another program's SQLite file and a file that is no database are refused and left as they are."""
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be taken for one " * 50)
    before = text.read_bytes()
    for path in (other, text):
        with pytest.raises(DamagedStoreError, match=path.name):
            connect(f"sqlite:///{path}")
    assert text.read_bytes() == before
    connection = sqlite3.connect(other)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


def test_a_store_is_reopened_as_it_was(tmp_path: Path) -> None:
    """Closing and connecting again keeps every value, and the file is readable by its owner only."""
    path = tmp_path / "new folder" / "store.db"
    scope = TaskScope("d", "r", "t")
    with connect(f"sqlite:///{path}", clock=ManualClock()) as store:
        store.task_store(scope).set("k", 2**70)
    with connect(f"sqlite:///{path}") as store:
        assert store.task_store(scope).get("k") == 2**70
        store.verify()
    assert path.stat().st_mode & 0o777 == 0o600


def test_malformed_statement_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two statements of one name, undeclared and unused parameters are ValueError."""
    from milepost.metastore import statements

    folder = tmp_path / "odd"
    folder.mkdir()
    monkeypatch.setattr(statements, "__file__", str(tmp_path / "__init__.py"))
    for text, said in (
        ("-- a()\nSELECT 1\n-- a()\nSELECT 2\n", "twice"),
        ("-- a()\nSELECT :x\n", ":x without declaring"),
        ("-- a(x)\nSELECT 1\n", "does not use"),
    ):
        (folder / "x.sql").write_text(text)
        with pytest.raises(ValueError, match=said):
            dict(Statements("odd", lambda position, _: f"?{position}"))
