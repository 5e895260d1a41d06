"""Has the command line look at the store of Airflow's tasks, where Airflow is configured to use one."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from importlib import metadata
from pathlib import Path

from milepost.cli.common import fail
from milepost.config import Elsewhere, Resolved
from milepost.errors import ConfigurationError, MilepostError

__all__ = ["airflow_here", "airflow_options", "load_airflow_options", "plugin_is_found", "where_configured"]

_PREFIX = "AIRFLOW__MILEPOST__"


def where_configured() -> str | None:
    """Return where Airflow's configuration has options of ``[milepost]``, for this user and shell, without loading it."""
    variable = next((name for name in sorted(os.environ) if name.startswith(_PREFIX)), None)
    if variable is not None:
        return f"environment variable {variable}"
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    path = Path(os.path.expandvars(os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg")).expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"Airflow's configuration {path} cannot be read: {error.strerror}") from error
    return f"{path} [milepost]" if re.search(r"^\[milepost\]", text, re.MULTILINE) else None


def airflow_here() -> bool:
    """Tell whether this Python has Airflow; a folder of that name is none."""
    spec = importlib.util.find_spec("airflow")
    return spec is not None and (spec.origin or "").endswith("__init__.py")


def plugin_is_found() -> bool:
    """Tell whether Airflow in this environment finds the plugin."""
    return any(one.value.startswith("milepost.") for one in metadata.entry_points(group="airflow.plugins"))


@functools.cache
def airflow_options() -> Elsewhere:
    """Return the options that tasks of Airflow have, if Airflow is configured with some; none otherwise.

    Raises:
        ConfigurationError: They are wrong, or Airflow cannot be loaded.
    """
    place = where_configured()
    if place is None:
        return Elsewhere({}, None)
    if not airflow_here():
        fail(f"this Python has no Airflow, so its configuration ({place}) is not looked at; --url names its store")
        return Elsewhere({}, None)
    return load_airflow_options()


def load_airflow_options() -> Elsewhere:
    """Return the options that tasks of Airflow have.

    Raises:
        MilepostError: They are wrong, or Airflow cannot be loaded.
    """
    from milepost.airflow.records import at_airflow
    from milepost.airflow.settings import load

    try:
        with at_airflow():
            settings = load()
    except MilepostError:
        raise
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise ConfigurationError(f"Airflow's configuration cannot be read: {type(error).__name__}: {first}") from error
    options = {name: Resolved(value, settings.places[name]) for name, value in settings.arguments.items()}
    if "url" not in options and settings.served_url is not None:
        # This is where its API server runs.
        options["url"] = Resolved(settings.served_url, f"{settings.places['served_url']} served_url")
    secret = None if settings.secret is None else Resolved(settings.secret, settings.secret_place)
    return Elsewhere(options, secret)
