"""What an Airflow process loads, and when."""

from __future__ import annotations

import subprocess
import sys

ENTRY = ("airflow", "airflow.imports", "airflow.names", "airflow.policy", "airflow.preload", "later")
LOADED = "sorted(name for name in sys.modules if name.startswith(('milepost', 'sqlite3')))"
PROGRAM = f"""
import os, sys, types
conf = types.SimpleNamespace(conf=None)
sys.modules["airflow"] = types.ModuleType("airflow")
sys.modules["airflow.configuration"] = conf
os.environ["AIRFLOW__MILEPOST__URL"] = "sqlite:///state.db"
import milepost.airflow.policy
print({LOADED})
child = os.fork()
if child == 0:
    loaded = set(sys.modules)
    from milepost.scopes import TaskScope
    from milepost.store import connect
    store = connect("memory://")
    task_store = store.instances.open(TaskScope("dag", "run", "task"), 1)["task_store"]
    task_store.set("page", 1)
    task_store.get("absent")
    store.instances.finish(task_store.scope, 1, "success")
    print(sorted(name for name in set(sys.modules) - loaded if name.startswith("milepost")))
    sys.stdout.flush()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_next_to_nothing_is_loaded_before_a_fork_and_all_of_it_then() -> None:
    """The entry point that every Airflow process loads is cheap; a process that forks hands the rest to its children."""
    done = subprocess.run([sys.executable, "-u", "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        str(["milepost", *(f"milepost.{name}" for name in ENTRY)]),
        "['milepost.metastore.memory']",
    ], done.stderr
    assert done.stderr == ""
