"""Where a setting comes from: argument, then environment, then file, then default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from milepost.config.server import SERVER_OPTIONS, ServerSettings
from milepost.config.settings import OPTIONS, Option, Settings, parse_option
from milepost.errors import ConfigurationError

__all__ = [
    "SECTIONS",
    "Elsewhere",
    "Resolved",
    "also_from",
    "config_file",
    "default_folder",
    "default_url",
    "load_server_settings",
    "load_settings",
    "naming_the_place",
    "place_of_secret",
    "resolve",
    "secret_of",
]

SECTIONS: dict[str, dict[str, Option]] = {"state_store": OPTIONS, "server": SERVER_OPTIONS}
_KNOWN = ", ".join(f"[{section}]" for section in SECTIONS)
_FILE = "milepost.cfg"


class Resolved(NamedTuple):
    """One option with its value and the place it came from."""

    value: Any
    source: str


def place_of_secret(source: str) -> str:
    """Return where a secret is set, for messages: a variable says by its own name what it holds, a file does not.

    Args:
        source: As in `Resolved`.
    """
    return source if source.startswith("environment") else f"{source} secret"


class Elsewhere(NamedTuple):
    """What the configuration of another program says.

    Args:
        options: Options of ``[state_store]``.
        secret: The worker secret of the server that is their ``url``.
    """

    options: dict[str, Resolved]
    secret: Resolved | None


_elsewhere: list[Callable[[], Elsewhere]] = []


@contextmanager
def also_from(found: Callable[[], Elsewhere]) -> Iterator[None]:
    """Have options of another program's configuration win over all but arguments.

    Args:
        found: Returns them; asked when an option is first needed.
    """
    _elsewhere.append(found)
    try:
        yield
    finally:
        _elsewhere.pop()


def secret_of(url: str) -> Resolved | None:
    """Return the worker secret that goes with a server by another program's configuration, and to no other server.

    Args:
        url: The server.
    """
    found = _elsewhere[-1]() if _elsewhere else None
    return found.secret if found and "url" in found.options and found.options["url"].value == url else None


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return ``MILEPOST_HOME`` or else the user's state folder."""
    if home := environment.get("MILEPOST_HOME"):
        return Path(home).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("milepost", appauthor=False)


def default_url(environment: Mapping[str, str]) -> str:
    """Return the URL of the SQLite file in `default_folder`."""
    path = str(default_folder(environment) / "milepost.db").replace("%", "%25")
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


def _from_file(path: Path) -> dict[str, dict[str, Resolved]]:
    """Return what a file sets, by section."""
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8-sig"), source=str(path))  # some editors put a BOM first
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not a valid INI file: {_fault(error)}") from None  # it may show a password
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    if unknown := [name for name in parser.sections() if name not in SECTIONS] + list(parser.defaults()):
        raise ConfigurationError(f"{path}: [{unknown[0]}] is unknown to this release; known: {_KNOWN}")
    found: dict[str, dict[str, Resolved]] = {}
    for section in parser.sections():
        place = f"{path} [{section}]"
        for name, raw in parser.items(section):
            value = parse_option(name, raw, place, section, SECTIONS[section])
            found.setdefault(section, {})[name] = Resolved(value, place)
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


def _from_environment(environment: Mapping[str, str]) -> dict[str, dict[str, Resolved]]:
    """Return what the environment sets, by section."""
    found: dict[str, dict[str, Resolved]] = {}
    for variable, raw in environment.items():
        if not variable.startswith("MILEPOST__"):
            continue
        place = f"environment variable {variable}"
        section, _, name = variable.removeprefix("MILEPOST__").lower().partition("__")
        if section not in SECTIONS or section.upper() != variable[10 : 10 + len(section)]:
            raise ConfigurationError(f"{place}: the section is unknown to this release; known: {_KNOWN}")
        value = parse_option(name, raw, place, section, SECTIONS[section])
        found.setdefault(section, {})[name] = Resolved(value, place)
    return found


def resolve(
    arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None, *, section: str = "state_store"
) -> dict[str, Resolved]:
    """Return every option of a section with its value and the place it came from.

    Args:
        arguments: Options given in code, by name; `None` counts as not given.
        environment: By default that of the process.
        section: ``state_store`` or ``server``.

    Raises:
        ConfigurationError: An option is unknown or has a bad value; the message names the place it came from.
    """
    environment = os.environ if environment is None else environment
    options = SECTIONS[section]
    found = {option.name: Resolved(option.default, "default") for option in options.values()}
    if path := config_file(environment):
        found |= _from_file(path).get(section, {})
    found |= _from_environment(environment).get(section, {})
    if section == "state_store" and _elsewhere:
        found |= _elsewhere[-1]().options
    for name, raw in arguments.items():
        if raw is not None or name not in options:
            found[name] = Resolved(parse_option(name, raw, "argument", section, options), "argument")
    if section == "state_store" and found["url"].value is None:
        source = "MILEPOST_HOME" if environment.get("MILEPOST_HOME") else "default"
        found["url"] = Resolved(default_url(environment), source)
    return found


def load_settings(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in force; arguments and errors as in `resolve`."""
    return Settings(**{name: found.value for name, found in resolve(arguments, environment).items()})


@contextmanager
def naming_the_place(name: str, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Have a `ConfigurationError` over a value say which file or variable that came from; an argument speaks for itself."""
    try:
        yield
    except ConfigurationError as error:
        source = resolve(arguments)[name].source
        if source not in ("argument", "default"):
            error.args = (f"{source}: {error}",)
        raise


def load_server_settings(arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> ServerSettings:
    """Return the settings of a server in force; arguments and errors as in `resolve`."""
    found = resolve(arguments, environment, section="server")
    return ServerSettings(**{name: one.value for name, one in found.items()})
