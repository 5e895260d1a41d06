"""The settings inside Airflow: ``[milepost]`` of ``airflow.cfg``, then ``[state_store]`` where the user has set it."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from milepost.airflow import configuration
from milepost.config import OPTIONS, Option, mask_url
from milepost.config.settings import as_flag, as_number, as_text, parse_option
from milepost.errors import ConfigurationError

__all__ = ["PLUGIN_OPTIONS", "AirflowSettings", "load", "name_secret"]

_OURS = configuration.OURS
_SHARED = "state_store"
_NOT_SHARED = frozenset({"url", "backend"})
"""Options that are not taken from Airflow's own section: a backend there is one of Airflow's."""

PLUGIN_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("secret", None, as_text, "the worker secret of the server at url", secret=True),
        Option("served_url", None, OPTIONS["url"].parse, "the store that Airflow's API server opens to workers (Airflow 3)"),
        Option("open_timeout", 3, as_number(1), "seconds that a task start waits for the store, once"),
        Option("keep_test_state", False, as_flag, "use the real store in dag.test() and tasks test, too"),
        Option("sync_interval", 0, as_number(0), "seconds between looks of the scheduler at Airflow's records; 0: none"),
        Option("take_over", False, as_flag, "on Airflow 3.3 and later, let the longer names be Milepost's stores, too"),
        Option("durable_operators", True, as_flag, "let the operators of providers keep their jobs over retries"),
    )
}


class AirflowSettings(NamedTuple):
    """The settings in force.

    Args:
        arguments: Options of ``[state_store]`` of Milepost that Airflow's configuration sets, by name.
        secret: The worker secret of the server at ``url``.
        served_url: The store that Airflow's API server opens to workers.
        open_timeout: Seconds that a task start waits for the store.
        keep_test_state: Whether tests use the real store.
        sync_interval: Seconds between looks of the scheduler at Airflow's records; 0: none.
        take_over: Whether the longer names are Milepost's on Airflow 3.3 and later.
        durable_operators: Whether operators of providers keep their jobs.
    """

    arguments: dict[str, Any]
    secret: str | None
    served_url: str | None
    open_timeout: int
    keep_test_state: bool
    sync_interval: int
    take_over: bool
    durable_operators: bool

    def __repr__(self) -> str:
        shown = {name: mask_url(value) if name == "url" else value for name, value in self.arguments.items()}
        return f"AirflowSettings({shown!r}, open_timeout={self.open_timeout}, keep_test_state={self.keep_test_state})"


def load() -> AirflowSettings:
    """Return the settings in force.

    Raises:
        ConfigurationError: An option is unknown or has a bad value; the message names the place.
    """
    known = {**OPTIONS, **PLUGIN_OPTIONS}
    place = f"Airflow's configuration [{_OURS}]"
    arguments: dict[str, Any] = {}
    own: dict[str, Any] = {name: option.default for name, option in PLUGIN_OPTIONS.items()}
    for name in sorted(configuration.user_options(_OURS)):
        raw = configuration.configured(_OURS, name) if name in known else ""
        if raw is None:
            raise ConfigurationError(f"{place}: {name} is set by a command or a secret, which gives nothing")
        value = parse_option(name, raw, place, _OURS, known)
        (own if name in PLUGIN_OPTIONS else arguments)[name] = value
    for name in configuration.user_options(_SHARED) & (OPTIONS.keys() - _NOT_SHARED) - arguments.keys():
        raw = configuration.configured(_SHARED, name)
        if raw is not None:
            arguments[name] = parse_option(name, raw, f"Airflow's configuration [{_SHARED}]", _SHARED, OPTIONS)
    if own["secret"] is not None and "url" not in arguments and own["served_url"] is None:
        raise ConfigurationError(f"{place}: secret is that of a server, and there is no url")
    return AirflowSettings(arguments, **own)


def name_secret(metastore: Any, settings: AirflowSettings) -> None:
    """Have the client of a server say where the secret is set, should the server not accept it."""
    if settings.secret is not None and hasattr(metastore, "credential_source"):
        variables = [f"AIRFLOW__MILEPOST__SECRET{kind}" for kind in ("", "_CMD", "_SECRET")]
        found = next((one for one in variables if one in os.environ), None)
        place = "Airflow's configuration [milepost] secret" if found is None else f"environment variable {found}"
        metastore.credential_source = place
