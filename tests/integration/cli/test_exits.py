"""Exit codes (SPEC 10), bad settings, stores that cannot be used, help."""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, Store, TaskScope, __version__, connect
from tests.conftest import Require
from tests.integration.cli.conftest import ONE, PROGRAM, Cli

DAG = """
from milepost.sdk import DAG, task

with DAG("{name}"):
    @task
    def one(task_store=None):
        task_store.set("k", 1)
        {body}
    one()
"""

COMMANDS = [
    (), ("run",), ("clean",), ("runs",), ("runs", "list"), ("runs", "show"), ("runs", "clear"), ("runs", "delete"),
    ("task-store",), ("task-store", "list"), ("task-store", "get"), ("task-store", "set"), ("task-store", "delete"),
    ("task-store", "clear"), ("task-store", "restore"), ("asset-store",), ("asset-store", "list"), ("asset-store", "get"),
    ("asset-store", "set"), ("asset-store", "delete"), ("asset-store", "clear"), ("asset-store", "restore"),
    ("asset-store", "history"), ("asset-store", "rollback"), ("asset-store", "copy"), ("assets",), ("assets", "list"),
    ("assets", "show"), ("assets", "activate"), ("assets", "deactivate"), ("assets", "forget"), ("state-store",),
    ("state-store", "cleanup-task-store"), ("db",), ("db", "upgrade"), ("db", "verify"), ("db", "stats"), ("config",),
    ("config", "show"), ("doctor",), ("export",), ("import",), ("serve",), ("watch",), ("tokens",), ("tokens", "create"),
    ("tokens", "list"), ("tokens", "revoke"), ("airflow",), ("airflow", "sync"),
    ("airflow", "import"), ("airflow", "export"),
]  # fmt: skip


def test_exits_of_a_run(cli: Cli) -> None:
    """0: the run succeeded, and again when it had before; 1: it failed; 2: no such DAG, no such file."""
    good, bad = cli.home / "good.py", cli.home / "bad.py"
    good.write_text(DAG.format(name="good", body="pass"))
    bad.write_text(DAG.format(name="bad", body="raise ValueError('no')"))
    assert cli.raw("run", str(good), "--run-id", "r")[0] == 0
    assert cli.raw("run", str(good), "--run-id", "r")[0] == 0
    assert cli("task-store", "get", "good", "r", "one", "k").json == 1
    failed = subprocess.run([*PROGRAM, "run", str(bad)], capture_output=True, env=cli.environment, cwd=cli.home)
    assert failed.returncode == 1
    assert cli.raw("run", str(good), "nope")[0] == 2
    cli("run", str(cli.home / "nothing.py"), code=2)
    cli("run", str(good), "--params", "[1]", code=3)
    assert "'x'" in cli("run", str(good), "--workers", "x", code=2).err


def test_the_summary_of_a_run_as_json(cli: Cli) -> None:
    """`run --json` prints JSON only on standard output, even where tasks print."""
    file = cli.home / "dag.py"
    file.write_text(DAG.format(name="loud", body="print('loud')"))
    code, out, err = cli.raw("run", str(file), "--run-id", "r", "--json")
    assert (code, json.loads(out)["state"], b"loud" in err) == (0, "success", True)


def test_a_run_that_is_held_is_a_conflict(cli: Cli, store: Store) -> None:
    """5: another runner holds the run."""
    file = cli.home / "dag.py"
    file.write_text(DAG.format(name="held", body="pass"))
    store.runs.begin("held", "r", holder="elsewhere/1/1", ttl=600)
    assert cli.raw("run", str(file), "--run-id", "r")[0] == 5


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("nope",), "nope"),
        (("task-store", "gett"), "gett"),
        (("task-store", "get", "--nope", *ONE, "k"), "--nope"),
        (("task-store", "get", *ONE), "KEY"),
        (("task-store", "get", *ONE, "k", "more"), "more"),
        (("task-store", "set", *ONE, "k", "1", "--sting"), "--sting"),
        (("task-store", "set", *ONE, "k", "1", "--retention"), "--retention"),
        (("runs", "list", "--state", "done"), "done"),
        (("runs", "list", "--limit", "0"), "0"),
        (("clean", "--batch-size", "0"), "0"),
        (("clean", "--batch-size", "many"), "many"),
        (("clean", "--batch-size", "2147483648"), "--batch-size"),
        (("--nope",), "--nope"),
    ],
)
def test_usage_errors_name_what_is_wrong(cli: Cli, args: tuple[str, ...], named: str) -> None:
    """2: an unknown command, option or value names itself in the one line that is printed; nothing is created."""
    assert named in cli(*args, code=2).err
    assert not cli.file.exists()


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("MILEPOST__STATE_STORE__ON_CLEAR", "x", "MILEPOST__STATE_STORE__ON_CLEAR"),
        ("MILEPOST__STATE_STORE__DEFAULT_RETENTION_DAYS", "-5", "MILEPOST__STATE_STORE__DEFAULT_RETENTION_DAYS"),
        ("MILEPOST__STATE_STORE__NOPE", "1", "nope"),
        ("MILEPOST__OTHER__X", "1", "MILEPOST__OTHER__X"),
        ("MILEPOST_CONFIG", "/nowhere/milepost.cfg", "/nowhere/milepost.cfg"),
        ("MILEPOST__STATE_STORE__BACKEND", "no.such.Backend", "no.such.Backend"),
        ("MILEPOST__STATE_STORE__BACKEND", "json.JSONDecoder", "json.JSONDecoder"),
        ("MILEPOST__STATE_STORE__URL", "ftp://x", "ftp"),
        ("MILEPOST__STATE_STORE__URL", "sqlite:///", "sqlite:///"),
    ],
)
def test_a_bad_setting_names_its_place(cli: Cli, store: Store, variable: str, value: str, named: str) -> None:
    """2: a bad setting is an error that names the place it came from, for doctor too."""
    said = cli("runs", "list", code=2, env={variable: value}).err
    assert named in said
    assert variable in said
    code, out, err = cli.raw("doctor", env={variable: value})
    assert (code, named in out.decode(), err) == (2, True, b"")


def test_a_bad_file_names_its_place(cli: Cli, store: Store) -> None:
    """2: a bad line in milepost.cfg is reported with the path of the file."""
    file = cli.home / "milepost.cfg"
    for text in ("[state_store]\nnope = 1\n", "[state_store]\narchive_days = x\n", "[other]\n", "no section\n", "\xff"):
        file.write_bytes(text.encode("latin-1"))
        assert "milepost.cfg" in cli("runs", "list", code=2).err
    for text in ("url = ftp://x", "url = sqlite:///", "url = postgresql://h:x/d", "backend = no.such.Backend"):
        file.write_text(f"[state_store]\n{text}\n")
        assert "milepost.cfg [state_store]: " in cli("runs", "list", code=2).err
    file.write_text("\ufeff[state_store]\narchive_days = 3\n")  # as some editors save it
    shown = cli("config", "show", "--json").json["state_store"]["archive_days"]
    assert (shown["value"], "milepost.cfg" in shown["source"]) == (3, True)
    assert "archive_days" in cli("config", "show").out


def test_secrets_are_masked(cli: Cli) -> None:
    """A password in the url is shown nowhere: not by config show, doctor or an error."""
    url = "ftp://user:s3cret@host/db"
    for args in (("config", "show"), ("config", "show", "--json"), ("doctor",), ("runs", "list"), ("db", "verify")):
        _, out, err = cli.raw(*args, "--url", url)
        assert b"s3cret" not in out + err


def foreign(path: Path) -> None:
    """Make a SQLite file of something else."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def newer(path: Path) -> None:
    """Make a store that a later release has changed."""
    connect(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def torn(path: Path) -> None:
    """Make a store with a broken page."""
    with connect(f"sqlite:///{path}") as store:
        store.task_store(TaskScope(*ONE)).set_many({f"k{number}": "x" * 500 for number in range(500)})
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("This is no database, and it is longer than a header of one would be." * 20),
        lambda path: path.mkdir(),
        foreign,
        newer,
        torn,
    ],
    ids=["text", "folder", "foreign", "newer", "torn"],
)
def test_a_store_that_cannot_be_used(cli: Cli, make: Callable[[Path], Any]) -> None:
    """6: the file is no database, a folder, someone else's, too new or damaged; it is named and left as it is."""
    make(cli.file)
    before = cli.file.read_bytes() if cli.file.is_file() else None
    for args in (("runs", "list"), ("task-store", "list", *ONE), ("db", "verify"), ("db", "stats"), ("db", "upgrade")):
        code, out, err = cli.raw(*args)
        if args[:2] == ("db", "verify") or before is None or b"is no database" in before or code:
            assert (code, out) == (6, b"")
            assert str(cli.file).encode() in err
            assert err.count(b"\n") == 1
    code, out, _ = cli.raw("doctor")
    assert (code, b"fail" in out) == (6, True)
    assert before is None or cli.file.read_bytes() == before


def test_a_path_that_cannot_be_made(cli: Cli) -> None:
    """6: a store below a file, or where no folder can be created, is unreachable."""
    (cli.home / "file").write_text("x")
    for path in (cli.home / "file" / "store.db", Path("/proc/milepost/store.db")):
        assert str(path) in cli("runs", "list", "--url", f"sqlite:///{path}", code=6).err
        assert cli.raw("doctor", "--url", f"sqlite:///{path}")[0] == 6


def no_override() -> None:
    """Let this process be bound by the modes of files even as root (Linux: drop the capabilities that override them)."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def bound(cli: Cli, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command that is bound by the modes of files."""
    ready = no_override if os.geteuid() == 0 else None
    return subprocess.run(
        [*PROGRAM, *args], capture_output=True, text=True, env=cli.environment, timeout=60, preexec_fn=ready
    )


@pytest.fixture
def locked(cli: Cli, require: Require) -> Iterator[Cli]:
    """The command line on a store with a value, in a folder that may be read but not written."""
    with connect(cli.url) as store:
        store.task_store(TaskScope(*ONE)).set("k", 1)
    cli.file.chmod(0o400)
    cli.home.chmod(0o500)
    probe = subprocess.run(
        [sys.executable, "-c", f"open({str(cli.home / 'probe')!r}, 'w')"],
        capture_output=True,
        preexec_fn=no_override if os.geteuid() == 0 else None,
    )
    require("a system where the modes of files bind the tests, too", b"PermissionError" in probe.stderr)
    yield cli
    cli.home.chmod(0o700)


def test_a_store_that_may_not_be_written(locked: Cli) -> None:
    """6: a store that this user may not write is refused with one line and keeps its value; doctor says what to do."""
    for args in (("task-store", "set", *ONE, "k", "2"), ("runs", "list", "--url", f"sqlite:///{locked.home / 'new.db'}")):
        done = bound(locked, *args)
        assert (done.returncode, done.stdout) == (6, "")
        assert done.stderr.startswith("milepost: ")
        assert done.stderr.count("\n") == 1
    looked = bound(locked, "doctor")
    assert looked.returncode == 6
    assert "Traceback" not in looked.stderr
    assert "chmod u+rw" in looked.stdout
    locked.home.chmod(0o700)
    with connect(locked.url) as store:
        assert store.task_store(TaskScope(*ONE)).get("k") == 1


def test_memory_is_refused_where_it_makes_no_sense(cli: Cli) -> None:
    """2: `run` refuses memory://, for every attempt is a process of its own."""
    file = cli.home / "dag.py"
    file.write_text(DAG.format(name="d", body="pass"))
    cli("run", str(file), "--url", "memory://", code=2)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(cli: Cli, command: tuple[str, ...]) -> None:
    """`--help` of every command prints its usage, creates nothing, and shows an example where arguments are needed."""
    for option in ("--help", "-h"):
        shown = cli(*command, option).out
        assert shown.startswith(f"Usage: {' '.join(('milepost', *command))}")
        assert "[[" not in shown
    if len(command) > 1 and command[0] != "db":
        assert "Example" in shown or command in (("state-store",), ("config",))
    assert list(cli.home.iterdir()) == []


def test_the_list_of_commands_is_complete(cli: Cli) -> None:
    """Every command that the top help lists is in the list that these tests go through."""
    import re

    listed = re.findall(r"^  ([a-z][a-z-]+)  ", cli("--help").out, flags=re.MULTILINE)
    assert sorted(listed) == sorted({command[0] for command in COMMANDS if command})


def test_a_group_alone_shows_its_help(cli: Cli) -> None:
    """A group without a command prints its help and leaves with 2."""
    for group in ((), ("runs",), ("task-store",), ("db",)):
        code, out, err = cli.raw(*group)
        assert (code, b"Usage:" in out + err) == (2, True)


def test_completion_installs_nothing_by_itself(cli: Cli, store: Store) -> None:
    """No command but `--install-completion` writes to the home folder; `--show-completion` only prints."""
    # The shell is named, not found out: the tests may have been started from one that Typer does not know.
    home = {"HOME": str(cli.home), "SHELL": "/bin/bash", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = cli.raw("--show-completion", "bash", env=home)[1]
    assert b"milepost" in shown
    cli("runs", "list", env=home)
    assert {path.name for path in cli.home.iterdir()} <= {"milepost.db", "milepost.db-wal", "milepost.db-shm"}


def test_it_runs_as_program_and_as_module(cli: Cli) -> None:
    """`milepost` on PATH and `python -m milepost` are the same program."""
    module = [sys.executable, "-m", "milepost", "--version"]
    said = subprocess.run(module, capture_output=True, text=True, env=cli.environment, check=True).stdout
    assert said == cli("--version").out == f"milepost {__version__}\n"


READING = [
    ("runs", "list"), ("runs", "show", "d", "r"), ("runs", "clear", "d", "r"), ("runs", "delete", "d", "r", "--yes"),
    ("task-store", "list", *ONE), ("task-store", "get", *ONE, "k"), ("task-store", "set", *ONE, "k", "1"),
    ("task-store", "delete", *ONE, "k"), ("task-store", "clear", *ONE), ("task-store", "restore", *ONE),
    ("asset-store", "list", "a"), ("asset-store", "get", "a", "k"), ("asset-store", "set", "a", "k", "1"),
    ("asset-store", "delete", "a", "k"), ("asset-store", "clear", "a"), ("clean",), ("clean", "--dry-run"), ("db", "verify"),
    ("db", "stats"), ("export",), ("export", "out.jsonl"),
]  # fmt: skip


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_mistyped_store_is_not_made(cli: Cli, args: tuple[str, ...]) -> None:
    """6: whatever only reads or edits names the store that is not there, and makes neither it nor its folder."""
    file = cli.home / "typo" / "store.db"
    said = cli(*args, "--url", f"sqlite:///{file}", code=6).err
    assert f"there is no store {file}" in said
    assert list(cli.home.iterdir()) == []


def test_a_refused_import_makes_no_store(cli: Cli) -> None:
    """An import that is refused leaves no new store behind; one that is not fills it."""
    (cli.home / "bad.jsonl").write_text("no export\n")
    for given in ("bad.jsonl", "-"):
        cli("import", given, "--url", "sqlite:///new.db", code=3)
    assert [path.name for path in cli.home.iterdir()] == ["bad.jsonl"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("runs", "list", "--url", "foo.db"), 2, "--url must be a URL; for a file write sqlite:///foo.db"),
        (("runs", "list", "--url", "sqlite://foo.db"), 2, "--url must be written with three slashes: sqlite:///foo.db"),
        (("task-store", "set", "d", "r", "other", "k", "1"), 4, "; --create records it"),
        (("task-store", "list", "d", "r", "t", "--map-index", "-2"), 3, "--map-index must be -1"),
        (("asset-store", "set", "other", "k", "1"), 4, "; --create records it"),
        (("task-store", "set", *ONE, "k", "null"), 3, "(null in JSON), which means absent here; delete the key instead"),
        (("task-store", "set", *ONE, "k", "1", "--retention", "0s"), 3, "; delete the key instead"),
        (("run", "dag.py", "--params", "{"), 3, "--params takes a JSON object"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_speak_the_language_of_the_command_line(
    cli: Cli, task: Any, args: tuple[str, ...], code: int, said: str
) -> None:
    """What an error says to do is an option or a command, not a call in Python."""
    assert said in cli(*args, code=code).err


def test_live_keys_in_the_way_of_a_restore(cli: Cli, task: Any) -> None:
    """5: the refusal names the option that sets live keys aside."""
    task.set("k", 1)
    cli("task-store", "delete", *ONE, "k")
    task.set("k", 2)
    assert "(--force)" in cli("task-store", "restore", *ONE, code=5).err
    assert cli("task-store", "restore", *ONE, "--force").out == "1 key restored\n"


def test_two_assets_of_one_name(cli: Cli, store: Store) -> None:
    """A name with two URIs leads to two assets: the error names both and the option that chooses one."""
    for number, uri in enumerate(("s3://old", "s3://new")):
        store.asset_store(Asset("orders", uri)).set("w", number)
    said = cli("asset-store", "get", "orders", "w", code=3).err
    assert "orders (s3://old); orders (s3://new)" in said
    assert "--uri URI" in said
    assert cli("asset-store", "get", "orders", "w", "--uri", "s3://new").json == 1
    cli("asset-store", "set", "orders", "w", "7", "--uri", "s3://old")
    assert cli("asset-store", "list", "orders", "--uri", "s3://old", "--json").json == [{"key": "w", "value": 7}]
    cli("asset-store", "delete", "orders", "w", "--uri", "s3://old")
    cli("asset-store", "clear", "orders", "--uri", "s3://new")
    assert (
        store.asset_store(Asset("orders", "s3://old")).keys() == store.asset_store(Asset("orders", "s3://new")).keys() == []
    )
    cli("asset-store", "get", "orders", "w", "--uri", "s3://none", code=4)


@pytest.mark.parametrize(
    ("args", "code"),
    [(("task-store", "list", *ONE), 141), (("runs", "--help"), 141), (("task-store", "get", *ONE, "none"), 4), ((), 141)],
    ids=["list", "help", "error", "no arguments"],
)
def test_a_reader_that_has_gone(cli: Cli, task: Any, args: tuple[str, ...], code: int) -> None:
    """Where nobody reads standard output and standard error, a command ends quietly: 141, or the code of its error."""
    task.set_many({f"key {number}": "x" * 1000 for number in range(200)})
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PROGRAM, *args], stdout=writing, stderr=writing, env=cli.environment, timeout=60)
    os.close(writing)
    assert done.returncode == code


def test_output_that_cannot_be_written(cli: Cli, task: Any, require: Require) -> None:
    """2: a full disk behind standard output is one line, however much there is to write."""
    require("/dev/full", Path("/dev/full").exists())
    task.set_many({f"key {number}": "x" * 1000 for number in range(200)})
    for args in (("task-store", "list", *ONE), ("runs", "list")):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, env=cli.environment, timeout=60)
        assert done.returncode == 2
        assert done.stderr == b"milepost: cannot write the output: No space left on device\n"


def test_what_a_clear_leaves_as_it_is(cli: Cli, store: Store) -> None:
    """`runs clear` of a task says that finished tasks stay as they are, and how to clear those after it."""
    for name in ("load", "report"):
        scope = TaskScope("d", "r 1", name)
        store.instances.open(scope, 1)
        store.instances.finish(scope, 1, "success")
    said = cli("runs", "clear", "d", "r 1", "load").out.splitlines()
    assert said[0] == "1 task instance cleared"
    assert "`milepost run FILE --run-id 'r 1' --clear load --downstream`" in said[1]
    assert cli("runs", "clear", "d", "r 1").out == "2 task instances cleared\n"


def test_commands_about_airflow_say_where_they_run(cli: Cli) -> None:
    """Where Airflow is not installed: usage, and one line."""
    assert "Airflow is not installed here" in cli("airflow", "sync", code=2).err
