"""Runs in an environment of Airflow: several steps in one process. Prints a JSON list of their answers on the last line.

Usage: python steps.py STEP [STEP ...], each a JSON list of the name of a function below and its arguments.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from datetime import datetime, timedelta, timezone
from typing import Any


def load(file: str) -> dict[str, Any]:
    """Return the DAGs of a file."""
    spec = importlib.util.spec_from_file_location("dags_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dags_under_test"] = module
    spec.loader.exec_module(module)
    return {thing.dag_id: thing for thing in vars(module).values() if type(thing).__name__ == "DAG"}


def test(file: str, dag_id: str) -> Any:
    """Run `dag.test()`; the run."""
    from driver import share_api_server

    share_api_server()
    dag = load(file)[dag_id]
    dag.fileloc = file
    run = dag.test()
    return {"run_id": run.run_id, "state": str(run.state)}


def serialize() -> None:
    """Have Airflow record the DAGs of its folder."""
    from airflow.cli.cli_parser import get_parser

    arguments = get_parser().parse_args(["dags", "reserialize"])
    arguments.func(arguments)


def milepost(*arguments: str) -> Any:
    """Run a command of Milepost; its exit code and what it printed, as JSON if it is that."""
    from milepost.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code or 0
    printed: Any = out.getvalue()
    if "--json" in arguments and printed:
        printed = json.loads(printed)
    return {"code": code, "out": printed, "err": err.getvalue()}


def _all_tables() -> None:
    with contextlib.suppress(ImportError):
        import airflow.providers.fab.auth_manager.models  # noqa: F401 - a table of Airflow 2 refers to one of its tables


def _dag(dag_id: str, **columns: Any) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        row = session.get(DagModel, dag_id)
        for name, value in columns.items():
            if hasattr(row, name):
                setattr(row, name, value)


def out_of_sight(dag_id: str, days: float, broken: bool) -> None:
    """Let a DAG be as if its file had been gone, or broken, for so many days."""
    since = datetime.now(timezone.utc) - timedelta(days=days)
    _dag(dag_id, is_active=False, is_stale=True, has_import_errors=broken, last_parsed_time=since)


def delete_run(dag_id: str, run_id: str) -> None:
    """Delete a run, as people do."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    _all_tables()
    with create_session() as session:
        session.delete(session.query(DagRun).filter(DagRun.dag_id == dag_id, DagRun.run_id == run_id).one())


def say(dag_id: str, run_id: str, run_state: str, instances: list[list[Any]]) -> None:
    """Have Airflow say something of a run and its task instances: task, map index, state, number of the try."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    _all_tables()
    with create_session() as session:
        of = {"dag_id": dag_id, "run_id": run_id}
        session.query(DagRun).filter_by(**of).update({"state": run_state})
        for task_id, map_index, state, number in instances:
            rows = session.query(TaskInstance).filter_by(**of, task_id=task_id, map_index=map_index)
            column = "_try_number" if "_try_number" in TaskInstance.__mapper__.attrs else "try_number"
            assert rows.update({"state": state, column: number}) == 1


def delete_dag(dag_id: str) -> None:
    """Delete a DAG with its runs, as people do."""
    from airflow.api.common.delete_dag import delete_dag as delete

    delete(dag_id)


def attach_alias(alias: str, uri: str) -> None:
    """Let an alias stand for an asset, as an event of a task does."""
    from airflow.utils.session import create_session

    try:
        from airflow.models.asset import AssetAliasModel, AssetModel
    except ImportError:
        from airflow.models.dataset import DatasetAliasModel as AssetAliasModel
        from airflow.models.dataset import DatasetModel as AssetModel

    with create_session() as session:
        row = session.query(AssetAliasModel).filter(AssetAliasModel.name == alias).one()
        stands_for = row.assets if hasattr(row, "assets") else row.datasets
        stands_for.append(session.query(AssetModel).filter(AssetModel.uri == uri).one())


def native_rows() -> list[list[Any]]:
    """Return what Airflow's own tables hold, without the times of the last write."""
    from airflow.models.asset_state_store import AssetStateStoreModel as Asset
    from airflow.models.task_state_store import TaskStateStoreModel as Task
    from airflow.utils.session import create_session

    with create_session() as session:
        rows = [
            [row.task_id, row.map_index, row.key, row.value, str(row.expires_at)]
            for row in session.query(Task).order_by(Task.task_id, Task.map_index, Task.key)
        ]
        writers = [f"last_updated_by_{name}" for name in ("kind", "dag_id", "run_id", "task_id", "map_index")]
        return rows + [[one.key, one.value, *(getattr(one, name) for name in writers)] for one in session.query(Asset)]


def native_delete() -> None:
    """Empty Airflow's own tables."""
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.query(TaskStateStoreModel).delete()
        session.query(AssetStateStoreModel).delete()


def native_put(dag_id: str, run_id: str, task_id: str, key: str, text: str) -> None:
    """Put a text into Airflow's own table of task state."""
    from airflow._shared.state import TaskScope
    from airflow.state.metastore import MetastoreBackend

    MetastoreBackend().set(TaskScope(dag_id, run_id, task_id), key, text)


def native_put_by_task(asset: str, key: str, text: str, dag_id: str, task_id: str) -> None:
    """Put a text into Airflow's own table of asset state, as a task does (under `dag.test()` it passes for a watcher)."""
    from airflow._shared.state import AssetScope, AssetStateStoreWriterKind
    from airflow.models.asset import AssetModel
    from airflow.state.metastore import MetastoreBackend
    from airflow.utils.session import create_session

    with create_session() as session:
        scope = AssetScope(asset_id=session.query(AssetModel.id).filter(AssetModel.name == asset).scalar())
    kind = AssetStateStoreWriterKind.TASK
    where = {"dag_id": dag_id, "run_id": "gone", "task_id": task_id, "map_index": 2}
    MetastoreBackend().set_asset_state_store(scope, key, text, kind=kind, **where)


def trigger(classpath: str) -> None:
    """Make sure that Airflow has a trigger of a class to run."""
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session

    with create_session() as session:
        assert session.query(Trigger).filter(Trigger.classpath == classpath).count() == 1


def main(steps: list[str]) -> None:
    """Take the steps."""
    answers = []
    for step in steps:
        name, *arguments = json.loads(step)
        answers.append(globals()[name](*arguments))
    print("\n" + json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1:])
