"""Reads the configuration of Airflow."""

from __future__ import annotations

import functools
import os
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

__all__ = ["OURS", "Source", "configured", "fetched", "keep_secret", "plainly_configured", "sources"]

OURS = "milepost"
"""The section of Milepost."""

_SENSITIVE = "sensitive_config_values"


class Source(NamedTuple):
    """Where an option is set.

    Args:
        place: The variable, or the file and the section.
        by: ``a command`` or ``a secret`` that gives the value, or nothing where it stands there as it is.
    """

    place: str
    by: str


def _configuration() -> Any:
    from airflow.configuration import conf

    return conf


class _Sensitive(functools.cached_property[Any]):
    """The set of Airflow's options that are sensitive, with Milepost's."""


def keep_secret(options: AbstractSet[tuple[str, str]]) -> None:
    """Have Airflow hide options, and let commands and secrets give them; it does so for options only that are sensitive.

    The entry point for policies would be too early: Airflow reads all sensitive options right after that, so each of its
    processes would run the commands, and stop at a bad value.

    Args:
        options: Sections and options.
    """
    conf = _configuration()
    kind = next(one for one in type(conf).__mro__ if _SENSITIVE in vars(one))
    found = vars(kind)[_SENSITIVE]
    if not isinstance(found, _Sensitive):
        # Airflow makes the set again whenever it has loaded its providers.
        ours = _Sensitive(lambda of: {*found.func(of), *options})
        ours.__set_name__(kind, _SENSITIVE)
        setattr(kind, _SENSITIVE, ours)
        vars(conf).pop(_SENSITIVE, None)


def configured(section: str, name: str) -> str | None:
    """Return an option of Airflow's configuration as text: from the environment, a command, a secret or the file.

    Args:
        section: The section.
        name: The option.
    """
    value = _configuration().get(section, name, fallback=None)
    return None if value is None else str(value).strip()


def fetched(section: str, name: str, source: Source) -> str:
    """Return an option that the user has set, as `configured` does.

    Args:
        section: The section.
        name: The option.
        source: Where it is set.

    Raises:
        ConfigurationError: It cannot be read, or what should give it gives nothing.
    """
    from configparser import InterpolationError

    from milepost.errors import ConfigurationError

    try:
        text = configured(section, name)
    except InterpolationError:
        # Its message has a part of the value.
        raise ConfigurationError(f"{source.place}: {name} has a single %; in a file, write %% for it") from None
    except Exception as error:
        if type(error).__name__ != "AirflowConfigException" and not isinstance(error, OSError):
            raise
        # Its message has what the command printed. An `OSError`: there is no such command.
        raise ConfigurationError(f"{source.place}: {name} is set by {source.by or 'a value'}, which fails") from None
    if source.by and not text:
        raise ConfigurationError(f"{source.place}: {name} is set by {source.by}, which gives nothing")
    return text or ""


def plainly_configured(section: str, name: str) -> str | None:
    """Return an option that stands in the environment or in the file as it is: no command is run, no secret is fetched.

    Args:
        section: The section.
        name: The option.
    """
    from configparser import RawConfigParser

    found = os.environ.get(f"AIRFLOW__{section.upper()}__{name.upper()}")
    return found or RawConfigParser.get(_configuration(), section, name, raw=True, fallback=None)


def sources(section: str) -> dict[str, Source]:
    """Return the options of a section that the user has set, with where that is.

    Args:
        section: The section.
    """
    from configparser import RawConfigParser

    conf = _configuration()
    found: dict[str, Source] = {}
    # The defaults are in another parser; the user's file is in this one itself.
    if RawConfigParser.has_section(conf, section):
        from airflow import configuration

        place = f"{getattr(configuration, 'AIRFLOW_CONFIG', 'airflow.cfg')} [{section}]"
        _add(found, dict.fromkeys(RawConfigParser.options(conf, section), place))
    prefix = f"AIRFLOW__{section.upper()}__"
    variables = [name for name in os.environ if name.startswith(prefix)]
    _add(found, {name.removeprefix(prefix).lower(): f"environment variable {name}" for name in variables})
    return found


def _add(found: dict[str, Source], places: dict[str, str]) -> None:
    """Add what stands in one place; of several ways to set an option there, the first counts that Airflow looks at."""
    for ending, by in (("_secret", "a secret"), ("_cmd", "a command")):
        found.update({n.removesuffix(ending): Source(place, by) for n, place in places.items() if n.endswith(ending)})
    found.update({n: Source(place, "") for n, place in places.items() if not n.endswith(("_secret", "_cmd"))})
