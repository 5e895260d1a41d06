"""Options of `[milepost]` as Airflow's own configuration gives them."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from milepost import ConfigurationError
from milepost.airflow import keeping, process
from milepost.airflow.serving import Serving, apps
from milepost.airflow.settings import durable_operators, load


class Conf(ConfigParser):
    """Like Airflow's: what a command or a secret gives is looked for where the option is known to be sensitive."""

    def __init__(self, text: str, commands: dict[str, str]) -> None:
        super().__init__()
        self.read_string(text)
        self.commands = commands

    @functools.cached_property
    def sensitive_config_values(self) -> set[tuple[str, str]]:
        """Options that Airflow hides, and lets commands give."""
        return {("core", "fernet_key")}

    def get(self, section: str, option: str, **arguments: Any) -> Any:
        """Return an option."""
        if (section, option) in self.sensitive_config_values and f"{option}_cmd" in self.commands:
            return self.commands[f"{option}_cmd"]
        return super().get(section, option, **arguments)


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives Airflow's configuration a text and what commands print."""

    def make(text: str = "", **commands: str) -> None:
        module: Any = ModuleType("airflow.configuration")
        module.conf = type("OneConf", (Conf,), {})(text, commands)
        module.AIRFLOW_CONFIG = "/etc/airflow.cfg"
        package: Any = ModuleType("airflow")
        package.configuration = module
        monkeypatch.setitem(sys.modules, "airflow", package)
        monkeypatch.setitem(sys.modules, "airflow.configuration", module)
        for name in commands:
            monkeypatch.setenv(f"AIRFLOW__MILEPOST__{name.upper()}", "a command")

    return make


def test_a_command_gives_the_url_and_the_secret(configured: Callable[..., None]) -> None:
    """`url_cmd` and `secret_cmd` work as Airflow's own do; the end of the line that a command prints is no part of it."""
    configured(url_cmd="http://store:8080\n", secret_cmd="0123456789abcdef\n")
    settings = load()
    assert (settings.arguments, settings.secret) == ({"url": "http://store:8080"}, "0123456789abcdef")


def test_a_command_that_gives_nothing_is_an_error(configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was to be fetched is never replaced by the default without a word."""
    configured()
    monkeypatch.setenv("AIRFLOW__MILEPOST__URL_SECRET", "a path")
    with pytest.raises(
        ConfigurationError, match="AIRFLOW__MILEPOST__URL_SECRET: url is set by a secret, which gives nothing"
    ):
        load()
    configured(secret_cmd="\n")
    with pytest.raises(ConfigurationError, match="_SECRET_CMD: secret is set by a command, which gives nothing"):
        load()


def test_a_command_that_is_not_there_is_an_error(configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is named, as where a command fails."""

    def get(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/nonexistent")

    configured(url_cmd="never printed")
    monkeypatch.setattr(Conf, "get", get)
    with pytest.raises(ConfigurationError, match=r"AIRFLOW__MILEPOST__URL_CMD: url is set by a command, which fails$"):
        load()


def test_whether_operators_are_durable_is_told_whatever_else_is_wrong(configured: Callable[..., None]) -> None:
    """DAG files ask for it while they are loaded: other options are not looked at."""
    for text, expected in (("", True), ("durable_operators = False\n", False)):
        configured(f"[milepost]\nurl_cmd = false\non_claer = keep\n{text}")
        with pytest.raises(ConfigurationError, match="on_claer"):
            load()
        assert durable_operators() is expected
    configured("[milepost]\ndurable_operators = perhaps\n")
    with pytest.raises(ConfigurationError, match=r"^/etc/airflow\.cfg \[milepost\]: durable_operators "):
        durable_operators()


def test_a_single_percent_sign_is_an_error_without_the_value(configured: Callable[..., None]) -> None:
    """The file's own rules for % hold, and the message tells them without the password that had it."""
    configured("[milepost]\nurl = postgresql://u:p%40ss@db/m\n")
    with pytest.raises(ConfigurationError) as caught:
        load()
    assert str(caught.value) == "/etc/airflow.cfg [milepost]: url has a single %; in a file, write %% for it"
    assert caught.value.__cause__ is None


def test_what_may_be_secret_is_hidden_by_airflow(configured: Callable[..., None]) -> None:
    """Airflow hides the URLs and the secret as its own options, also after it has loaded its providers and begins anew."""
    configured("[milepost]\nurl = sqlite:////x\n")
    load()
    conf: Any = sys.modules["airflow.configuration"].conf
    expected = {("core", "fernet_key"), *(("milepost", name) for name in ("url", "served_url", "secret"))}
    for _ in range(2):
        assert conf.sensitive_config_values == expected
        del conf.sensitive_config_values


@pytest.mark.parametrize("section", ["milepost", "state_store"])
def test_other_options_are_not_given_by_commands(configured: Callable[..., None], section: str) -> None:
    """Airflow runs commands for sensitive options only; for others that is an error, and not the default without a word."""
    configured(f"[{section}]\narchive_days_cmd = echo 3\n")
    with pytest.raises(ConfigurationError) as caught:
        load()
    assert str(caught.value) == (
        f"/etc/airflow.cfg [{section}]: archive_days cannot be given by a command; options of [milepost] that can: "
        "secret, served_url, url"
    )


def test_an_error_names_the_file_or_the_variable(configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has to mend an option is told where it stands; a variable counts more than the file."""
    configured("[milepost]\non_clear = forget\n")
    with pytest.raises(ConfigurationError, match=r"^/etc/airflow\.cfg \[milepost\]: on_clear must be"):
        load()
    monkeypatch.setenv("AIRFLOW__MILEPOST__ON_CLEAR", "drop")
    with pytest.raises(ConfigurationError, match=r"^environment variable AIRFLOW__MILEPOST__ON_CLEAR: on_clear must be"):
        load()


def test_a_short_secret_and_a_quoted_url_say_what_is_wrong(configured: Callable[..., None]) -> None:
    """Both are named with their place and without their value."""
    configured("[milepost]\nurl = http://store\nsecret = short\n")
    with pytest.raises(ConfigurationError, match=r"cfg \[milepost\]: secret must have 16 characters or more$"):
        load()
    configured("[milepost]\nurl = 'postgresql://u:hidden@db/m'\n")
    with pytest.raises(ConfigurationError, match=r"cfg \[milepost\]: url must be written without quotes") as caught:
        load()
    assert "hidden" not in str(caught.value)


def test_memory_is_no_store_of_tasks(configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that ends with each attempt is refused, wherever it is configured; `dag.test()` has one of its own."""
    configured("[milepost]\nurl = memory://\n")
    with pytest.raises(ConfigurationError, match=r"^/etc/airflow\.cfg \[milepost\]: memory:// lives in one process"):
        process.store(load())
    process.store(load(), test=("dag", "run", None)).close()
    configured()
    monkeypatch.setenv("MILEPOST__STATE_STORE__URL", "memory://")
    with pytest.raises(ConfigurationError, match=r"^environment variable MILEPOST__STATE_STORE__URL: memory:// lives"):
        process.store(load())


def test_the_log_of_a_task_names_the_store_once(
    configured: Callable[..., None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where state goes is in the log of the first task of a process that uses it."""
    url = f"sqlite:///{tmp_path}/state.db"
    configured(f"[milepost]\nurl = {url}\n")
    with caplog.at_level(logging.INFO, "milepost.airflow"):
        store = process.store(load())
        assert process.store(load()) is store
    store.close()
    assert caplog.messages == [f"Milepost keeps state in {url}"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("servedurl = sqlite:////x", "/etc/airflow.cfg [milepost]: there is no option 'servedurl'"),
        ("sync_interval = often", "/etc/airflow.cfg [milepost]: sync_interval must be a whole number"),
        ("served_url = memory://", "/etc/airflow.cfg [milepost]: served_url names a file or a database, not memory"),
    ],
)
def test_an_api_server_with_a_wrong_section_is_not_ready(
    configured: Callable[..., None], caplog: pytest.LogCaptureFixture, text: str, error: str
) -> None:
    """Every component logs an unknown option or a bad value once; the API server says that it is not ready."""
    configured(f"[milepost]\nsecret = 0123456789abcdef\n{text}\n")
    (mounted,) = apps()
    assert isinstance(mounted["app"], Serving)
    sent: list[Any] = []

    async def ask() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        await mounted["app"]({"type": "http", "path": "/ready", "method": "GET", "headers": []}, None, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 503
    assert error in caplog.text


def test_an_api_server_without_a_store_to_open_mounts_nothing(configured: Callable[..., None]) -> None:
    """Only `served_url` asks for it."""
    for text in ("", "[milepost]\nurl = sqlite:////x\n"):
        configured(text)
        assert apps() == []


def test_a_bad_interval_is_named_with_its_place(
    configured: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A scheduler that cannot keep the store in line says which file or variable to mend, once."""
    configured("[milepost]\nsync_interval = often\n")
    monkeypatch.setattr(sys, "argv", ["airflow", "scheduler"])
    monkeypatch.setattr(keeping, "_kept", [])
    for _ in range(2):
        keeping.keep_in_line()
    expected = "/etc/airflow.cfg [milepost]: sync_interval must be a whole number"
    assert caplog.messages == [f"the store is not kept in line with Airflow: {expected}"]
