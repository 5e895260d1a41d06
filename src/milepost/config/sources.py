"""Where a setting comes from: argument, then environment, then file, then default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from milepost.config.settings import OPTIONS, Settings, parse_option
from milepost.errors import ConfigurationError

__all__ = ["Resolved", "config_file", "default_url", "load_settings", "resolve"]

_SECTION = "state_store"
_PREFIX = f"MILEPOST__{_SECTION.upper()}__"
_FILE = "milepost.cfg"


class Resolved(NamedTuple):
    """One option with its value and the place it came from."""

    value: Any
    source: str


def default_url(environment: Mapping[str, str]) -> str:
    """Return the URL of the SQLite file in ``MILEPOST_HOME`` or else in the user's state folder."""
    home = environment.get("MILEPOST_HOME")
    if home:
        folder = Path(home).expanduser().absolute()
    else:
        from platformdirs import user_state_path

        folder = user_state_path("milepost", appauthor=False)
    path = str(folder / "milepost.db").replace("%", "%25")
    return f"sqlite:///{path}"


def config_file(environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file in force, if there is one.

    It is the file that ``MILEPOST_CONFIG`` names, or else ``milepost.cfg`` in the current folder, or else the one in the
    user's configuration folder.

    Raises:
        ConfigurationError: ``MILEPOST_CONFIG`` names a file that is not there.
    """
    named = environment.get("MILEPOST_CONFIG")
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise ConfigurationError(f"environment variable MILEPOST_CONFIG names {named!r}, which is not a file")
        return path
    local = Path(_FILE)
    if local.is_file():
        return local
    from platformdirs import user_config_path

    user = user_config_path("milepost", appauthor=False) / _FILE
    return user if user.is_file() else None


def _from_file(path: Path) -> dict[str, Resolved]:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not a valid INI file: {_fault(error)}") from None  # it may show a password
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    if unknown := [name for name in parser.sections() if name != _SECTION] + list(parser.defaults()):
        raise ConfigurationError(f"{path}: [{unknown[0]}] is unknown to this release; known: [{_SECTION}]")
    found = {}
    for name, raw in parser.items(_SECTION) if parser.has_section(_SECTION) else ():
        place = f"{path} [{_SECTION}]"
        found[name] = Resolved(parse_option(name, raw, place), place)
    return found


def _fault(error: Exception) -> str:
    """Return what is wrong with an INI file and in which line, without that line."""
    import configparser

    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    if isinstance(error, configparser.MissingSectionHeaderError):
        return f"line {error.lineno} stands before the first [section]"
    if isinstance(error, configparser.ParsingError):
        return f"line {error.errors[0][0]} is neither [section] nor NAME = VALUE"
    return " ".join(str(error).split())  # a section or an option that is there twice, by its name


def _from_environment(environment: Mapping[str, str]) -> dict[str, Resolved]:
    found = {}
    for variable, raw in environment.items():
        if not variable.startswith("MILEPOST__"):
            continue
        place = f"environment variable {variable}"
        if not variable.startswith(_PREFIX):
            raise ConfigurationError(f"{place}: the section is unknown to this release; known: [{_SECTION}]")
        name = variable[len(_PREFIX) :].lower()
        found[name] = Resolved(parse_option(name, raw, place), place)
    return found


def resolve(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> dict[str, Resolved]:
    """Return every option with its value and the place it came from.

    Args:
        arguments: Options given in code, by name; `None` counts as not given.
        environment: By default that of the process.

    Raises:
        ConfigurationError: An option is unknown or has a bad value; the message names the place it came from.
    """
    environment = os.environ if environment is None else environment
    found = {option.name: Resolved(option.default, "default") for option in OPTIONS.values()}
    if path := config_file(environment):
        found |= _from_file(path)
    found |= _from_environment(environment)
    for name, raw in arguments.items():
        if raw is not None or name not in OPTIONS:
            found[name] = Resolved(parse_option(name, raw, "argument"), "argument")
    if found["url"].value is None:
        source = "MILEPOST_HOME" if environment.get("MILEPOST_HOME") else "default"
        found["url"] = Resolved(default_url(environment), source)
    return found


def load_settings(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in force; arguments and errors as in `resolve`."""
    return Settings(**{name: found.value for name, found in resolve(arguments, environment).items()})
