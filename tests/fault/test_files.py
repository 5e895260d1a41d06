"""Files that are not ours, not whole, not readable, or half made; disks that are full."""

from __future__ import annotations

import hashlib
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import milepost
from milepost import MilepostError
from milepost.errors import DamagedStoreError, SchemaTooNewError, StoreUnreachableError
from tests.fault.helpers import SCOPE, Child, results, url


def made(path: Path, keys: int = 200) -> None:
    """Make a store with some values in it and nothing left in its log."""
    with milepost.connect(url(path)) as store:
        store.task_store(SCOPE).set_many({f"k{number}": "x" * 500 for number in range(keys)})


def files(folder: Path) -> dict[str, str]:
    """Return the names of all files in a folder with a digest of each."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def edited(path: Path, *statements: str) -> None:
    """Run SQL on a file as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_store_of_a_newer_release_is_refused_and_stays_as_it_is(path: Path) -> None:
    """A newer schema raises `SchemaTooNewError` and not a byte of the file changes."""
    made(path)
    edited(path, "PRAGMA user_version = 9999", "PRAGMA journal_mode = DELETE")
    before = files(path.parent)
    with pytest.raises(SchemaTooNewError, match="upgrade Milepost"):
        milepost.connect(url(path))
    assert files(path.parent) == before


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("statements", [("CREATE TABLE bills (id)",), ("PRAGMA application_id = 77",)], ids=["tables", "id"])
def test_another_applications_database_is_refused_and_stays_as_it_is(
    mode: str, statements: tuple[str, ...], path: Path
) -> None:
    """A SQLite file of another program raises `DamagedStoreError` and not a byte changes, nor its journal mode."""
    edited(path, f"PRAGMA journal_mode = {mode}", *statements)
    before = files(path.parent)
    with pytest.raises(DamagedStoreError, match="something else"):
        milepost.connect(url(path))
    assert files(path.parent) == before


@pytest.mark.parametrize("content", [b"id,name\n1,one\n", b"x" * 5000, b"SQLite format 3\0" + b"\1" * 5000])
def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(content: bytes, path: Path) -> None:
    """A text file and the like raise `DamagedStoreError` and keep their bytes."""
    path.write_bytes(content)
    before = files(path.parent)
    with pytest.raises(DamagedStoreError, match="not a Milepost store"):
        milepost.connect(url(path))
    assert files(path.parent) == before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """A file without content, as a temporary-file helper leaves it, is as good as none."""
    path.touch()
    made(path)
    with milepost.connect(url(path)) as store:
        store.verify()
        assert len(store.task_store(SCOPE)) == 200


@pytest.mark.parametrize("name", ["/dev/null/x.db", "{folder}", "{file}/x.db", "{folder}/" + "n" * 300, "/proc/x/y.db"])
def test_a_place_where_no_file_can_be_is_a_clear_error(name: str, tmp_path: Path) -> None:
    """A folder, a path below a file, a name that is too long: `StoreUnreachableError` with the path in it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    name = name.format(folder=tmp_path / "folder", file=tmp_path / "file")
    with pytest.raises(StoreUnreachableError) as caught:
        milepost.connect(f"sqlite:///{name}")
    assert name in str(caught.value)


@pytest.mark.parametrize("seed", range(12))
def test_a_corrupted_file_gives_our_own_errors_only(seed: int, path: Path) -> None:
    """With pages overwritten or cut off, each call gives what was stored or raises an error of ours; `verify` tells."""
    made(path, 2000)
    rng = random.Random(seed)
    size = path.stat().st_size
    opened = milepost.connect(url(path)) if seed % 3 == 0 else None  # before the damage
    with path.open("r+b") as file:
        if seed % 2:
            file.truncate(rng.randrange(4096, size - 4096))
        else:
            for _ in range(40):
                file.seek(rng.randrange(100, size - 2000))
                file.write(rng.randbytes(2000))
    told = []
    try:
        store = opened or milepost.connect(url(path))
    except MilepostError as error:
        assert type(error) is DamagedStoreError  # noqa: PT017
        return
    with store:
        with pytest.raises(DamagedStoreError):
            store.verify()
        task = store.task_store(SCOPE)
        calls: list[Callable[[], object]] = [
            *(
                lambda key=f"k{number}": task.get(key) in ("x" * 500, None) or told.append(key)
                for number in range(0, 2000, 50)
            ),
            task.items,
            task.keys,
            lambda: len(task),
            lambda: task.entry("k1"),
            lambda: task.set("k1", 1),
            lambda: task.set_many({"k1": 1, "new": 2}),
            lambda: task.increment("new"),
            lambda: task.delete("k2"),
            lambda: store.asset_store(milepost.Asset("a")).set("n", 1),
            lambda: store.instances.open(SCOPE, 1),
            store.instances.list,
            store.clean,
            task.clear,
        ]
        for call in calls:
            try:
                call()
            except MilepostError:
                continue
        engine = store.metastore.engine
        assert engine._opened == len(engine._idle), "a connection was lost"
    assert told == [], "a value was read that nobody wrote"


def test_a_full_disk_changes_nothing_and_the_store_goes_on_afterwards(path: Path) -> None:
    """Where a file cannot grow a write raises `StoreError`; old values stay and the same store works once there is room."""
    lines = results("full_disk", path)
    assert lines == ["StoreUnreachableError", *(f"{number} StoreUnreachableError" for number in range(5)), "done"]


def test_a_first_start_killed_at_any_moment_can_be_repeated(start: Callable[..., Child], tmp_path: Path) -> None:
    """SIGKILL at 50 random moments of the first `connect` leaves a file that the next one opens and that is whole."""
    rng = random.Random(50)
    outcomes = set()
    length = 0.0
    for repeat in range(51):
        path = tmp_path / f"{repeat}.db"
        child = start("first_start", path)
        child.expect("up")
        began = time.monotonic()
        child.say("go")
        if repeat == 0:  # the one that is not killed shows how long it takes
            child.expect("done")
            length = time.monotonic() - began
            child.finish()
            continue
        time.sleep(rng.random() * length * 1.2)  # this is the random moment, not a wait for something
        acknowledged = child.kill() == ["done"]
        outcomes.add((path.exists() and path.stat().st_size > 0, acknowledged))
        with milepost.connect(url(path)) as store:
            store.verify()
            task = store.task_store(SCOPE)
            assert task.get("n") in ((1,) if acknowledged else (1, None))
            task.set("n", 2)
            assert task.get("n") == 2
    assert len(outcomes) > 1, "all kills came at the same stage"
