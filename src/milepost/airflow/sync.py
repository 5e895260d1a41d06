"""Brings a store in line with Airflow's records: collects what was deleted there, records which assets its DAGs refer to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from milepost.airflow import compat
from milepost.airflow.records import DagState, Records, Reference, reading
from milepost.asset_records import AssetChanges, AssetRecord, Direction
from milepost.calls import InstancePage, RunPage
from milepost.entry import InstanceState
from milepost.errors import (
    ConflictError,
    InstanceNotFoundError,
    InstanceStateError,
    InvalidValueError,
    NotFoundError,
    RunNotFoundError,
    StaleAttemptError,
    UnsupportedTypeError,
)
from milepost.run_records import InstanceRecord, RunRecord
from milepost.scopes import AssetScope
from milepost.store import Store

__all__ = ["SyncReport", "sync"]

_PAGE = 500
_DAGS_AT_ONCE = 100


@dataclass
class SyncReport:
    """What was done, or with ``dry_run`` would be.

    Args:
        dry_run: Whether nothing was changed.
        runs: Runs that Airflow no longer has, each ``DAG/RUN``; their task state was removed.
        instances: How many task instances these had.
        ended: Attempts that Airflow's record shows as ended, each ``DAG/RUN/TASK`` (and the map index): they are now.
        dags: DAGs whose references to assets were recorded anew.
        gone: Those of them that count as gone from Airflow.
        added: Assets that were recorded for the first time.
        activated: Assets that are active again.
        deactivated: Assets that no DAG refers to any more.
        attached: Assets that an alias stands for by now, each ``ALIAS: ASSET``.
        left: DAGs that were left as they are, and why.
    """

    dry_run: bool
    runs: list[str] = field(default_factory=list)
    instances: int = 0
    ended: list[str] = field(default_factory=list)
    dags: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    activated: list[str] = field(default_factory=list)
    deactivated: list[str] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def note(self, changes: AssetChanges) -> None:
        """Add what declaring assets changed."""
        for name in ("added", "activated", "deactivated"):
            getattr(self, name).extend(map(str, getattr(changes, name)))


def sync(store: Store, *, dry_run: bool = False, force: bool = False) -> SyncReport:
    """Bring a store in line with Airflow's metadata database.

    The database is read to the end before anything is changed.

    * The state of runs that the plugin recorded and that Airflow no longer has is removed. Runs that were recorded
      otherwise stay.
    * Attempts that are open here and have ended there are ended: their process was killed, or a person marked the task.
    * The assets that active DAGs refer to are recorded as theirs. A DAG counts as gone if Airflow has no record of it and
      the store no runs of it but Airflow's, or if it is not active, was last parsed more than ``orphan_grace_hours`` ago,
      and its file can be parsed. Any other DAG keeps its assets.

    Args:
        store: The store.
        dry_run: Change nothing.
        force: Believe a database that knows none of the runs, or none of the DAGs, of the store.

    Raises:
        MissingDependencyError: Airflow is not installed here.
        StoreUnreachableError: Airflow's database, or the store, cannot be reached.
        ConflictError: Airflow's database knows nothing of what the store holds.
    """
    report = SyncReport(dry_run)
    # The store first: what it has recorded was in Airflow before.
    ours, others = _recorded(store)
    opened = _open_attempts(store, ours)
    held = store.assets.list()
    with reading() as records:
        there = records.runs_there((one.dag_id, one.run_id) for one in ours)
        dags = records.dags()
        if not force:
            _check(ours, there, held, dags)
        lost = list(_lost(records, {run: opened[run] for run in opened.keys() & there}))
        wanted = dict(_wanted(records, dags, held, others, store.settings.orphan_grace_hours, report))
        aliases = records.aliases()
    _collect(store, [one for one in ours if (one.dag_id, one.run_id) not in there], report)
    for one, state in lost:
        _end(store, one, state, report)
    _declare(store, wanted, held, report)
    _attach(store, aliases, report)
    return report


def _recorded(store: Store) -> tuple[list[RunRecord], set[str]]:
    """Return the runs that the plugin recorded, and the DAGs of the others."""
    ours: list[RunRecord] = []
    others: set[str] = set()
    before: int | None = None
    while page := store.metastore.call(RunPage(None, None, "", before, _PAGE)):
        before = page[-1].number
        for _, record in page:
            # A runner's run has a state; one that was recorded by hand has no incarnation.
            if record.damaged is None and record.state is None and compat.is_incarnation(record.incarnation):
                ours.append(record)
            else:
                others.add(record.dag_id)
    return ours, others


def _check(
    ours: list[RunRecord], there: set[tuple[str, str]], held: list[AssetRecord], dags: Mapping[str, DagState]
) -> None:
    """Refuse a database that is probably not the one that the store belongs to."""
    referring = {reference.dag_id for one in held for reference in one.references}
    for count, what, known in ((len(ours), "runs", there), (len(referring), "DAGs", referring & dags.keys())):
        if count and not known:
            raise ConflictError(
                f"Airflow's metadata database knows none of the {count} {what} in this store, so it may be another "
                "Airflow's; nothing was changed. See [database] sql_alchemy_conn, or say --force"
            )


# -- runs -----------------------------------------------------------------------------------------------------------------


def _collect(store: Store, gone: Iterable[RunRecord], report: SyncReport) -> None:
    for one in gone:
        if report.dry_run:
            count = _instances(store, one)
        else:
            try:
                count = store.instances.delete_run(one.dag_id, one.run_id, incarnation=one.incarnation)
            except (RunNotFoundError, StaleAttemptError):
                continue  # somebody else was faster, or it was made anew just now
        report.runs.append(f"{one.dag_id}/{one.run_id}")
        report.instances += count


def _instances(store: Store, run: RunRecord) -> int:
    """Count the instances of a run; by pages, which an index gives."""
    count, task, index = 0, "", -2
    while True:
        page = store.metastore.call(InstancePage(run.dag_id, run.run_id, None, None, task, index, _PAGE))
        count += len(page)
        if len(page) < _PAGE:
            return count
        task, index = page[-1].scope.task_id, page[-1].scope.map_index


# -- attempts -------------------------------------------------------------------------------------------------------------


def _open_attempts(store: Store, ours: list[RunRecord]) -> dict[tuple[str, str], list[InstanceRecord]]:
    """Return the attempts that are open, of runs that the plugin recorded, by run."""
    runs = {(one.dag_id, one.run_id) for one in ours}
    found: dict[tuple[str, str], list[InstanceRecord]] = defaultdict(list)
    states: tuple[InstanceState, ...] = ("running", "deferred", "up_for_retry")
    for state in states:
        for one in store.instances.list(state=state):
            if one.damaged is None and (run := (one.scope.dag_id, one.scope.run_id)) in runs:
                found[run].append(one)
    return found


def _lost(
    records: Records, opened: Mapping[tuple[str, str], list[InstanceRecord]]
) -> Iterator[tuple[InstanceRecord, InstanceState]]:
    """Give the attempts that have ended in Airflow, and how they are to end here."""
    for run, some in opened.items():
        ended = records.ended(*run, {(one.scope.task_id, one.scope.map_index): one.attempt for one in some})
        for one in some:
            state = ended.get((one.scope.task_id, one.scope.map_index))
            if state == "skipped":
                yield one, "skipped"
            elif state == "success" and one.state != "running":  # its trigger may have ended it, or a person
                yield one, "success"
            elif state is not None:  # what was staged by code that did not return is not to be seen
                yield one, "failed"


def _end(store: Store, one: InstanceRecord, state: InstanceState, report: SyncReport) -> None:
    if not report.dry_run:
        reason = "it did not record its end; Airflow has it as ended"
        try:
            store.instances.finish(one.scope, one.attempt, state, incarnation=one.incarnation, error=reason)
        except (StaleAttemptError, InstanceStateError, InstanceNotFoundError):
            return  # it went on, or ended, just now
        except (NotFoundError, ConflictError, UnsupportedTypeError) as error:  # what it staged cannot be written
            report.left[str(one.scope)] = str(error)
            return
    report.ended.append(str(one.scope))


# -- assets ---------------------------------------------------------------------------------------------------------------


def _wanted(
    records: Records,
    dags: Mapping[str, DagState],
    held: list[AssetRecord],
    others: set[str],
    grace_hours: int,
    report: SyncReport,
) -> Iterator[tuple[str, set[Reference]]]:
    """Give the DAGs whose references are known, each with them."""
    referring = {reference.dag_id for one in held for reference in one.references}
    for dag_id, state in dags.items():
        if state.active:
            try:
                found = records.references(dag_id)
            except ValueError as error:
                report.left[dag_id] = str(error)
            else:
                if found is not None:
                    yield dag_id, found
        elif dag_id in referring:
            if reason := _may_return(state, grace_hours):
                report.left[dag_id] = reason
            else:
                report.gone.append(dag_id)
                yield dag_id, set()
    for dag_id in sorted(referring - dags.keys()):
        if dag_id in others:
            report.left[dag_id] = "Airflow does not know it, and it has runs that are not Airflow's"
        else:
            report.gone.append(dag_id)
            yield dag_id, set()


def _may_return(state: DagState, grace_hours: int) -> str | None:
    """Say why a DAG that is not active does not count as gone; `None` if it does."""
    if state.broken:
        return "its file cannot be parsed"
    if state.parsed_at is None or datetime.now(timezone.utc) - state.parsed_at < timedelta(hours=grace_hours):
        return "it is not active in Airflow, but was less than orphan_grace_hours ago"
    return None


class _Known:
    """Finds assets among those that a store had."""

    def __init__(self, held: list[AssetRecord]) -> None:
        self._exact = {(one.name, one.uri): one.id for one in held}
        self._by: dict[str, dict[str, set[int]]] = {"name": defaultdict(set), "uri": defaultdict(set)}
        for one in held:
            self._by["name"][one.name].add(one.id)
            self._by["uri"][one.uri].add(one.id)

    def find(self, scope: AssetScope) -> int | None:
        """Return the number of the only asset that fits; `None` leaves it to the store."""
        if scope.name is not None and scope.uri is not None:
            return self._exact.get((scope.name, scope.uri))
        found = self._by["name"].get(scope.name or "") if scope.uri is None else self._by["uri"].get(scope.uri)
        return next(iter(found)) if found is not None and len(found) == 1 else None

    def resolve(self, references: Iterable[Reference]) -> set[tuple[int | AssetScope, Direction]]:
        """Return references by the numbers of their assets; one to an asset that nothing has declared is none."""
        found: set[tuple[int | AssetScope, Direction]] = set()
        for scope, way in references:
            number = self.find(scope)
            if number is not None or (scope.name is not None and scope.uri is not None):
                found.add((scope if number is None else number, way))
        return found


def _declare(store: Store, wanted: Mapping[str, set[Reference]], held: list[AssetRecord], report: SyncReport) -> None:
    """Record the references of those DAGs that have others by now."""
    known = _Known(held)
    before: dict[str, set[tuple[int | AssetScope, Direction]]] = defaultdict(set)
    for one in held:
        for reference in one.references:
            before[reference.dag_id].add((one.id, reference.direction))
    after = {
        dag_id: found for dag_id, references in wanted.items() if (found := known.resolve(references)) != before[dag_id]
    }
    report.dags = sorted(after)
    if report.dry_run:
        used = {asset for references in {**before, **after}.values() for asset, _ in references}
        report.added = sorted(str(asset) for asset in used if isinstance(asset, AssetScope))
        let_go = [one for one in held if one.references and one.id not in used and not one.aliases]
        report.deactivated = [str(one.scope) for one in let_go if one.active]
        return
    for start in range(0, len(report.dags), _DAGS_AT_ONCE):
        some = {dag_id: _groups(wanted[dag_id]) for dag_id in report.dags[start : start + _DAGS_AT_ONCE]}
        try:
            report.note(store.assets.declare_many(some))
        except InvalidValueError:
            _declare_each(store, some, report)


def _groups(found: set[Reference]) -> dict[str, list[AssetScope]]:
    names: tuple[tuple[str, Direction], ...] = (
        ("inlets", "inlet"), ("outlets", "outlet"), ("schedule", "schedule"), ("watched", "watch"),
    )  # fmt: skip
    return {name: [scope for scope, way in found if way == direction] for name, direction in names}


def _declare_each(store: Store, dags: Mapping[str, Mapping[str, Iterable[AssetScope]]], report: SyncReport) -> None:
    """Record what can be recorded where one of several DAGs refers to something that leads to two assets."""
    for dag_id, groups in dags.items():
        try:
            report.note(store.assets.declare_many({dag_id: groups}))
        except InvalidValueError as error:
            report.dags.remove(dag_id)
            report.left[dag_id] = str(error)


def _attach(store: Store, aliases: Iterable[tuple[str, AssetScope]], report: SyncReport) -> None:
    """Record what aliases stand for. Airflow never takes that back."""
    for alias, scope in aliases:
        record = store.assets.get(scope)
        if record is None or alias not in record.aliases:
            report.attached.append(f"{alias}: {scope}")
            if not report.dry_run:
                store.assets.attach(alias, scope)
