"""Names of Airflow 3.3 in the modules of an older one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
if "first" in sys.argv:
    import airflow.sdk
from milepost.airflow.names import add_missing_names
add_missing_names(lambda: "mixin")
from airflow.sdk import NEVER_EXPIRE, ResumableJobMixin, DAG, lazy
import airflow.sdk
import airflow.sdk.execution_time.context as context
print(NEVER_EXPIRE == context.NEVER_EXPIRE, ResumableJobMixin, DAG, lazy)
print(type(context.__loader__).__name__, type(context.__spec__.loader).__name__)
for module in (airflow.sdk, context):
    try:
        module.nothing
    except AttributeError as error:
        print(error)
"""
SDK = """
DAG = "dag"
def __getattr__(name):
    if name == "lazy":
        return "of the SDK"
    raise AttributeError(name + ": the SDK's own words")
"""


def run(folder: Path, sdk: str, context: str, *arguments: str) -> list[str]:
    """Return what the program prints beside an Airflow of these two modules."""
    package = folder / "airflow" / "sdk" / "execution_time"
    package.mkdir(parents=True)
    for init in (folder / "airflow", package):
        (init / "__init__.py").touch()
    (folder / "airflow" / "sdk" / "__init__.py").write_text(sdk)
    (package / "context.py").write_text(context)
    command = [
        sys.executable,
        "-c",
        f"sys_path = {str(folder)!r}; import sys; sys.path.insert(0, sys_path)\n{PROGRAM}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_missing_is_added_when_a_module_loads(tmp_path: Path) -> None:
    """The names are there, the modules' own names and errors stay, and their loaders are their own."""
    found = [
        "True mixin dag of the SDK",
        "SourceFileLoader SourceFileLoader",
        "nothing: the SDK's own words",
        "module 'airflow.sdk.execution_time.context' has no attribute 'nothing'",
    ]
    assert run(tmp_path / "later", SDK, "") == found
    assert run(tmp_path / "first", SDK, "", "first") == found


def test_what_is_there_stays(tmp_path: Path) -> None:
    """On Airflow 3.3, nothing is added, whether a name is there or comes when it is asked for."""
    sdk = SDK.replace('"lazy"', '"ResumableJobMixin"').replace("of the SDK", "its own") + "lazy = 1; NEVER_EXPIRE = 7\n"
    sdk += '__all__ = ["DAG", "ResumableJobMixin", "lazy", "NEVER_EXPIRE"]\n'
    assert run(tmp_path, sdk, "NEVER_EXPIRE = 7")[0] == "True its own dag 1"
