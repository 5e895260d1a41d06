"""Options of `[milepost]` as Airflow's own configuration gives them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from configparser import ConfigParser
from types import ModuleType
from typing import Any

import pytest

from milepost import ConfigurationError
from milepost.airflow.settings import load


class Conf(ConfigParser):
    """Like Airflow's: what a command or a secret gives is looked for where the option is known to be sensitive."""

    def __init__(self, text: str, commands: dict[str, str]) -> None:
        super().__init__()
        self.read_string(text)
        self.commands = commands
        self.sensitive_config_values: set[tuple[str, str]] = set()

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
        module.conf = Conf(text, commands)
        monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
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
    with pytest.raises(ConfigurationError, match=r"\[milepost\]: url is set by a command or a secret, which gives nothing"):
        load()


def test_a_single_percent_sign_is_an_error_without_the_value(configured: Callable[..., None]) -> None:
    """The file's own rules for % hold, and the message tells them without the password that had it."""
    configured("[milepost]\nurl = postgresql://u:p%40ss@db/m\n")
    with pytest.raises(ConfigurationError) as caught:
        load()
    assert str(caught.value) == "Airflow's configuration [milepost]: url has a single %; in a file, write %% for it"
    assert caught.value.__cause__ is None
