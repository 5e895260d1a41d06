"""Reads the configuration of Airflow."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["OURS", "configured", "plainly_configured", "user_options"]

OURS = "milepost"
"""The section of Milepost."""


def _configuration() -> Any:
    from airflow.configuration import conf

    return conf


def configured(section: str, name: str) -> str | None:
    """Return an option of Airflow's configuration as text: from the environment, a command, a secret or the file.

    Args:
        section: The section.
        name: The option.

    Raises:
        ConfigurationError: It cannot be read.
    """
    from configparser import InterpolationError

    from milepost.errors import ConfigurationError

    conf = _configuration()
    if section == OURS:
        # Airflow runs commands and fetches secrets for options only that it knows to be sensitive.
        conf.sensitive_config_values.add((section, name))
    try:
        value = conf.get(section, name, fallback=None)
    except InterpolationError:
        # Its message has a part of the value.
        place = f"Airflow's configuration [{section}]"
        raise ConfigurationError(f"{place}: {name} has a single %; in a file, write %% for it") from None
    return None if value is None else str(value).strip()


def plainly_configured(section: str, name: str) -> str | None:
    """Return an option that stands in the environment or in the file as it is: no command is run, no secret is fetched.

    Args:
        section: The section.
        name: The option.
    """
    from configparser import RawConfigParser

    found = os.environ.get(f"AIRFLOW__{section.upper()}__{name.upper()}")
    return found or RawConfigParser.get(_configuration(), section, name, raw=True, fallback=None)


def user_options(section: str) -> set[str]:
    """Return the names of the options of a section that the user has set.

    Args:
        section: The section.
    """
    from configparser import RawConfigParser

    conf = _configuration()
    found: set[str] = set()
    # The defaults are in another parser; the user's file is in this one itself.
    if RawConfigParser.has_section(conf, section):
        found.update(RawConfigParser.options(conf, section))
    prefix = f"AIRFLOW__{section.upper()}__"
    found.update(name.removeprefix(prefix).lower() for name in os.environ if name.startswith(prefix))
    return {name.removesuffix("_cmd").removesuffix("_secret") for name in found}
