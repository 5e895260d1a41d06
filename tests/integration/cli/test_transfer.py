"""`milepost export` and `milepost import`."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

from milepost import Asset, Store, TaskScope, connect
from milepost.transfer import rows
from tests.integration.cli.conftest import ONE, Cli

COUNTS = dict.fromkeys(rows.FIELDS, 0) | {
    "run": 1,
    "instance": 1,
    "asset": 1,
    "task_entry": 2,
    "asset_entry": 1,
    "change": 1,
}


def _fill(store: Store) -> None:
    store.task_store(TaskScope(*ONE)).set_many({"k\n": "😀", "n": 2**70})
    store.asset_store(Asset("orders")).set("at", 1)


def _damage(store: Store) -> None:
    engine: Any = store.metastore.engine  # type: ignore[attr-defined]
    connection = engine.take()
    connection.execute("UPDATE entries SET value = x'ff' WHERE key = 'n'")
    engine.give(connection)


def test_a_file_and_back(cli: Cli, store: Store) -> None:
    """`export FILE` writes a file that only its owner can read; `import FILE` fills another store from it."""
    _fill(store)
    said = cli("export", "out.jsonl").out
    assert said.startswith("written to out.jsonl:\nROWS")
    assert stat.S_IMODE((cli.home / "out.jsonl").stat().st_mode) == 0o600
    report = cli("import", "out.jsonl", "--url", "sqlite:///other.db", "--json").json
    assert report["counts"] == COUNTS
    assert report["sha256"] in said
    assert cli("export", "again.jsonl", "--url", "sqlite:///other.db", "--json").json == report
    with connect(f"sqlite:///{cli.home}/other.db") as other:
        assert other.task_store(TaskScope(*ONE)).items() == [("k\n", "😀"), ("n", 2**70)]


def test_pipes(cli: Cli, store: Store) -> None:
    """`export` without a file or with - writes to standard output, `import -` reads standard input."""
    _fill(store)
    code, text, err = cli.raw("export")
    assert (code, err) == (0, b"")
    assert text.splitlines()[1:] == cli.raw("export", "-")[1].splitlines()[1:]
    assert json.loads(text.splitlines()[-1])["counts"] == COUNTS
    assert cli("import", "-", "--url", "sqlite:///other.db", given=text).out.startswith("imported, and found again")
    assert cli("task-store", "get", *ONE, "n", "--url", "sqlite:///other.db").out == f"{2**70}\n"


def test_a_named_pipe_is_written_to(cli: Cli, store: Store) -> None:
    """What is no regular file is written to, not replaced."""
    _fill(store)
    pipe = cli.home / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    cli("export", "pipe")
    reader.join(timeout=60)
    assert got[0].count(b"\n") == sum(COUNTS.values()) + 2
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_damaged_rows(cli: Cli, store: Store) -> None:
    """Damaged rows are named on standard error and left out: exit 3, or 0 with --skip-damaged; the file is there."""
    _fill(store)
    _damage(store)
    err = cli("export", "out.jsonl", code=3).err
    assert err == "milepost: left out, because it is damaged: task_entry 'n' of d/r/t: its value is no text: b'\\xff'\n"
    code, out, said = cli.raw("export", "out.jsonl", "--force", "--skip-damaged", "--json")
    assert (code, said.decode()) == (0, err)
    report = json.loads(out)
    assert report["damaged"] == 1
    assert report["first"] == [
        {"kind": "task_entry", "owner": "d/r/t", "key": "n", "reason": "its value is no text: b'\\xff'"}
    ]
    assert cli("import", "out.jsonl", "--url", "sqlite:///other.db", "--json").json["counts"]["task_entry"] == 1


def test_what_is_refused(cli: Cli, store: Store) -> None:
    """A store that is not empty: 5; a cut file: 3; no file, no folder, --json without a file: 2; no store: 6."""
    _fill(store)
    cli("export", "out.jsonl")
    text = (cli.home / "out.jsonl").read_bytes()
    (cli.home / "cut.jsonl").write_bytes(text[:-9])
    assert "holds runs, assets, entries, changes; name a new one" in cli("import", "out.jsonl", code=5).err
    assert "line 9: the file is cut off" in cli("import", "cut.jsonl", "--url", "sqlite:///other.db", code=3).err
    assert "line 9: the file is cut off" in cli("import", "-", "--url", "sqlite:///b.db", code=3, given=text[:-9]).err
    assert "cannot read none.jsonl: No such file" in cli("import", "none.jsonl", code=2).err
    assert "cannot write no/out.jsonl: No such file" in cli("export", "no/out.jsonl", code=2).err
    assert "name a FILE" in cli("export", "--json", code=2).err
    cli("export", "new.jsonl", "--url", "sqlite:///none.db", code=6)
    assert "out.jsonl is there already; --force takes its place" in cli("export", "out.jsonl", code=2).err
    assert not (cli.home / "none.db").exists()
    assert (cli.home / "out.jsonl").read_bytes() == text
    assert cli("export", "out.jsonl", "--force").out.startswith("written to out.jsonl")
    assert sorted(path.name for path in cli.home.glob("*out*")) == ["out.jsonl"]


def test_a_failed_export_leaves_the_file_as_it_was(cli: Cli, store: Store) -> None:
    """An export that fails half-way keeps an earlier file under that name and leaves nothing else."""
    _fill(store)
    (cli.home / "out.jsonl").write_text("before")
    env = {"MILEPOST__STATE_STORE__BACKEND": "tests.support.backends.DictBackend", "PYTHONPATH": str(Path.cwd())}
    code, _, err = cli.raw("export", "out.jsonl", "--force", env=env)
    assert code == 2
    assert b"they would be missing" in err
    assert (cli.home / "out.jsonl").read_text() == "before"
    assert sorted(path.name for path in cli.home.glob("*out*")) == ["out.jsonl"]


def test_a_full_disk(cli: Cli, store: Store) -> None:
    """An export that cannot be written says so in one line."""
    _fill(store)
    if Path("/dev/full").exists():
        assert "No space left" in cli("export", "/dev/full", code=2).err
