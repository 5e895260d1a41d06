"""Rows of an export: what each kind holds, which rows are sound, and in which order they come."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from hashlib import blake2b
from types import TracebackType
from typing import Any, NamedTuple

from milepost.errors import InvalidKeyError, UnsupportedTypeError
from milepost.scopes import (
    MAX_ASSET_CHARS,
    MAX_ID_CHARS,
    MAX_KEY_CHARS,
    MAX_MAP_INDEX,
    AssetScope,
    TaskScope,
    check_text,
    key_text,
)

__all__ = ["FIELDS", "OWNER_DAMAGED", "Book", "Events", "malformed", "name_of"]

Row = tuple[Any, ...]


class _Text(NamedTuple):
    """A text without NUL: PostgreSQL holds none, and Milepost writes none."""

    limit: int = 1 << 40
    optional: bool = False


class _Name(NamedTuple):
    """A text by the rules of keys."""

    limit: int
    optional: bool = False


class _Number(NamedTuple):
    """A whole number that databases hold."""

    least: int = -(2**63)
    most: int = 2**63 - 1
    optional: bool = False


_ID = _Name(MAX_ID_CHARS)
_LONG = 16_000
"""Characters of a text column of MySQL, whatever they are."""
_TASK: dict[str, Any] = {"dag_id": _ID, "run_id": _ID, "task_id": _ID, "map_index": _Number(-1, MAX_MAP_INDEX)}
_ASSET: dict[str, Any] = {"name": _Name(MAX_ASSET_CHARS), "uri": _Name(MAX_ASSET_CHARS)}
_COUNT = _Number(0, MAX_MAP_INDEX)
_TIME = _Number()
_TIME_OR_NONE = _Number(optional=True)
_ENTRY: dict[str, Any] = {
    "key": _Name(MAX_KEY_CHARS),
    "encoding": _Number(),
    "version": _Text(64),
    "created_at": _TIME,
    "updated_at": _TIME,
    "expires_at": _TIME_OR_NONE,
    "default_day": _TIME_OR_NONE,
    "writer": _Text(_LONG),
    "value": _Text(),
}

FIELDS: dict[str, dict[str, Any]] = {
    "run": {
        "dag_id": _ID,
        "run_id": _ID,
        "incarnation": _Text(MAX_ID_CHARS, optional=True),
        "state": _Text(20, optional=True),
        "params": _Text(optional=True),
        "logical_date": _TIME_OR_NONE,
        "created_at": _TIME,
        "updated_at": _TIME,
    },
    "instance": {
        **_TASK,
        "fence": _Number(),
        "attempt": _Number(),
        "cleared_attempt": _Number(),
        "generation": _Number(),
        "state": _Text(20),
        "item": _Text(64, optional=True),
        "item_name": _Text(MAX_ASSET_CHARS, optional=True),
        "clear_on_success": _Number(optional=True),
        "on_clear": _Text(20, optional=True),
        "created_at": _TIME,
        "opened_at": _TIME_OR_NONE,
        "finished_at": _TIME_OR_NONE,
        "updated_at": _TIME,
    },
    "expansion": {"dag_id": _ID, "run_id": _ID, "task_id": _ID, "expansion": _Text(1_000)},
    "outcome": {
        **_TASK,
        "attempt": _Number(0),
        "state": _Text(20),
        "error": _Text(_LONG, optional=True),
        "at": _TIME,
    },
    "run_clear": {"dag_id": _ID, "run_id": _ID, "clears": _COUNT},
    "grant": {**_TASK, "max_tries": _COUNT},
    "asset": {**_ASSET, "active": _Number(0, 1), "created_at": _TIME, "updated_at": _TIME},
    "reference": {**_ASSET, "dag_id": _ID, "direction": _Text(10)},
    "alias": {**_ASSET, "alias": _Name(MAX_ASSET_CHARS)},
    "deactivation": {**_ASSET, "at": _TIME, "cause": _Text(20), "writer": _Text(_LONG)},
    "staged": {
        **_TASK,
        **_ASSET,
        "key": _Name(MAX_KEY_CHARS),
        "fence": _Number(),
        "mode": _Text(20),
        "encoding": _Number(),
        "version": _Text(64),
        "staged_at": _TIME,
        "writer": _Text(_LONG),
        "value": _Text(),
    },
    "task_entry": {**_TASK, **_ENTRY},
    "asset_entry": {**_ASSET, **_ENTRY},
    "change": {
        "number": _Number(1),
        "event": _Number(1, optional=True),
        **{name: rule._replace(optional=True) for name, rule in {**_TASK, **_ASSET}.items()},
        "at": _TIME,
        "kind": _Text(10),
        "cause": _Text(40),
        "scope": _Text(_LONG, optional=True),
        "writer": _Text(_LONG),
        "key": _Name(MAX_KEY_CHARS, optional=True),
        "new_version": _Text(64, optional=True),
        "encoding": _Number(optional=True),
        "version": _Text(64, optional=True),
        "created_at": _TIME_OR_NONE,
        "updated_at": _TIME_OR_NONE,
        "expires_at": _TIME_OR_NONE,
        "default_day": _TIME_OR_NONE,
        "old_writer": _Text(_LONG, optional=True),
        "value": _Text(optional=True),
    },
    "result": {**_TASK, "created_at": _TIME, "value": _Text()},
    "intent": {
        **_TASK,
        "key": _Name(MAX_KEY_CHARS),
        "submission": _Number(1),
        "generation": _Number(0),
        "token": _Text(64),
        "state": _Text(20),
        "job": _Text(64, optional=True),
        "params": _Text(optional=True),
        "version": _Text(64),
        "writer": _Text(_LONG),
        "created_at": _TIME,
        "updated_at": _TIME,
    },
    "replaced": {"run_hash": _Text(32), "incarnation": _Name(MAX_ID_CHARS), "replaced_at": _TIME},
}
"""The kinds of rows in their order, and the columns of each. Times are microseconds UTC.

``event`` of a change is the number of the row that heads its group; its own: the head has been collected.
"""

OWNER_DAMAGED = "what it belongs to is damaged"
_CHANGE = tuple(FIELDS["change"])
_CHANGE_KEY = _CHANGE.index("key")
_ORDER = {kind: place for place, kind in enumerate(FIELDS)}
_KEY = {kind: list(FIELDS[kind]).index("key") for kind in ("task_entry", "asset_entry", "intent")}
_OWNERS = {
    **dict.fromkeys(("expansion", "outcome", "run_clear"), 2),
    **dict.fromkeys(("task_entry", "result", "intent", "instance", "grant"), 4),
    "staged": 6,
}
"""Leading columns that name what a row belongs to, and that it cannot be without."""
_RULES = {kind: tuple(rules.items()) for kind, rules in FIELDS.items()}


def malformed(kind: str, row: Row) -> str | None:
    """Say what is wrong with a row in itself, or `None`."""
    if None in row[: _OWNERS.get(kind, 0)]:
        return "what it belongs to is gone"
    for (name, rule), cell in zip(_RULES[kind], row, strict=True):
        if cell is None and rule.optional:
            continue
        if type(rule) is _Number:
            if type(cell) is not int or not rule.least <= cell <= rule.most:
                return f"its {name} is {_shown(cell)}"
        elif type(cell) is not str:
            return f"its {name} is no text: {_shown(cell)}"
        elif type(rule) is _Text:
            if "\0" in cell or len(cell) > rule.limit:
                return f"its {name} has a NUL" if "\0" in cell else f"its {name} has {len(cell):,} characters"
        else:
            try:
                check_text(cell, name, rule.limit)
            except (InvalidKeyError, UnsupportedTypeError) as error:
                return str(error)
    if kind == "replaced":
        return None if len(row[0]) == 32 and not set(row[0]) - set("0123456789abcdef") else "its run_hash is none"
    if kind == "change" and ((None in row[2:6] and row[2:6] != (None,) * 4) or (row[6] is None) != (row[7] is None)):
        return "its owner is not whole"
    return None


def _shown(cell: Any) -> str:
    shown = repr(cell)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def name_of(kind: str, row: Row) -> tuple[str | None, str | None]:
    """Return owner and key of a row, however damaged, for people."""
    cells = dict(zip(FIELDS[kind], row, strict=True))
    names = [key_text(cells[name]) for name in ("dag_id", "run_id", "task_id") if cells.get(name) is not None]
    owner = "/".join(names)
    if names and cells.get("map_index", -1) not in (-1, None):
        owner += f"[{key_text(cells['map_index'])}]"
    if not names and cells.get("name") is not None:
        owner = key_text(cells["name"])
    if kind == "replaced":
        owner = f"the run with the hash {key_text(cells['run_hash'])}"
    key = cells.get("key")
    return owner or None, None if key is None else key_text(key)


class Events(OrderedDict[int, int]):
    """Numbers of changes that later ones refer to, by the numbers they have elsewhere. It forgets the oldest.

    A group is written in one transaction, so that what others write in between is little.
    """

    MOST = 100_000

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __setitem__(self, number: int, value: int) -> None:
        super().__setitem__(number, value)
        if len(self) > self.MOST:
            self.popitem(last=False)

    def renumber(self, row: Row) -> Row:
        """Return the next change of a store with the numbers of a file, counted from 1."""
        self.count += 1
        event = row[1]
        if event is None:
            if row[_CHANGE_KEY] is None:
                self[row[0]] = self.count
        else:
            if event not in self:  # its head has been collected, or was damaged: the first row that is left stands for it
                self[event] = self.count
            event = self[event]
        return (self.count, event, *row[2:])

    def follows(self, row: Row) -> bool:
        """Tell whether the numbers of the next change of a file are in order."""
        self.count += 1
        number, event = row[:2]
        if event == number or (event is None and row[_CHANGE_KEY] is None):
            self[number] = number
        return number == self.count and (event is None or event in self)


class Book:
    """Knows which owners came before, in a temporary database on disk, and which row may come next."""

    def __init__(self) -> None:
        self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._seen.execute("CREATE TABLE seen (hash BLOB PRIMARY KEY, place INTEGER NOT NULL) WITHOUT ROWID")
        self._seen.execute("BEGIN")
        self._count = 0
        self._kind = 0
        self._last: tuple[Any, ...] = ()
        self._owner: tuple[Row, int | None] = ((), None)

    def __enter__(self) -> Book:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._seen.close()

    @staticmethod
    def _hash(*names: Any) -> bytes:
        return blake2b(json.dumps(names).encode(), digest_size=16).digest()

    def _add(self, names: Row, *, damaged: bool = False) -> bool:
        self._count += 1
        place = -1 if damaged else self._count
        known = self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (self._hash(*names), place)).rowcount
        return known == 1

    def _place_of(self, names: Row) -> int | None:
        """Return the place of an owner; -1: it is damaged; `None`: it did not come before."""
        if names != self._owner[0]:
            found = self._seen.execute("SELECT place FROM seen WHERE hash = ?", (self._hash(*names),)).fetchone()
            self._owner = (names, None if found is None else found[0])
        return self._owner[1]

    def mark_damaged(self, kind: str, row: Row) -> None:
        """Remember that a run, an instance or an asset is missing."""
        width = {"run": 2, "instance": 4, "asset": 2}.get(kind)
        if width is not None and all(isinstance(cell, str | int) for cell in row[:width]):
            self._add((kind, *row[:width]), damaged=True)

    def place(self, kind: str, row: Row) -> str | None:
        """Give a sound row its place, or say why it has none."""
        if _ORDER[kind] != self._kind:
            if _ORDER[kind] < self._kind:
                return f"a line of type {kind!r} is out of order"
            self._kind, self._last, self._owner = _ORDER[kind], (), ((), None)
        if kind in ("run", "asset"):
            return None if self._add((kind, *row[:2])) else f"the {kind} {_named(kind, row)} is there twice"
        if kind == "instance":
            return self._instance(row)
        if kind in ("expansion", "outcome", "run_clear"):
            return self._of_run(row)
        if kind in ("reference", "alias", "deactivation"):
            return self._of_asset(row)
        if kind == "staged":
            return self._staged(row)
        if kind == "replaced":
            return self._in_order(tuple(row[:2]))
        return self._owned(kind, row)

    def _instance(self, row: Row) -> str | None:
        place = self._place_of(("run", *row[:2]))
        if place is None:
            return f"the run of {_named('instance', row)} does not come before it"
        if place < 0:
            self.mark_damaged("instance", row)
            return OWNER_DAMAGED
        return None if self._add(("instance", *row[:4])) else f"the instance {_named('instance', row)} is there twice"

    def _of_run(self, row: Row) -> str | None:
        """Place a row that says something about a task of a run; there may be no instance of it."""
        place = self._place_of(("run", *row[:2]))
        if place is None:
            return f"{_named('run', row)}, which it belongs to, does not come before it"
        return OWNER_DAMAGED if place < 0 else self._in_order((place, *row[2:5]))

    def _of_asset(self, row: Row) -> str | None:
        """Place a row that says something about an asset."""
        place = self._place_of(("asset", *row[:2]))
        if place is None:
            return f"{_named('asset', row)}, which it belongs to, does not come before it"
        return OWNER_DAMAGED if place < 0 else self._in_order((place, *row[2:4]))

    def _staged(self, row: Row) -> str | None:
        places = []
        for names in (("instance", *row[:4]), ("asset", *row[4:6])):
            place = self._place_of(names)
            if place is None:
                return f"{_named(names[0], names[1:])}, which it belongs to, does not come before it"
            places.append(place)
        return OWNER_DAMAGED if min(places) < 0 else self._in_order((*places, row[6]))

    def _owned(self, kind: str, row: Row) -> str | None:
        shift = 2 if kind == "change" else 0
        names: Row | None = None
        if kind == "asset_entry" or (kind == "change" and row[6] is not None):
            names = ("asset", *row[6:8]) if kind == "change" else ("asset", *row[:2])
        elif row[shift] is not None:
            names = ("instance", *row[shift : shift + 4])
        if names is None:
            return None
        place = self._place_of(names)
        if place is None:
            return f"{_named(names[0], names[1:])}, which it belongs to, does not come before it"
        if place < 0:
            return OWNER_DAMAGED
        if kind == "change":
            return None
        return self._in_order((place, row[_KEY[kind]]) if kind in _KEY else (place,))

    def _in_order(self, at: Row) -> str | None:
        if at <= self._last:
            return "rows are out of order"
        self._last = at
        return None


def _named(kind: str, row: Row) -> str:
    if kind == "run":
        return f"{row[0]}/{row[1]}"
    return str(TaskScope(*row[:4]) if kind == "instance" else AssetScope(None, row[0], row[1]))
