"""The other libraries, each as a pair of calls on the sample: set and get."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import diskcache
import lmdb
import sqlitedict

from benchmarks.harness import KEYS, VALUE, Call

__all__ = ["Peer", "disk_cache", "lightning", "raw_sqlite", "sqlite_dict"]


class Peer(NamedTuple):
    """A library with the sample in it."""

    set: Call
    get: Call


def _key(number: int) -> str:
    return KEYS[number % len(KEYS)]


def _filled(peer: Peer) -> Peer:
    for number in range(len(KEYS)):
        peer.set(number)
    assert peer.get(0) == VALUE
    return peer


@contextmanager
def disk_cache(folder: Path) -> Iterator[Peer]:
    """Open diskcache as it comes: WAL, synchronous=NORMAL, memory-mapped, pickle."""
    with diskcache.Cache(str(folder / "diskcache")) as cache:
        yield _filled(Peer(lambda number: cache.set(_key(number), VALUE), lambda number: cache.get(_key(number))))


_CREATE = """
CREATE TABLE state (
    dag TEXT, run TEXT, task TEXT, position TEXT, name TEXT, value TEXT, version INTEGER, updated REAL, expires REAL,
    PRIMARY KEY (dag, run, task, position, name)
) WITHOUT ROWID
"""
_SET = """
INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, 1, ?, NULL)
ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, updated = excluded.updated
RETURNING version
"""
_GET = "SELECT value, expires FROM state WHERE dag = ? AND run = ? AND task = ? AND position = ? AND name = ?"


@contextmanager
def raw_sqlite(folder: Path, synchronous: str) -> Iterator[Peer]:
    """Open the table that one would write by hand: one statement per call, no fence, no checks of key or value."""
    with closing(sqlite3.connect(folder / f"raw-{synchronous}.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(_CREATE)
        owner = ("bench", "run", "task", "-1")

        def put(number: int) -> object:
            row = (*owner, _key(number), json.dumps(VALUE), time.time())
            return connection.execute(_SET, row).fetchone()

        def get(number: int) -> object:
            value, expires = connection.execute(_GET, (*owner, _key(number))).fetchone()
            return json.loads(value) if expires is None or expires > time.time() else None

        yield _filled(Peer(put, get))


@contextmanager
def lightning(folder: Path) -> Iterator[Peer]:
    """Open LMDB as it comes: a sync per transaction."""
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 26) as environment:

        def put(number: int) -> object:
            with environment.begin(write=True) as transaction:
                return transaction.put(_key(number).encode(), json.dumps(VALUE).encode())

        def get(number: int) -> object:
            with environment.begin() as transaction:
                return json.loads(transaction.get(_key(number).encode()))

        yield _filled(Peer(put, get))


@contextmanager
def sqlite_dict(folder: Path) -> Iterator[Peer]:
    """Open sqlitedict with a commit per call, in WAL mode."""
    with sqlitedict.SqliteDict(str(folder / "sqlitedict.db"), autocommit=True, journal_mode="WAL") as mapping:

        def put(number: int) -> None:
            mapping[_key(number)] = VALUE

        yield _filled(Peer(put, lambda number: mapping[_key(number)]))
