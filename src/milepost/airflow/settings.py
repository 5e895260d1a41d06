"""The settings inside Airflow: ``[milepost]`` of ``airflow.cfg``, then ``[state_store]`` where the user has set it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from milepost.airflow import configuration
from milepost.airflow.configuration import Source
from milepost.config import OPTIONS, SERVER_OPTIONS, Option, mask_url, place_of_secret
from milepost.config.settings import as_flag, as_number, parse_option
from milepost.errors import ConfigurationError

__all__ = ["PLUGIN_OPTIONS", "AirflowSettings", "check", "durable_operators", "load", "name_secret"]

_OURS = configuration.OURS
_SHARED = "state_store"
_NOT_SHARED = frozenset({"url", "backend"})
"""Options that are not taken from Airflow's own section: a backend there is one of Airflow's."""

PLUGIN_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("secret", None, SERVER_OPTIONS["secret"].parse, "the worker secret of the server at url", secret=True),
        Option("served_url", None, OPTIONS["url"].parse, "the store that Airflow's API server opens to workers (Airflow 3)"),
        Option("open_timeout", 3, as_number(1), "seconds that a task start waits for the store, once"),
        Option("keep_test_state", False, as_flag, "use the real store in dag.test() and tasks test, too"),
        Option("sync_interval", 0, as_number(0), "seconds between looks of the scheduler at Airflow's records; 0: none"),
        Option("take_over", False, as_flag, "on Airflow 3.3 and later, let the longer names be Milepost's stores, too"),
        Option("durable_operators", True, as_flag, "let the operators of providers keep their jobs over retries"),
    )
}


_KNOWN: Final = {**OPTIONS, **PLUGIN_OPTIONS}
_SENSITIVE: Final = frozenset(
    (_OURS, one.name) for one in _KNOWN.values() if one.secret or one.name in ("url", "served_url")
)
"""Options that may have a password in them."""


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
        places: Where options are set, by name.
    """

    arguments: dict[str, Any]
    secret: str | None
    served_url: str | None
    open_timeout: int
    keep_test_state: bool
    sync_interval: int
    take_over: bool
    durable_operators: bool
    places: Mapping[str, str] = MappingProxyType({})

    @property
    def secret_place(self) -> str:
        """Where the secret is set."""
        return place_of_secret(self.places.get("secret", "Airflow's configuration [milepost]"))

    def __repr__(self) -> str:
        shown = {name: mask_url(value) if name == "url" else value for name, value in self.arguments.items()}
        return f"AirflowSettings({shown!r}, open_timeout={self.open_timeout}, keep_test_state={self.keep_test_state})"


def load() -> AirflowSettings:
    """Return the settings in force.

    Raises:
        ConfigurationError: An option is unknown or has a bad value; the message names the place.
    """
    configuration.keep_secret(_SENSITIVE)
    arguments: dict[str, Any] = {}
    own: dict[str, Any] = {name: option.default for name, option in PLUGIN_OPTIONS.items()}
    places: dict[str, str] = {}
    for name, source in sorted(configuration.sources(_OURS).items()):
        value = _value(_OURS, name, source, _KNOWN)
        (own if name in PLUGIN_OPTIONS else arguments)[name], places[name] = value, source.place
    for name, source in sorted(configuration.sources(_SHARED).items()):
        if name in OPTIONS and name not in _NOT_SHARED and name not in arguments:
            arguments[name], places[name] = _value(_SHARED, name, source, OPTIONS), source.place
    if own["secret"] is not None and "url" not in arguments and own["served_url"] is None:
        raise ConfigurationError(f"{places['secret']}: secret is that of a server, and there is no url")
    return AirflowSettings(arguments, **own, places=places)


def _value(section: str, name: str, source: Source, known: dict[str, Option]) -> Any:
    if source.by and name in known and (section, name) not in _SENSITIVE:
        able = ", ".join(sorted(option for _, option in _SENSITIVE))
        raise ConfigurationError(
            f"{source.place}: {name} cannot be given by {source.by}; options of [{_OURS}] that can: {able}"
        )
    raw = configuration.fetched(section, name, source) if name in known else ""
    return parse_option(name, raw, source.place, section, known)


def durable_operators() -> bool:
    """Return that option alone: what is wrong with others does not matter, and no command is run.

    Raises:
        ConfigurationError: Its value is bad.
    """
    source = configuration.sources(_OURS).get("durable_operators")
    if source is None:
        return bool(PLUGIN_OPTIONS["durable_operators"].default)
    return bool(_value(_OURS, "durable_operators", source, _KNOWN))


def check() -> None:
    """Look at ``[milepost]`` without running commands or fetching secrets, and have Airflow hide what may be secret.

    Raises:
        ConfigurationError: As in `load`.
    """
    found = configuration.sources(_OURS)
    if found:
        configuration.keep_secret(_SENSITIVE)
    for name, source in sorted(found.items()):
        if not source.by or (_OURS, name) not in _SENSITIVE:
            _value(_OURS, name, source, _KNOWN)


def name_secret(metastore: Any, settings: AirflowSettings) -> None:
    """Have the client of a server say where the secret is set, should the server not accept it."""
    if settings.secret is not None and hasattr(metastore, "credential_source"):
        metastore.credential_source = settings.secret_place
