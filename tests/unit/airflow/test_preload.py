"""What an Airflow process loads, and when."""

from __future__ import annotations

import subprocess
import sys

LOADED = "sorted(name for name in sys.modules if name.startswith(('milepost', 'sqlite3')))"
EARLY = ("imports", "names", "policy", "preload")
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
    print("milepost.airflow.opening" in sys.modules, "milepost.metastore.sql" in sys.modules)
    sys.stdout.flush()
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_next_to_nothing_is_loaded_before_a_fork_and_all_of_it_then() -> None:
    """The entry point that every Airflow process loads is cheap; a process that forks hands the rest to its children."""
    done = subprocess.run([sys.executable, "-u", "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        f"['milepost', 'milepost.airflow', {', '.join(repr(f'milepost.airflow.{name}') for name in EARLY)}]",
        "True True",
    ], done.stderr
    assert done.stderr == ""
