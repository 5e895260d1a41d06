"""The command line where Airflow is configured to use a store: it looks at the same one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from milepost import TaskScope, connect
from tests.integration.cli.conftest import ONE, Result

CONFIGURATION = """
import functools, os
from configparser import ConfigParser

class Conf(ConfigParser):
    def get(self, section, option, **arguments):
        found = os.environ.get(f"AIRFLOW__{section}__{option}".upper())
        return found or super().get(section, option, **arguments)

    @functools.cached_property
    def sensitive_config_values(self):
        return set()

AIRFLOW_CONFIG = os.path.expandvars("$AIRFLOW_HOME/airflow.cfg")
conf = Conf()
conf.read(AIRFLOW_CONFIG)
print("setting up Airflow")
"""


class Shell:
    """Runs commands where Airflow has a home, and perhaps is there itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/tasks.db"
        hidden = ("MILEPOST", "PYTHON", "AIRFLOW", "XDG_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment = {
            **kept,
            "AIRFLOW_HOME": str(folder),
            "MILEPOST_HOME": str(folder),
            "PYTHONPATH": str(folder / "lib"),
        }

    def configure(self, text: str) -> Shell:
        """Write Airflow's configuration."""
        (self.folder / "airflow.cfg").write_text(text)
        return self

    def with_airflow(self, configuration: str = CONFIGURATION) -> Shell:
        """Install a package that is like Airflow."""
        package = self.folder / "lib" / "airflow"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "configuration.py").write_text(configuration)
        return self

    def __call__(self, *args: str, code: int = 0, **env: str) -> Result:
        """Run a command that must leave with a code."""
        command = [sys.executable, "-m", "milepost", *args]
        given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "cwd": self.folder}
        done = subprocess.run(command, env={**self.environment, **env}, check=False, **given)
        assert done.returncode == code, done.stderr + done.stdout
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell without Airflow."""
    return Shell(tmp_path)


def test_commands_look_at_the_store_of_airflows_tasks(shell: Shell) -> None:
    """What tasks stored is found, a value is written there, and each command goes to the same place; `--url` still wins."""
    shell.configure(f"[milepost]\nurl = {shell.url}\narchive_days = 3\n").with_airflow()
    with connect(shell.url) as store:
        store.task_store(TaskScope(*ONE)).set("page", 12)
    assert shell("task-store", "get", *ONE, "page").out == "12\n"
    assert shell("clean").err == "setting up Airflow\n"
    for command in (("db", "stats"), ("db", "verify"), ("export",)):
        assert shell(*command).out
    shown = shell("config", "show", "--json").json["state_store"]
    place = f"{shell.folder}/airflow.cfg [milepost]"
    assert [shown[name] for name in ("url", "archive_days")] == [
        {"value": shell.url, "source": place},
        {"value": 3, "source": place},
    ]
    assert shell("config", "show", "--url", "sqlite:///x.db", "--json").json["state_store"]["url"]["source"] == "--url"
    assert "no store" in shell("task-store", "get", *ONE, "page", "--url", "sqlite:///x.db", code=6).err


def test_a_variable_counts_and_is_named(shell: Shell) -> None:
    """Options of `[milepost]` in the environment are options of tasks, too; an error names the variable."""
    shell.with_airflow()
    shown = shell("config", "show", "--json", AIRFLOW__MILEPOST__URL=shell.url).json["state_store"]["url"]
    assert shown == {"value": shell.url, "source": "environment variable AIRFLOW__MILEPOST__URL"}
    told = shell("runs", "list", code=2, AIRFLOW__MILEPOST__ULR=shell.url).err
    assert "environment variable AIRFLOW__MILEPOST__ULR: there is no option 'ulr' in [milepost]" in told


def test_where_the_api_server_opens_a_store_it_is_that(shell: Shell) -> None:
    """Without a `url` beside it, `served_url` is the store: this is where it is collected."""
    shell.configure(f"[milepost]\nserved_url = {shell.url}\nsecret = 0123456789abcdef\n").with_airflow()
    assert shell("config", "show", "--json").json["state_store"]["url"]["value"] == shell.url


def test_doctor_says_whose_store_it_looks_at(shell: Shell) -> None:
    """One line names where Airflow is configured, and whether its plugin is found; without Airflow that is a warning."""
    shell.configure(f"[milepost]\nurl = {shell.url}\n").with_airflow()
    text = f"configured ({shell.folder}/airflow.cfg [milepost]); this looks at "
    for arguments, whose in (
        ((), "the store that its tasks use"),
        (("--url", "sqlite:///x.db"), "--url, not what its tasks use"),
    ):
        (found,) = (one for one in shell("doctor", "--json", *arguments).json["checks"] if one["name"] == "airflow")
        assert (found["status"], found["text"]) == ("ok", f"{text}{whose}; the plugin is found")
    (found,) = (one for one in shell("doctor", "--json", PYTHONPATH="").json["checks"] if one["name"] == "airflow")
    assert found["status"] == "warn"


def test_without_airflow_a_note_says_that_its_configuration_is_not_looked_at(shell: Shell) -> None:
    """A folder named `airflow` is no Airflow. Where nothing of Milepost is configured in it, nothing is said."""
    (shell.folder / "airflow").mkdir()
    noted = shell.configure("[milepost]\nurl = memory://\n")("config", "show", "--json")
    assert noted.json["state_store"]["url"]["source"] == "MILEPOST_HOME"
    assert noted.err == (
        f"milepost: this Python has no Airflow, so its configuration ({shell.folder}/airflow.cfg [milepost]) is not "
        "looked at; --url names its store\n"
    )
    assert shell.configure("[core]\nunit_test_mode = False\n")("config", "show", "--json").err == ""


def test_help_loads_nothing_of_airflow(shell: Shell) -> None:
    """Only a command that needs an option does; what goes wrong there is one line."""
    shell.configure("[milepost]\nurl = sqlite:////x\n").with_airflow("raise RuntimeError('out of order')")
    assert shell("runs", "list", "--help").err == ""
    told = shell("runs", "list", code=2).err
    assert told == "milepost: Airflow's configuration cannot be read: RuntimeError: out of order\n"


def test_a_server_is_configured_for_itself(shell: Shell) -> None:
    """`serve` does not take the url of workers, which may lead to itself; its own url is refused with its place."""
    shell.configure("[milepost]\nurl = http://127.0.0.1:1/\nsecret = 0123456789abcdef\n").with_airflow()
    told = shell("serve", "--port", "0", code=2, MILEPOST__STATE_STORE__URL="http://127.0.0.1:2").err
    assert told.startswith(
        "milepost: environment variable MILEPOST__STATE_STORE__URL: http://127.0.0.1:2 is a server already"
    )


def test_airflow_commands_name_their_store(shell: Shell) -> None:
    """On standard error, with secrets masked."""
    shell.configure("[milepost]\nurl = postgresql://u:hidden@127.0.0.1:1/none?connect_timeout=1\n").with_airflow()
    told = shell("airflow", "sync", "--json", code=6)
    place = f"{shell.folder}/airflow.cfg [milepost]"
    assert told.out == ""
    assert f"milepost: the store is postgresql://u:***@127.0.0.1:1/none?connect_timeout=1 ({place})\n" in told.err


def test_airflow_commands_refuse_memory(shell: Shell) -> None:
    """What they would change is gone with their own process."""
    shell.configure("[milepost]\nurl = memory://\n").with_airflow()
    told = shell("airflow", "sync", code=2).err
    assert f"milepost: {shell.folder}/airflow.cfg [milepost]: memory:// lives in one process" in told


def test_the_secret_of_airflow_is_shown_to_its_server_only(shell: Shell) -> None:
    """A server that `--url` names gets the credential that is configured for the command line, if there is one."""
    shell.configure("[milepost]\nurl = http://192.0.2.1:1\nsecret = 0123456789abcdef\n").with_airflow()
    told = shell("runs", "list", "--url", "http://192.0.2.2:1", code=2).err
    assert "a server needs a credential" in told
