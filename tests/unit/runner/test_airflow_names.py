"""Airflow's import paths: what they lead to without Airflow, and what is said where Airflow is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from milepost.runner import DagLoadError, load_dags
from milepost.runner.airflow_names import MODULES

MAKE = "with DAG('d'):\n    @task\n    def work(): pass\n    work()\n"


@pytest.fixture(autouse=True)
def _keep_modules(monkeypatch):
    """Forget what a test imported, and the finder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


def load(folder, text):
    """Load a DAG file of that text."""
    path = folder / "pipeline.py"
    path.write_text(text)
    return load_dags(path)


def install(folder, files):
    """Put something in the place of an installed Airflow."""
    for name, text in files.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.append(str(folder / "site"))


REAL = {
    "airflow/__init__.py": "__version__ = '3.3.2'\n",
    "airflow/sdk/__init__.py": (
        "class DAG:\n    def __init__(self, dag_id): pass\n"
        "    def __enter__(self): return self\n    def __exit__(self, *_): pass\n"
        "class BaseOperator:\n    pass\ndef task(function): return function\n"
        "class Asset:\n    def __init__(self, name): self.name, self.uri = name, name\n"
    ),
    "airflow/exceptions.py": "class AirflowSkipException(Exception): pass\n",
}


@pytest.mark.parametrize("module", [name for name, names in MODULES.items() if names])
def test_names_of_a_module(tmp_path, module):
    """Every name of every path that SPEC 11 lists can be imported in a DAG file, one by one and with a star."""
    names = ", ".join(MODULES[module])
    load(tmp_path, f"from {module} import {names}\nfrom {module} import *\nfrom milepost.sdk import DAG\nDAG('d')\n")


def test_names_are_milepost_objects(tmp_path):
    """What Airflow's paths lead to are Milepost's own classes, also for annotations."""
    text = """
import airflow.sdk as sdk, airflow.triggers.base, milepost, milepost.sdk
from airflow.exceptions import AirflowSkipException
from airflow.sdk.execution_time.context import NEVER_EXPIRE, TaskStateStoreAccessor, AssetStateStoreAccessors
from airflow.sdk.state import NEVER_EXPIRE as SAME, TaskScope, BaseStoreBackend
assert sdk.DAG is milepost.sdk.DAG and AirflowSkipException is milepost.sdk.AirflowSkipException
assert TaskStateStoreAccessor is milepost.TaskStoreAccessor and AssetStateStoreAccessors is milepost.AssetStoreAccessors
assert NEVER_EXPIRE is SAME is milepost.NEVER_EXPIRE
assert sdk.ResumableJobMixin is milepost.ResumableJobMixin
assert TaskScope is milepost.TaskScope and BaseStoreBackend is milepost.BaseStoreBackend
assert airflow.triggers.base.BaseTrigger is milepost.sdk.BaseTrigger
sdk.DAG("d")
"""
    assert list(load(tmp_path, text)) == ["d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nfrom airflow.sdk import DAG, Variable\n", r"py:2: airflow\.sdk has no 'Variable' in Milepost's local runner$"),
        ("import airflow.sdk\nairflow.sdk.Param\n", r"py:2: AttributeError: airflow\.sdk has no 'Param' in Milepost's"),
        (
            "\n\nfrom airflow.models import DAG\n",
            r"py:3: airflow\.models is not part of Milepost's local runner; .*airflow\.sdk",
        ),
        ("from airflow.providers.x import Y\n", r"py:1: airflow\.providers is not part of Milepost's local runner"),
        ("from airflow import DAG\n", r"py:1: airflow has no 'DAG' in .*; import it from airflow\.sdk$"),
    ],
)
def test_unsupported_name_fails_with_name_and_line(tmp_path, text, message):
    """A name that the runner has not fails at load with the name and the line (SPEC 11)."""
    with pytest.raises(DagLoadError, match=message) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_file_may_try_an_import(tmp_path):
    """`except ImportError` catches a name that is not there, and `hasattr` says no."""
    text = """
try:
    from airflow.sdk import Variable
except ImportError:
    from airflow.sdk import DAG
import airflow.sdk
assert not hasattr(airflow.sdk, "Variable")
DAG("d")
"""
    assert list(load(tmp_path, text)) == ["d"]


def test_import_of_milepost_serves_nothing():
    """Only the loader serves Airflow's paths: importing Milepost does not."""
    code = (
        "import sys, importlib.util, milepost, milepost.sdk, milepost.runner, milepost.runner.load\n"
        "assert importlib.util.find_spec('airflow') is None and 'airflow' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        (f"from airflow.sdk import DAG, task\n{MAKE}", 1, "airflow.sdk.DAG"),
        (f"from milepost.sdk import DAG\nfrom airflow.sdk import task\n{MAKE}", 2, "airflow.sdk.task"),
        ("import os\nimport airflow.sdk as a\na.DAG('d')\n", 2, "airflow.sdk"),
        ("from airflow.sdk import DAG\nDAG('d', 1, 2)\n", 1, "airflow.sdk.DAG"),
    ],
)
def test_installed_airflow_is_named(tmp_path, text, line, name):
    """Where Airflow is installed, a file that uses its DAGs or tasks is refused in one line that names `milepost.sdk`."""
    install(tmp_path, REAL)
    with pytest.raises(DagLoadError) as caught:
        load(tmp_path, text)
    assert str(caught.value) == (
        f"{tmp_path / 'pipeline.py'}:{line}: {name} is that of the Airflow installed here, whose DAGs and tasks "
        "the local runner cannot run; import from milepost.sdk instead, or use an environment without Airflow"
    )


def test_installed_airflow_is_left_alone(tmp_path):
    """Where Airflow is installed its modules are its own, and a Milepost DAG may use its assets and exceptions."""
    install(tmp_path, REAL)
    text = (
        "from airflow.sdk import Asset\nfrom airflow.exceptions import AirflowSkipException\n"
        "from milepost.sdk import DAG, task\n"
        "assert Asset.__module__ == 'airflow.sdk'\n"
        "with DAG('d'):\n    @task(inlets=[Asset('a')])\n    def work(): pass\n    work()\n"
    )
    assert load(tmp_path, text)["d"].task_ids == ["work"]


def test_older_airflow_gets_no_names_from_milepost(tmp_path):
    """Nothing of Milepost is put into an installed Airflow that has no `airflow.sdk`."""
    install(tmp_path, {"airflow/__init__.py": ""})
    with pytest.raises(DagLoadError, match=r"py:1: ModuleNotFoundError: No module named 'airflow\.sdk'"):
        load(tmp_path, "from airflow.sdk import Asset\n")


def test_bare_folder_is_no_airflow(tmp_path):
    """A folder of the name `airflow` beside the DAG file, which Python takes for a package, is no Airflow."""
    (tmp_path / "airflow/logs").mkdir(parents=True)
    assert list(load(tmp_path, f"from airflow.sdk import DAG, task\n{MAKE}")) == ["d"]
