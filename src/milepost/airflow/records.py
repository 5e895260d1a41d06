"""What Airflow's metadata database says of runs, DAGs and the assets that they refer to.

The references of a DAG are those of its serialized form, which Airflow keeps while a file cannot be parsed: the tables of
references have no inlets before 3.1, and lose what a DAG refers to as soon as its file is out of sight.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from milepost.airflow import compat
from milepost.asset_records import Direction
from milepost.errors import MissingDependencyError, StoreUnreachableError
from milepost.scopes import AssetScope

__all__ = ["DagState", "Records", "at_airflow", "reading", "references"]

_SOME = 500
"""Runs that are asked for at a time."""

_ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of task instances that do not go on by themselves."""

Reference = tuple[AssetScope, Direction]


@dataclass(frozen=True)
class DagState:
    """What Airflow knows of a DAG.

    Args:
        active: Whether its file has it.
        broken: Whether its file cannot be parsed at the moment.
        parsed_at: When it was last parsed.
    """

    active: bool
    broken: bool
    parsed_at: datetime | None


@contextmanager
def reading() -> Iterator[Records]:
    """Give what reads Airflow's metadata database, in one transaction; what is written with its session is kept at the end.

    Raises:
        MissingDependencyError: Airflow is not installed here.
        StoreUnreachableError: The database cannot be read.
    """
    with at_airflow():
        from airflow.utils.session import create_session

        with _as_unreachable(), create_session() as session:
            yield Records(session)


@contextmanager
def at_airflow() -> Iterator[None]:
    """Make sure that Airflow is here, and keep what it says while it works off standard output, which is for answers.

    Raises:
        MissingDependencyError: It is not installed.
    """
    before = logging.root.manager.disable
    with redirect_stdout(sys.stderr):
        logging.disable(max(before, logging.INFO))
        try:
            try:
                import airflow.configuration  # noqa: F401 - whether it is there
            except ModuleNotFoundError as error:
                reason = f"Airflow is not installed here ({error}); run this where its scheduler runs"
                raise MissingDependencyError(reason) from error
            yield
        finally:
            logging.disable(before)


@contextmanager
def _as_unreachable() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        first = str(error).splitlines()[0]
        raise StoreUnreachableError(
            f"Airflow's metadata database cannot be used: {type(error).__name__}: {first}"
        ) from error


class Records:
    """Reads Airflow's metadata database.

    Args:
        session: A session of Airflow's.

    Attributes:
        session: It.
    """

    def __init__(self, session: Any) -> None:
        self.session = session

    def runs_there(self, runs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return those of some runs (DAG and run) that there are."""
        from airflow.models.dagrun import DagRun

        by_dag: dict[str, list[str]] = {}
        for dag_id, run_id in runs:
            by_dag.setdefault(dag_id, []).append(run_id)
        found: set[tuple[str, str]] = set()
        for dag_id, run_ids in by_dag.items():
            for start in range(0, len(run_ids), _SOME):
                some = run_ids[start : start + _SOME]
                query = self.session.query(DagRun.run_id).filter(DagRun.dag_id == dag_id, DagRun.run_id.in_(some))
                found.update((dag_id, run_id) for (run_id,) in query)
        return found

    def ended(self, dag_id: str, run_id: str, attempts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
        """Return how attempts of a run ended, by task and map index; those that may go on are left out.

        Args:
            dag_id: The DAG.
            run_id: The run.
            attempts: Numbers of attempts by task and map index.
        """
        from airflow.models.dagrun import DagRun
        from airflow.models.taskinstance import TaskInstance

        of_run = self.session.query(DagRun.state).filter(DagRun.dag_id == dag_id, DagRun.run_id == run_id).scalar()
        over = of_run is not None and _name(of_run) in ("success", "failed")
        found = dict.fromkeys(attempts, "removed") if over else {}
        tasks = sorted({task_id for task_id, _ in attempts})
        columns = (TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state, TaskInstance.try_number)
        for start in range(0, len(tasks), _SOME):
            some = TaskInstance.task_id.in_(tasks[start : start + _SOME])
            query = self.session.query(*columns).filter(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, some)
            for task_id, map_index, state, number in query:
                if (attempt := attempts.get((task_id, map_index))) is None:
                    continue
                if _name(state) in _ENDED and (over or number >= attempt):
                    found[task_id, map_index] = _name(state)
                else:
                    found.pop((task_id, map_index), None)
        return found

    def dags(self) -> dict[str, DagState]:
        """Return all DAGs that there are, in force or not."""
        from airflow.models.dag import DagModel

        columns = (DagModel.dag_id, compat.dag_is_active(DagModel), DagModel.has_import_errors, DagModel.last_parsed_time)
        return {
            dag_id: DagState(bool(active), bool(broken), parsed_at)
            for dag_id, active, broken, parsed_at in self.session.query(*columns)
        }

    def references(self, dag_id: str) -> set[Reference] | None:
        """Return what a DAG refers to, as of its latest serialized form; `None` if there is none.

        Raises:
            ValueError: It is not of the form that is known.
        """
        from airflow.models.serialized_dag import SerializedDagModel

        row = SerializedDagModel.get(dag_id, session=self.session)
        return None if row is None else references(row.data)

    def aliases(self) -> list[tuple[str, AssetScope]]:
        """Return the assets that aliases stand for, each with the name of the alias."""
        return [(alias, AssetScope(name=name, uri=uri)) for alias, name, uri in compat.alias_rows(self.session)]


def _name(state: Any) -> str:
    return str(getattr(state, "value", state))


# -- the serialized form of a DAG -----------------------------------------------------------------------------------------

_ASSETS = frozenset({"asset", "dataset"})
_REFERENCES = frozenset({"asset_ref", "asset_name_ref", "asset_uri_ref"})
_SCHEDULES = ("timetable", "dataset_triggers")
"""Where a DAG says what it waits for; the latter before 2.10."""
_DIRECTIONS: Mapping[str, Direction] = {"inlets": "inlet", "outlets": "outlet"}


def references(data: Any) -> set[Reference]:
    """Return what a DAG refers to.

    Args:
        data: Its serialized form, as Airflow stores it, of whichever version.

    Raises:
        ValueError: It is not of the form that is known.
    """
    try:
        dag = data["dag"]
        found = {one for name in _SCHEDULES for one in _assets(dag.get(name), "schedule")}
        for task in dag["tasks"]:
            fields = task.get("__var", task)
            partial = fields.get("partial_kwargs") or {}
            for holder in (fields, partial.get("__var", partial)):
                for name, direction in _DIRECTIONS.items():
                    found.update(_assets(holder.get(name), direction))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"its serialized form is not understood ({type(error).__name__}: {error})") from error
    return found


def _assets(node: Any, direction: Direction) -> Iterator[Reference]:
    """Go through the assets in a part of a serialized DAG, whatever the condition that they stand in."""
    if isinstance(node, Sequence) and not isinstance(node, str):
        for each in node:
            yield from _assets(each, direction)
    elif isinstance(node, Mapping):
        kind, fields = node.get("__type"), node.get("__var", node)
        if kind in _ASSETS:
            uri = fields.get("uri")
            scope = AssetScope(name=fields.get("name", uri), uri=uri)
            yield scope, direction
            if fields.get("watchers"):
                yield scope, "watch"
        elif kind in _REFERENCES:
            yield AssetScope(name=fields.get("name"), uri=fields.get("uri")), direction
        else:
            for each in node.values():
                yield from _assets(each, direction)
