"""Loading DAG files: what is found, and how failures name the place."""

from __future__ import annotations

import os
import re
import sys

import pytest

from milepost.runner import DagLoadError, RunnerUsageError, load_dags
from milepost.runner.load import choose_dag


@pytest.fixture(autouse=True)
def _keep_modules(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder, text):
    """Write a DAG file."""
    path = folder / "pipeline.py"
    path.write_text(text)
    return path


HEAD = "from milepost.sdk import DAG, dag, task\n"
IN_DAG = (
    "import functools; from milepost.sdk import *; "
    "Triggered = type('Triggered', (BaseOperator,), {'execute': print, 'start_from_trigger': True})\nwith DAG('d'):\n"
)


def test_dags_in_the_order_of_the_file(tmp_path):
    """Every DAG that the file makes is found, wherever it is kept."""
    path = write(tmp_path, HEAD + "def hide():\n    DAG('b')\nhide()\nDAG('a')\n@dag\ndef c(): pass\nc()\n")
    assert list(load_dags(path)) == ["b", "a", "c"]


def test_imports_from_its_own_folder(tmp_path):
    """A DAG file imports modules that lie beside it."""
    (tmp_path / "beside_the_dag.py").write_text("NAME = 'found'\n")
    assert list(load_dags(write(tmp_path, HEAD + "from beside_the_dag import NAME\nDAG(NAME)\n"))) == ["found"]


def test_modules_beside_the_file_take_no_other_place(tmp_path):
    """A module beside the file that is called like one of the standard library is not imported in its place."""
    for name in ("colorsys", "sndhdr_of_mine"):
        (tmp_path / f"{name}.py").write_text("NAME = 'mine'\n")
    text = "import colorsys\nimport sndhdr_of_mine\nDAG(sndhdr_of_mine.NAME + str(hasattr(colorsys, 'NAME')))\n"
    assert list(load_dags(write(tmp_path, HEAD + text))) == ["mineFalse"]


def test_a_child_of_the_file_may_end_itself(tmp_path):
    """A process that the file forks while it is loaded ends as it likes; afterwards `os._exit` is what it was."""
    text = "import os\nif os.fork() == 0:\n    os._exit(7)\nDAG(str(os.waitstatus_to_exitcode(os.wait()[1])))\n"
    before = os._exit
    assert list(load_dags(write(tmp_path, HEAD + text))) == ["7"]
    assert os._exit is before


def test_dataclasses_and_main_guard(tmp_path):
    """The file is a proper module: dataclasses work in it, and it is not __main__."""
    text = (
        "from __future__ import annotations\n"
        + HEAD
        + "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
        "DAG('a')\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    )
    assert list(load_dags(write(tmp_path, text))) == ["a"]


def test_quick_edit_is_seen(tmp_path):
    """A file that was changed within a second, at the same size, is read anew."""
    assert list(load_dags(write(tmp_path, HEAD + "DAG('one')\n"))) == ["one"]
    assert list(load_dags(write(tmp_path, HEAD + "DAG('two')\n"))) == ["two"]
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = (\n", r"pipeline\.py:2: '\(' was never closed"),
        ("\n\n1 / 0\n", r"pipeline\.py:3: ZeroDivisionError: division by zero$"),
        ("import nowhere_to_be_found\n", r"pipeline\.py:1: ModuleNotFoundError: .*nowhere_to_be_found"),
        (
            "from milepost.sdk import DAG, AssetWhatever\n",
            r"pipeline\.py:1: milepost\.sdk has no 'AssetWhatever'",
        ),
        ("import sys\nsys.exit(0)\n", r"pipeline\.py:2: SystemExit: 0"),
        ("import json\n\njson.loads('{')\n", r"pipeline\.py:3: json.*JSONDecodeError.*\(raised at .*decoder\.py:\d+\)"),
        (HEAD + "DAG('a', wrong=1)\n", r"pipeline\.py:2: DAG has no argument 'wrong'"),
        (HEAD + "DAG('a')\nDAG('a')\n", r"pipeline\.py:3: DAG id 'a' is taken already, at .*pipeline\.py:2"),
        (HEAD + "DAG('a', default_args={'wrong': 1})\n", r"pipeline\.py:2: default_args .*'wrong'"),
        ("x = 1\n", r"pipeline\.py:1: the file makes no DAG"),
        (HEAD + "@dag\ndef a(): pass\n", r"pipeline\.py:[23]: the function under @dag is never called"),
        ("x = '\0'\n", r"pipeline\.py:1: "),
        ("import os\nos._exit(0)\n", r"pipeline\.py:2: SystemExit: os\._exit\(0\)$"),
        ("try:\n    1 / 0\nfinally:\n    from os import _exit\n    _exit(0)\n", r"pipeline\.py:5: SystemExit: os\._exit"),
        ("raise MemoryError\n", r"pipeline\.py:1: MemoryError$"),
        ("raise GeneratorExit\n", r"pipeline\.py:1: GeneratorExit$"),
        ("import asyncio\nraise asyncio.CancelledError\n", r"pipeline\.py:2: .*CancelledError$"),
        ("def f(): f()\nf()\n", r"pipeline\.py:1: RecursionError: maximum recursion depth"),
        (f"x = {'+'.join(['1'] * 100_000)}\n", r"pipeline\.py:1: nested too deeply"),
        (f"x = {'-' * 5_000}1\n", r"pipeline\.py:1: (nested too deeply|too many nested)"),
        ("raise ValueError('one\\ntwo\\n  three')\n", r"pipeline\.py:1: ValueError: one two three$"),
        ("class E(Exception):\n    def __str__(self): return 1 / 0\nraise E\n", r"pipeline\.py:3: .*str\(\) failed"),
        ("input()\n", r"pipeline\.py:1: (EOFError|OSError)"),
        ("# -*- coding: nope -*-\n", r"pipeline\.py:1: unknown encoding: nope"),
        ("from airflow.models import DAG\n", r"pipeline\.py:1: airflow\.models is not part of Milepost's local runner"),
        ("from airflow.sdk import Variable\n", r"pipeline\.py:1: airflow\.sdk has no 'Variable'"),
        ("from airflow.exceptions import TaskDeferred\n", r"pipeline\.py:1: airflow\.exceptions has no 'TaskDeferred'"),
        ("from airflow.operators.bash import BashOperator\n", r"pipeline\.py:1: airflow\.operators is not part"),
        (HEAD + "DAG('a', on_failure_callback=print)\n", r"pipeline\.py:2: DAG has no argument 'on_failure_callback'"),
        (HEAD + "DAG('a', schedule_interval='@daily')\n", r"pipeline\.py:2: .*'schedule_interval'.*did you mean 'schedule'"),
        (HEAD + "@task.branch\ndef t(): pass\n", r"pipeline\.py:2: @task\.branch is not part"),
        (HEAD + "task(depends_on_past=True)\n", r"pipeline\.py:2: @task has no argument 'depends_on_past'"),
        (
            IN_DAG + "    task(retry_delay=float('nan'))(print)()\n",
            r"pipeline\.py:3: retry_delay .* takes a timedelta or a number",
        ),
        (
            IN_DAG + "    task(retry_delay=float('inf'))(print)()\n",
            r"pipeline\.py:3: retry_delay .* takes a timedelta or a number",
        ),
        (IN_DAG + "    task(trigger_rule='dummy')(print)()\n", r"pipeline\.py:3: trigger_rule of task 'print' is 'dummy'"),
        (IN_DAG + "    task(functools.partial(print, 1))()\n", r"pipeline\.py:3: @task goes on a function, .* has no name"),
        (IN_DAG + "    task(outlets=['s3://x'])(print)()\n", r"pipeline\.py:3: outlets of task 'print' .*write Asset"),
        (IN_DAG + "    Triggered(task_id='t')\n", r"pipeline\.py:3: task 't': Triggered has start_from_trigger"),
        (
            IN_DAG + "    Triggered(task_id='t', deferrable=True)\n",
            r"pipeline\.py:3: Triggered has no argument 'deferrable'",
        ),
        (IN_DAG + "    task(print)()['x']\n", r"pipeline\.py:3: task 'print' has no multiple_outputs"),
        (IN_DAG + "    str(task(print)())\n", r"pipeline\.py:3: .*has no text while the file is loaded"),
        (IN_DAG + "    [*task(print)()]\n", r"pipeline\.py:3: .*is not known yet; use expand"),
        (IN_DAG + "    task(print)() >> print\n", r"pipeline\.py:3: .*is no task.*call it first"),
    ],
)
def test_failure_names_file_and_line(tmp_path, text, message):
    """A file that does not load says in one line where and why."""
    with pytest.raises(DagLoadError, match=message) as caught:
        load_dags(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_file_that_is_no_text(tmp_path):
    """A file that is no Python source is named."""
    path = tmp_path / "pipeline.py"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DagLoadError, match=re.escape(f"{path}:1:")):
        load_dags(path)


def test_missing_file_is_named(tmp_path):
    """A missing file is named."""
    with pytest.raises(DagLoadError, match=r"cannot read the DAG file .*gone\.py: No such file"):
        load_dags(tmp_path / "gone.py")


def test_choosing_a_dag(tmp_path):
    """The only DAG needs no name; of several, one has to be named, and the message lists them."""
    one = load_dags(write(tmp_path, HEAD + "DAG('a')\n"))
    assert choose_dag(one, None, "f.py").dag_id == "a"
    two = load_dags(write(tmp_path, HEAD + "DAG('a')\nDAG('b')\n"))
    assert choose_dag(two, "b", "f.py").dag_id == "b"
    with pytest.raises(RunnerUsageError, match="2 DAGs; name one: a, b"):
        choose_dag(two, None, "f.py")
    with pytest.raises(RunnerUsageError, match="no DAG 'c'; it has: a, b"):
        choose_dag(two, "c", "f.py")
