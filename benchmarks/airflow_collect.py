"""The peer of `bench_collect`: run by the Python of an environment with Airflow 3.3.2, not by ours.

``python airflow_collect.py ROWS`` fills the task state table of the database that AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names
with expired rows, has Airflow remove them, and prints one line of JSON.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

SOURCE = """
from airflow.sdk import DAG, task
with DAG("bench", schedule=None) as dag:
    @task
    def nothing():
        pass
    nothing()
if __name__ == "__main__":
    dag.test()
"""


def run(command: list[str]) -> None:
    """Run a command that has nothing to say."""
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def prepare() -> None:
    """Make the schema, and one run that the rows can belong to."""
    airflow = str(Path(sys.executable).parent / "airflow")
    run([airflow, "db", "migrate"])
    folder = Path(os.environ["AIRFLOW_HOME"]) / "dags"
    folder.mkdir(exist_ok=True)
    (folder / "bench.py").write_text(SOURCE)
    run([airflow, "dags", "reserialize"])
    run([sys.executable, str(folder / "bench.py")])


def main(rows: int) -> None:
    """Fill and measure."""
    prepare()
    from airflow.state.metastore import MetastoreBackend
    from airflow.utils.session import create_session
    from sqlalchemy import text

    columns = "dag_run_id, task_id, map_index, key, dag_id, run_id, value, updated_at, expires_at"
    with create_session() as session:
        run = session.execute(text("SELECT id, dag_id, run_id FROM dag_run LIMIT 1")).one()
        values = {"id": run[0], "dag": run[1], "run": run[2], "rows": rows}
        if session.bind.dialect.name == "postgresql":
            numbers = "FROM generate_series(1, :rows) AS n"
            times = "now() - interval '40 day', now() - interval '10 day'"
            prefix = ""
        else:
            prefix = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :rows) "
            numbers = "FROM c"
            times = "'2026-01-01 00:00:00.000000', '2026-02-01 00:00:00.000000'"
        select = f"SELECT :id, 't' || (n / 100), -1, 'k' || n, :dag, :run, '{{}}', {times} {numbers}"
        head = f"INSERT INTO task_state_store ({columns}) "
        session.execute(text(head + select if not prefix else prefix + head + select), values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    start = time.monotonic()
    error = None
    try:
        MetastoreBackend().cleanup()
    except Exception as caught:  # noqa: BLE001  (what went wrong is part of the measurement)
        error = f"{type(caught).__name__}: {str(caught)[:100]}"
    seconds = time.monotonic() - start
    with create_session() as session:
        left = session.execute(text("SELECT count(*) FROM task_state_store")).scalar()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"seconds": seconds, "left": left, "error": error, "memory_mb": after - before}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
