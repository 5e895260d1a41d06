"""Where a setting comes from: argument, then environment, then default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from milepost.config.settings import OPTIONS, Settings, parse_option

__all__ = ["default_url", "load_settings"]

_PREFIX = "MILEPOST__STATE_STORE__"


def default_url(environment: Mapping[str, str]) -> str:
    """Return the URL of the SQLite file in ``MILEPOST_HOME`` or else in the user's state folder."""
    home = environment.get("MILEPOST_HOME")
    if home:
        folder = Path(home).expanduser().absolute()
    else:
        from platformdirs import user_state_path

        folder = user_state_path("milepost", appauthor=False)
    return f"sqlite:///{folder / 'milepost.db'}"


def load_settings(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in force.

    Args:
        arguments: Options given in code, by name; `None` counts as not given.
        environment: By default that of the process.

    Raises:
        ConfigurationError: An option is unknown or has a bad value; the message names the place it came from.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {option.name: option.default for option in OPTIONS.values()}
    for variable, raw in environment.items():
        if variable.startswith(_PREFIX):
            name = variable[len(_PREFIX) :].lower()
            values[name] = parse_option(name, raw, f"environment variable {variable}")
    for name, raw in arguments.items():
        if raw is not None or name not in OPTIONS:
            values[name] = parse_option(name, raw, "argument")
    if values["url"] is None:
        values["url"] = default_url(environment)
    return Settings(**values)
