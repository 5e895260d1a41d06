"""Runs in an environment of Airflow: `dag.test()` for DAGs of a file, several in one process. Prints JSON on the last line.

Usage: python driver.py FILE DAG_ID [DAG_ID ...]; DAG_ID+clear is run, cleared as a person does it, and run
again; DAG_ID+retry goes on with the latest run, whose worker was killed, as a scheduler would.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import json
import sys
from datetime import datetime, timezone
from typing import Any


def latest_run(dag: Any) -> Any:
    """Return the latest run of a DAG, with its task instances up for a retry."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState

    with create_session() as session:
        run = session.query(DagRun).filter(DagRun.dag_id == dag.dag_id).order_by(DagRun.id.desc()).first()
        for instance in run.get_task_instances(session=session):
            instance.state = TaskInstanceState.UP_FOR_RETRY
        return run


def run_again(dag: Any, run: Any, *, clear: bool) -> None:
    """Run all task instances of a run once more, as the scheduler would; cleared before, as a person does it."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import clear_task_instances
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    with contextlib.suppress(ImportError):
        import airflow.providers.fab.auth_manager.models  # noqa: F401 - a table of Airflow 2 refers to one of its tables
    takes_dag = "dag" in inspect.signature(clear_task_instances).parameters
    with create_session() as session:
        run = session.get(DagRun, run.id)
        if clear:
            clear_task_instances(run.get_task_instances(session=session), session, **({"dag": dag} if takes_dag else {}))
        run.state = DagRunState.RUNNING
        run.start_date = run.start_date or datetime.now(timezone.utc)
    with create_session() as session:
        run = session.get(DagRun, run.id)
        for instance in run.get_task_instances(session=session):
            task = dag.get_task(instance.task_id)
            instance.task = task
            run.schedule_tis([instance], session=session)
            session.commit()
            session.refresh(instance)
            instance.task = task
            try:
                run_one(instance, task, session)
            except Exception as error:  # noqa: BLE001 - Airflow 2 raises what the task raised
                print(f"{instance.task_id}: {error}")


def run_one(instance: Any, task: Any, session: Any) -> None:
    """Run a task instance in this process."""
    try:
        from airflow.models.dag import _run_task
    except ImportError:
        from airflow.sdk.definitions.dag import _run_task
    given = {"ti": instance, "task": task, "session": session}  # of which each version takes some
    _run_task(**{name: value for name, value in given.items() if name in inspect.signature(_run_task).parameters})


def count_tries() -> None:
    """Have `dag.test()` of Airflow 2.9 count tries as its workers do; later versions do so themselves."""
    from airflow.models import dag as module
    from airflow.utils.state import TaskInstanceState

    run_task = module._run_task

    def run_counted(ti: Any, session: Any, **arguments: Any) -> Any:
        ti._try_number += 1
        ti.state = TaskInstanceState.RUNNING
        session.merge(ti)
        session.commit()
        return run_task(ti=ti, session=session, **arguments)

    module._run_task = run_counted


def mend_3_0(dags: list[Any]) -> None:
    """Do what `dag.test()` of Airflow 3.0 leaves out: it activates no assets, and gives sensors a date as text."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.dag import DAG
    from airflow.sdk.api.client import TaskInstanceOperations
    from airflow.serialization.serialized_objects import SerializedDAG

    DagBundlesManager().sync_bundles_to_db()
    DAG.bulk_write_to_db(
        "dags-folder", None, [SerializedDAG.deserialize_dag(SerializedDAG.serialize_dag(dag)) for dag in dags]
    )
    ask = TaskInstanceOperations.get_reschedule_start_date

    def asked(*arguments: Any, **named: Any) -> Any:
        answer = ask(*arguments, **named)
        if isinstance(answer.start_date, str):
            answer.start_date = datetime.fromisoformat(answer.start_date.replace("Z", "+00:00"))
        return answer

    TaskInstanceOperations.get_reschedule_start_date = asked


def main(file: str, dag_ids: list[str]) -> None:
    """Run DAGs and print how their task instances ended."""
    spec = importlib.util.spec_from_file_location("dags_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dags_under_test"] = module
    spec.loader.exec_module(module)
    found = {thing.dag_id: thing for thing in vars(module).values() if type(thing).__name__ == "DAG"}
    import airflow

    if airflow.__version__.startswith("2.9."):
        count_tries()
    if airflow.__version__.startswith("3.0."):
        mend_3_0(list(found.values()))
    ended = {}
    for wanted in dag_ids:
        dag_id, _, how = wanted.partition("+")
        dag = found[dag_id]
        dag.fileloc = file
        try:
            run = latest_run(dag) if how == "retry" else dag.test()
        except Exception as error:  # noqa: BLE001 - Airflow 2.9 raises what a task raised; the states say the rest
            ended[dag_id] = {"error": f"{type(error).__name__}: {error}"}
            continue
        if how:
            run_again(dag, run, clear=how == "clear")
        instances = {}
        for one in run.get_task_instances():
            instances[f"{one.task_id}[{one.map_index}]"] = str(one.state)
        ended[dag_id] = {"state": str(run.state), "run_id": run.run_id, "tasks": instances}
    print("\n" + json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
