"""Moves state between Airflow 3.3's own tables and a store, both ways: looked at as a whole first, compared afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from milepost import calls
from milepost.accessors import AssetStoreAccessor, TaskStoreAccessor
from milepost.airflow import compat
from milepost.airflow.native import NativeRow, NativeTables
from milepost.airflow.records import Records, reading
from milepost.assets import Asset
from milepost.clock import from_micros, to_micros
from milepost.entry import Writer
from milepost.errors import ConflictError, InvalidValueError
from milepost.job_records import OPEN
from milepost.retention import NEVER, NEVER_EXPIRE
from milepost.scopes import AssetScope, TaskScope, check_key
from milepost.store import Store
from milepost.transfer import pages
from milepost.transfer.rows import FIELDS, malformed
from milepost.values import decode, encode, loads_strict

__all__ = ["MoveReport", "export", "import_"]

_PAGE = 500
_REFERENCE = "__airflow_state_ref__"
"""What Airflow wraps around a reference to a value that a worker-side backend of its own keeps."""

_CUT_OFF = (
    "an attempt was cut off while it submitted this job, so that its id is not known; look for the job with the token {}: "
    "store its id (milepost task-store set), or delete the key (milepost task-store delete)"
)
_NO_LIMIT = 0
_CLI = Writer("cli")
_MISSING = "-"
_MOMENT = timedelta(seconds=1)
Owner = TaskScope | AssetScope


@dataclass
class MoveReport:
    """What was moved, or with ``dry_run`` would be.

    Args:
        dry_run: Whether nothing was written.
        task_keys: Keys of task instances that were written.
        asset_keys: Keys of assets that were written.
        same: Keys that were there already, with the same value.
        replaced: Of the written ones, those that had another value: each ``OWNER KEY``.
        expired: Keys whose time has passed; they stay behind.
        left: Keys that stay behind, ``OWNER KEY`` with the reason.
        sha256: Over all that is on both sides now: owners, keys and values.
    """

    dry_run: bool
    task_keys: int = 0
    asset_keys: int = 0
    same: int = 0
    replaced: list[str] = field(default_factory=list)
    expired: int = 0
    left: dict[str, str] = field(default_factory=dict)
    sha256: str = ""

    def count(self, row: NativeRow, there: str | None) -> None:
        """Count a key, given what the other side has."""
        if there == _compact(row.text):
            self.same += 1
            return
        if there is not None:
            self.replaced.append(_name(row))
        if isinstance(row.owner, TaskScope):
            self.task_keys += 1
        else:
            self.asset_keys += 1


def _name(row: NativeRow) -> str:
    return f"{row.owner} {row.key!r}"


class _Digest:
    """Counts and checksum of keys in their order."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = hashlib.sha256()

    def add(self, row: NativeRow, text: str | None = None) -> None:
        """Add a key with its own value, or with the one that was found on the other side."""
        self.count += 1
        self._sum.update(json.dumps([str(row.owner), row.key, text or _compact(row.text)]).encode() + b"\n")

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()


def _refuse(report: MoveReport, *, force: bool, skip: bool) -> None:
    """Refuse as a whole what may not be moved as it is."""
    if report.left and not skip:
        name, reason = next(iter(report.left.items()))
        more = f" (and {len(report.left) - 1} more)" if len(report.left) > 1 else ""
        raise InvalidValueError(f"{name} cannot be moved: {reason}{more}; --skip leaves such keys behind")
    if report.replaced and not force:
        more = f" and {len(report.replaced) - 1} more" if len(report.replaced) > 1 else ""
        raise ConflictError(
            f"{report.replaced[0]}{more} have another value on the other side; nothing was written. --force writes over them"
        )


def _verify(read: _Digest, found: _Digest) -> str:
    if (read.count, read.sha256) != (found.count, found.sha256):
        raise ConflictError("what was moved does not read back as it was: something else wrote meanwhile; move again")
    return read.sha256


# -- out of Airflow -------------------------------------------------------------------------------------------------------


def import_(
    store: Store, *, dag_id: str | None = None, dry_run: bool = False, force: bool = False, skip: bool = False
) -> MoveReport:
    """Copy what Airflow's own tables hold into a store. They stay as they are.

    Args:
        store: The store.
        dag_id: Only the task state of this DAG, and no asset state.
        dry_run: Write nothing.
        force: Write over keys that have another value.
        skip: Leave behind what cannot be moved.

    Raises:
        ConflictError: A key has another value, and ``force`` is not set; nothing was written. Or, afterwards: the store does
            not hold what was read.
        InvalidValueError: Something cannot be moved, and ``skip`` is not set; nothing was written.
        ConfigurationError: This version of Airflow has no such tables.
        StoreUnreachableError: Airflow's database, or the store, cannot be reached.
    """
    report = MoveReport(dry_run)
    now = datetime.now(timezone.utc)
    with reading() as records:
        native = NativeTables(records.session)
        for row in _sound(native, dag_id, now, store, report):
            report.count(row, _text_in(store, row))
        if dry_run:
            return report
        _refuse(report, force=force, skip=skip)
        read, found = _Digest(), _Digest()
        for row in _sound(native, dag_id, now, store, MoveReport(dry_run)):
            read.add(row)
            if _text_in(store, row) != _compact(row.text):
                _write(store, row)
            found.add(row, _text_in(store, row) or _MISSING)
    report.sha256 = _verify(read, found)
    return report


def _sound(native: NativeTables, dag_id: str | None, now: datetime, store: Store, report: MoveReport) -> Iterator[NativeRow]:
    """Give the keys that can be moved, and note the others."""
    for row in native.rows(dag_id):
        if row.expires_at is not None and row.expires_at <= now:
            report.expired += 1
        elif reason := _unsound(row, store.settings.max_value_bytes) or _closed(store, row.owner):
            report.left[_name(row)] = reason
        else:
            yield row


def _unsound(row: NativeRow, limit: int) -> str | None:
    try:
        check_key(row.key)
        value = loads_strict(row.text)
        encode(value, limit)
    except ValueError as error:
        return str(error)
    if isinstance(value, dict) and _REFERENCE in value:
        return "a worker-side backend of Airflow keeps its value ([workers] state_store_backend)"
    return None


def _closed(store: Store, owner: Owner) -> str | None:
    try:
        record = None if isinstance(owner, TaskScope) else store.assets.get(owner)
    except InvalidValueError as error:  # it fits two
        return str(error)
    return None if record is None or record.active else "the asset is deactivated in the store"


def _compact(text: str) -> str:
    """Return JSON as a store writes it: equal values of equal types have equal texts."""
    return encode(loads_strict(text), _NO_LIMIT)


def _accessor(store: Store, owner: Owner) -> TaskStoreAccessor | AssetStoreAccessor | None:
    if isinstance(owner, TaskScope):
        return store.task_store(owner)
    return None if store.assets.get(owner) is None else store.asset_store(owner)


def _text_in(store: Store, row: NativeRow) -> str | None:
    """Return the value that a store has, as JSON; `None` if it has none."""
    accessor = _accessor(store, row.owner)
    value = None if accessor is None else accessor.get(row.key)
    return None if value is None else encode(value, _NO_LIMIT)


def _write(store: Store, row: NativeRow) -> None:
    limit = store.settings.max_value_bytes
    value = loads_strict(row.text)
    if isinstance(row.owner, AssetScope):
        known = store.assets.register(Asset(row.owner.name, row.owner.uri))
        handle = calls.Handle(known.scope, (row.writer or _CLI).encode(), owner_id=known.id)
        AssetStoreAccessor(store.metastore, handle, limit).set(row.key, value)
        return
    accessor = store.task_store(row.owner)
    if row.expires_at is None:
        accessor.set(row.key, value, retention=NEVER_EXPIRE)
        return
    # Records the instance, if need be; the instant itself is for edits only.
    accessor.set_default(row.key, value, retention=max(row.expires_at - datetime.now(timezone.utc), _MOMENT))
    item = calls.Item(row.key, encode(value, limit), calls.PLAIN, calls.new_version())
    handle = calls.Handle(row.owner, _CLI.encode(row.owner), logged=True)
    store.metastore.call(calls.Edit(handle, item, NEVER, expires_at=to_micros(row.expires_at)))


# -- into Airflow ---------------------------------------------------------------------------------------------------------


def export(
    store: Store, *, dag_id: str | None = None, dry_run: bool = False, force: bool = False, skip: bool = False
) -> MoveReport:
    """Copy what a store holds into Airflow's own tables, in one transaction. It stays as it is.

    Keys under the default retention get the expiry that Airflow would give them now. Runs and assets that Airflow does not
    have are left.

    Args:
        store: The store.
        dag_id: Only the task state of this DAG, and no asset state.
        dry_run: Write nothing.
        force: Write over keys that have another value.
        skip: Leave behind what cannot be moved.

    Raises:
        ConflictError: As in `import_`.
        InvalidValueError: As in `import_`.
        ConfigurationError: As in `import_`.
        StoreUnreachableError: As in `import_`.
    """
    report = MoveReport(dry_run)
    with reading() as records:
        native = NativeTables(records.session)
        default = compat.native_retention()
        for row in _held(store, records, native, dag_id, default, report):
            report.count(row, _there(native, row))
        if dry_run:
            return report
        _refuse(report, force=force, skip=skip)
        read, found = _Digest(), _Digest()
        for row in _held(store, records, native, dag_id, default, MoveReport(dry_run)):
            read.add(row)
            if _there(native, row) != _compact(row.text):
                native.put(row)
            found.add(row, _there(native, row) or _MISSING)
        report.sha256 = _verify(read, found)
    return report


def _there(native: NativeTables, row: NativeRow) -> str | None:
    text = native.text(row.owner, row.key)
    return None if text is None else _compact(text)


def _held(
    store: Store,
    records: Records,
    native: NativeTables,
    dag_id: str | None,
    default: timedelta | None,
    report: MoveReport,
) -> Iterator[NativeRow]:
    """Give the keys of a store that Airflow has a place for, and note the others."""
    recorded = store.instances.list(dag_id)
    tasks = sorted({(one.scope.dag_id, one.scope.run_id, one.scope.task_id) for one in recorded if one.damaged is None})
    there = records.runs_there({task[:2] for task in tasks})
    for task in tasks:
        for index, row in _pages(store, TaskScope(*task)):
            owner = TaskScope(*task, index)
            if task[:2] in there:
                yield from _native(owner, row, report, _expiry(row, default))
            else:
                report.left[f"{owner} {row.key!r}"] = "Airflow has no such run"
    _note_cut_off(store, set(tasks), there, report)
    if dag_id is None:
        for asset in store.assets.list(active=True):
            known = native.asset_id(asset.scope) is not None
            for _, row in _pages(store, AssetScope(asset.id)):
                if known:
                    yield from _native(AssetScope(name=asset.name, uri=asset.uri), row, report, None)
                else:
                    report.left[f"{asset.scope} {row.key!r}"] = "Airflow has no such asset"


def _note_cut_off(store: Store, tasks: set[tuple[str, str, str]], there: set[tuple[str, str]], report: MoveReport) -> None:
    """Note the jobs that were being submitted when an attempt was cut off: Airflow has no place for what has no id."""
    for row in pages(store.metastore, "intent"):
        intent = dict(zip(FIELDS["intent"], row, strict=True))
        task = (intent["dag_id"], intent["run_id"], intent["task_id"])
        if malformed("intent", row) or intent["state"] != OPEN or task not in tasks or task[:2] not in there:
            continue
        owner = TaskScope(*task, intent["map_index"])
        if intent["key"] not in store.task_store(owner):  # nobody has found its job and stored the id
            report.left[f"{owner} {intent['key']!r}"] = _CUT_OFF.format(intent["token"])


def _pages(store: Store, scope: Owner) -> Iterator[tuple[int, calls.Stored]]:
    """Give the live rows of all instances of a task, or of an asset."""
    index, after = -1, None
    while True:
        page = store.metastore.call(calls.EntryPage(scope, None, "", index, after, 0, _PAGE, counted=False)).rows
        yield from page
        if len(page) < _PAGE:
            return
        index, after = page[-1].map_index, str(page[-1].row.key)


def _expiry(row: calls.Stored, default: timedelta | None) -> datetime | None:
    if row.expires_at is not None:
        return from_micros(row.expires_at)
    if row.default_day is None or default is None:
        return None
    return datetime.now(timezone.utc) + default


def _native(owner: Owner, row: calls.Stored, report: MoveReport, expires_at: datetime | None) -> Iterator[NativeRow]:
    try:
        text = json.dumps(decode(row.value))
        written = Writer.decode(row.writer, owner if isinstance(owner, TaskScope) else None)
    except (ValueError, TypeError) as error:
        report.left[f"{owner} {row.key!r}"] = f"it is damaged ({error})"
    else:
        yield NativeRow(owner, row.key, text, expires_at, written)
