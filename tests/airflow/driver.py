"""Runs in an environment of Airflow: `dag.test()` for DAGs of a file or a folder, in one process. Prints JSON at the end.

Usage: python driver.py PATH DAG_ID [DAG_ID ...]; DAG_ID+clear is run, cleared as a person does it, and run
again; DAG_ID+retry goes on with the latest run, whose worker was killed, as a scheduler would; DAG_ID+cleared clears that
run before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


def latest_run(dag: Any) -> Any:
    """Return the latest run of a DAG."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        return session.query(DagRun).filter(DagRun.dag_id == dag.dag_id).order_by(DagRun.id.desc()).first()


def run_again(dag: Any, run: Any, *, clear: bool) -> None:
    """Run the one task instance that has begun once more, as the scheduler would; cleared before, as a person does it."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import clear_task_instances
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState

    with contextlib.suppress(ImportError):
        import airflow.providers.fab.auth_manager.models  # noqa: F401 - a table of Airflow 2 refers to one of its tables
    takes_dag = "dag" in inspect.signature(clear_task_instances).parameters
    with create_session() as session:
        run = session.get(DagRun, run.id)
        begun = [one for one in run.get_task_instances(session=session) if one.state is not None]
        assert len(begun) == 1, begun
        if clear:
            clear_task_instances(begun, session, **({"dag": dag} if takes_dag else {}))
        else:
            begun[0].state = TaskInstanceState.UP_FOR_RETRY
        run.state = DagRunState.RUNNING
        run.start_date = run.start_date or datetime.now(timezone.utc)
        task = dag.get_task(begun[0].task_id)
    with create_session() as session:
        run = session.get(DagRun, run.id)
        instance = run.get_task_instance(task.task_id, session=session)
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


def load(path: Path) -> dict[str, Any]:
    """Return the DAGs of a file, or of all files of a folder, by id."""
    try:
        from airflow.sdk.definitions._internal.contextmanager import DagContext
    except ImportError:
        from airflow.models.dag import DagContext
    found: dict[str, Any] = {}
    for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
        spec = importlib.util.spec_from_file_location(f"tested_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        DagContext.current_autoregister_module_name = spec.name
        spec.loader.exec_module(module)
        for dag in (dag for dag, loaded in DagContext.autoregistered_dags if loaded is module):
            dag.fileloc = str(file)
            found[dag.dag_id] = dag
    return found


def share_api_server() -> None:
    """Have `dag.test()` of Airflow 3 make its API server once, not for each task, which takes most of the time."""
    with contextlib.suppress(ImportError):
        from airflow.sdk.execution_time import supervisor

        supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)


def main(path: str, dag_ids: list[str]) -> None:
    """Run DAGs and print how their task instances ended."""
    import airflow

    share_api_server()
    found = load(Path(path))
    if airflow.__version__.startswith("2.9."):
        count_tries()
    if airflow.__version__.startswith("3.0."):
        mend_3_0(list(found.values()))
    ended = {}
    for wanted in dag_ids:
        dag_id, _, how = wanted.partition("+")
        dag = found[dag_id]
        try:
            run = latest_run(dag) if how in ("retry", "cleared") else dag.test()
        except Exception as error:  # noqa: BLE001 - Airflow 2.9 raises what a task raised; the states say the rest
            ended[dag_id] = {"error": f"{type(error).__name__}: {error}"}
            continue
        if how:
            run_again(dag, run, clear=how != "retry")
        instances = {}
        for one in run.get_task_instances():
            instances[f"{one.task_id}[{one.map_index}]"] = str(one.state)
        ended[dag_id] = {"state": str(run.state), "run_id": run.run_id, "tasks": instances}
    print("\n" + json.dumps(ended))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
