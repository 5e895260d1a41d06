"""A backend of one's own behind every door: accessors, command line, runner, collection."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from milepost import Asset, BackendUnsupportedError, StaleAttemptError, Store, TaskScope, connect
from tests.integration.cli.conftest import ONE, Cli
from tests.support.forked import Forked

ROOT = Path(__file__).parents[3]
PLAIN = "tests.support.file_backend.FileBackend"
COLLECTING = "tests.support.file_backend.CollectingFileBackend"
WARNING = "keeps the entries"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the backend keeps its files."""
    monkeypatch.setenv("FILE_BACKEND_ROOT", str(tmp_path / "files"))
    return tmp_path / "files"


@pytest.fixture(params=[PLAIN, COLLECTING])
def store(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[Store]:
    """A store whose entries a backend keeps."""
    with connect(f"sqlite:///{tmp_path / 'store.db'}", backend=request.param) as opened:
        yield opened


@pytest.fixture
def own(folder: Path, tmp_path: Path, forked: Forked) -> Cli:
    """The command line with the collecting backend."""
    home = tmp_path / "home"
    home.mkdir()
    return configured(Cli(home, forked), COLLECTING, folder)


def configured(cli: Cli, backend: str, folder: Path) -> Cli:
    """Have a command line use a backend, as the environment of a user would."""
    cli.environment |= {
        "MILEPOST__STATE_STORE__BACKEND": backend,
        "FILE_BACKEND_ROOT": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    return cli


def run(cli: Cli, *args: str, code: int = 0) -> str:
    """Run a command that is to warn once of what the backend cannot do."""
    got, out, err = cli.raw(*args)
    assert got == code, err.decode()
    return out.decode() if code == 0 else err.decode()


def test_accessors_work(store: Store) -> None:
    """get, set, delete and clear of task and asset state go to the backend and come back with their types."""
    for accessor in (store.task_store(TaskScope(*ONE)), store.asset_store(Asset("orders"))):
        for value in (0, "", {"b": [2**70, None], "a": -0.0}, "a\0b"):
            accessor.set("../k", value)
            assert repr(accessor.get("../k")) == repr(value)
        assert accessor.get("other", "default") == "default"
        accessor.delete("../k")
        assert "../k" not in accessor
        accessor.set("k", 1)
        accessor.clear()
        assert accessor.get("k") is None
    assert store.stats().entries == 0


async def test_twins_work(store: Store) -> None:
    """The asynchronous calls go to the backend's own asynchronous methods."""
    accessor = store.task_store(TaskScope(*ONE))
    await accessor.aset("k", [1])
    assert await accessor.aget("k") == [1]
    await accessor.adelete("k")
    assert await accessor.aget("k", "gone") == "gone"
    await accessor.aset("k", 2)
    await accessor.aclear(all_map_indices=True)
    assert not await accessor.acontains("k")


def test_a_stale_attempt_is_refused(store: Store) -> None:
    """A stale attempt writes nothing to the backend and never reads "absent"."""
    scope = TaskScope(*ONE)
    old = store.task_store(scope, attempt=1)
    old.set("k", 1)
    new = store.task_store(scope, attempt=2)
    for call in (lambda: old.set("k", 9), lambda: old.delete("k"), old.clear, lambda: old.get("absent")):
        with pytest.raises(StaleAttemptError):
            call()
    assert new.get("k") == 1


def test_what_it_cannot_do_names_the_backend(store: Store) -> None:
    """Calls that need versions raise an error that names the backend, and write nothing."""
    accessor = store.task_store(TaskScope(*ONE))
    with pytest.raises(BackendUnsupportedError, match="FileBackend"):
        accessor.increment("n")
    with pytest.raises(BackendUnsupportedError, match="FileBackend"):
        accessor.set_many({"a": 1, "b": 2})
    assert accessor.get("n") is None


def test_collection_skips_or_asks_the_backend(folder: Path, tmp_path: Path) -> None:
    """A collection calls cleanup() where there is one, skips the backend and says so where not; a dry run never calls it."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with connect(url, backend=PLAIN) as store:
        store.task_store(TaskScope(*ONE)).set("k", 1, retention=timedelta(microseconds=1))
        assert store.clean().backend == f"skipped: the backend {PLAIN} has no cleanup()"
        assert store.task_store(TaskScope(*ONE)).get("k") == 1
    with connect(url, backend=COLLECTING) as store:
        assert "not asked" in str(store.clean(dry_run=True).backend)
        assert store.task_store(TaskScope(*ONE)).get("k") == 1
        assert store.clean().backend == f"removed by cleanup() of the backend {COLLECTING}"
        assert store.task_store(TaskScope(*ONE)).get("k") is None
    with connect(url) as store:
        assert store.clean().backend is None


async def test_asynchronous_collection_asks_the_backend(folder: Path, tmp_path: Path) -> None:
    """`aclean` calls cleanup(), too."""
    with connect(f"sqlite:///{tmp_path / 'store.db'}", backend=COLLECTING) as store:
        await store.task_store(TaskScope(*ONE)).aset("k", 1, retention=timedelta(microseconds=1))
        assert "removed by" in str((await store.aclean()).backend)
        assert await store.task_store(TaskScope(*ONE)).aget("k") is None


def test_a_clear_empties_the_backend(store: Store) -> None:
    """Starting an instance over drops its keys in the backend, so that no old state is seen; other indices keep theirs."""
    for index in range(2):
        store.task_store(TaskScope("d", "r", "t", index), attempt=1).set("k", index)
    store.instances.clear(TaskScope("d", "r", "t", 0))
    assert [store.task_store(TaskScope("d", "r", "t", index)).get("k") for index in range(2)] == [None, 1]
    store.instances.delete_run("d", "r")
    assert store.task_store(TaskScope("d", "r", "t", 1)).get("k") is None


def test_the_command_line_works(own: Cli, folder: Path) -> None:
    """set, get, list, delete and clear at the command line go to the backend; standard output stays clean."""
    run(own, "task-store", "set", *ONE, "a/b", '{"x": 1}', "--create")
    assert json.loads(run(own, "task-store", "get", *ONE, "a/b")) == {"x": 1}
    assert json.loads(run(own, "task-store", "list", *ONE, "--json")) == [{"key": "a/b", "value": {"x": 1}}]
    assert len([file for file in folder.rglob("*") if file.is_file()]) == 1
    run(own, "task-store", "delete", *ONE, "a/b")
    assert "a/b" in run(own, "task-store", "get", *ONE, "a/b", code=4)
    run(own, "task-store", "set", *ONE, "k", "1")
    run(own, "task-store", "clear", *ONE)
    run(own, "asset-store", "set", "orders", "w", "--string", "2026", "--create")
    assert run(own, "asset-store", "get", "orders", "w", "--string") == "2026\n"
    assert "\nits keys cannot be shown: the backend " in run(own, "assets", "show", "orders")
    assert [file for file in own.home.iterdir() if file.suffix == ".db"] == [own.file]
    run(own, "runs", "show", "d", "r")


def test_the_command_line_warns_once(own: Cli) -> None:
    """One warning on standard error names the backend and what it cannot do."""
    connect(own.url).close()
    _, out, err = own.raw("runs", "list", "--json")
    assert (json.loads(out), err.decode().count(WARNING)) == ([], 1)


def test_the_command_line_names_what_is_missing(folder: Path, own: Cli) -> None:
    """2: a command that needs more than the eight methods is refused with one line that names the backend."""
    configured(own, PLAIN, folder)
    run(own, "task-store", "set", *ONE, "k", "1", "--create")
    assert PLAIN in run(own, "task-store", "list", *ONE, code=2)
    assert PLAIN in run(own, "task-store", "get", *ONE, "k", "--json", code=2)
    assert PLAIN in run(own, "task-store", "set", *ONE, "k", "1", "--if-version", "v", code=2)


def test_clean_says_what_became_of_the_backend(folder: Path, own: Cli) -> None:
    """`clean` tells whether the backend was asked or skipped, in its JSON too."""
    connect(own.url).close()
    assert f"removed by cleanup() of the backend {COLLECTING}" in run(own, "clean")
    configured(own, PLAIN, folder)
    assert json.loads(run(own, "clean", "--json"))["backend"] == f"skipped: the backend {PLAIN} has no cleanup()"


def test_a_backend_that_fails_is_one_line(own: Cli, folder: Path) -> None:
    """6: an error that the backend raises is one line at the command line, not a traceback."""
    run(own, "task-store", "set", *ONE, "k", "1", "--create")
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_text("broken")
    assert "JSONDecodeError" in run(own, "task-store", "get", *ONE, "k", code=6)


DAG = """
import os, signal
from milepost.sdk import DAG, Asset, task

with DAG("own"):
    @task(retries=1, retry_delay=0, outlets=[Asset("orders")])
    def load(task_store=None, asset_store=None, ti=None):
        page = task_store.get("page", 0)
        task_store.set("page", page + 1)
        if ti.try_number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        asset_store.set("watermark", page)

    load()
"""


def test_the_runner_works(own: Cli, folder: Path) -> None:
    """A run whose attempt is killed resumes from the backend, which holds all entries; the metastore holds none."""
    file = own.home / "own.py"
    file.write_text(DAG)
    done = subprocess.run(
        [sys.executable, "-m", "milepost", "run", str(file), "--run-id", "r"],
        capture_output=True,
        text=True,
        env=own.environment,
        cwd=own.home,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = [
        json.loads(run(own, *command))
        for command in (("task-store", "get", "own", "r", "load", "page"), ("asset-store", "get", "orders", "watermark"))
    ]
    assert found == [2, 1]
    assert json.loads(run(own, "db", "stats", "--json"))["entries"] == 0
