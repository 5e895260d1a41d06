"""The peer of `bench_http`: run by the Python of an environment with Airflow 3.3.2, not by ours.

``python airflow_serve.py`` prepares the database that AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names and prints one line of JSON:
the id of a task instance and a token that opens its state. With ``accessor`` it prints what calls of Airflow's own accessor
cost in a task, in microseconds.
"""

import json
import os
import sys
from pathlib import Path

from airflow_collect import prepare, run

SOURCE = """
import json, time
from airflow.sdk import DAG, task
with DAG("bench_accessor", schedule=None) as dag:
    @task
    def measure(**context):
        store = context["task_state_store"]
        found = {}
        for name, call in (
            ("set", lambda n: store.set(f"k{n % 20}", {"page": n, "status": "running"})),
            ("get", lambda n: store.get(f"k{n % 20}")),
        ):
            samples = []
            for number in range(200):
                start = time.perf_counter()
                call(number)
                samples.append((time.perf_counter() - start) * 1e6)
            found[name] = sorted(samples)[100]
        with open("accessor.json", "w") as file:
            json.dump(found, file)
    measure()
if __name__ == "__main__":
    dag.test()
"""


def main() -> None:
    """Prepare, and say what to ask for; or measure the accessor."""
    if sys.argv[1:] == ["accessor"]:
        folder = Path(os.environ["AIRFLOW_HOME"])
        (folder / "dags" / "accessor.py").write_text(SOURCE)
        run([str(Path(sys.executable).parent / "airflow"), "dags", "reserialize"])
        os.chdir(folder)
        run([sys.executable, str(folder / "dags" / "accessor.py")])
        print((folder / "accessor.json").read_text())
        return
    prepare()
    from airflow.api_fastapi.auth.tokens import JWTGenerator
    from airflow.configuration import conf
    from airflow.utils.session import create_session
    from sqlalchemy import text

    with create_session() as session:
        number = str(session.execute(text("SELECT id FROM task_instance LIMIT 1")).scalar_one())
    generator = JWTGenerator(
        secret_key=os.environ["AIRFLOW__API_AUTH__JWT_SECRET"],
        valid_for=86400,
        audience=conf.get_mandatory_list_value("execution_api", "jwt_audience")[0],
    )
    print(json.dumps({"id": number, "token": generator.generate({"sub": number, "scope": "execution"})}))


if __name__ == "__main__":
    main()
