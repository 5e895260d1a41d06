"""The options of ``[state_store]`` and what all options share: types, defaults and limits, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, NamedTuple

from milepost.config.urls import mask_url
from milepost.errors import ConfigurationError

__all__ = ["OPTIONS", "Option", "Settings", "as_flag", "as_number", "as_text", "parse_option"]

Parse = Callable[[Any], Any]

_MOST = 2**31 - 1


def as_number(least: int) -> Parse:
    """Return the parser of a whole number from ``least`` on."""

    def parse(raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError("must be a whole number")  # noqa: TRY004  (a setting has one kind of error)
        try:
            number = int(raw)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if number < least:
            raise ValueError(f"must be {least} or more")
        if number > _MOST:
            raise ValueError(f"must be {_MOST} or less")
        return number

    return parse


def _choice(*allowed: str) -> Parse:
    def parse(raw: Any) -> str:
        if not isinstance(raw, str) or raw.lower() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return raw.lower()

    return parse


def as_flag(raw: Any) -> bool:
    """Return a yes or no."""
    if isinstance(raw, bool):
        return raw
    words = {
        "true": True,
        "1": True,
        "yes": True,
        "on": True,
        "false": False,
        "0": False,
        "no": False,
        "off": False,
    }
    if not isinstance(raw, str) or raw.strip().lower() not in words:
        raise ValueError("must be true or false")
    return words[raw.strip().lower()]


def as_text(raw: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(raw, str):
        raise ValueError(f"must be a text, not {type(raw).__name__}")  # noqa: TRY004
    if not raw.strip():
        raise ValueError("must be a text that is not empty")
    if "\0" in raw or "%00" in raw:
        raise ValueError("must not contain NUL")
    return raw.strip()


def _file(text: str) -> str:
    """Return a text for a message in which it stands as a file's name, unless a password may be in it."""
    return "FILE" if "***" in mask_url(text) else text


def _url(raw: Any) -> str:
    if isinstance(raw, PurePath):
        raise ValueError(f"must be a text such as sqlite:///{raw}")  # noqa: TRY004
    url = as_text(raw)
    if len(url) > 1 and url[0] == url[-1] and url[0] in "\"'":
        raise ValueError("must be written without quotes around it")
    scheme, colon, rest = url.partition(":")
    if not colon or len(scheme) == 1 or not scheme.replace("+", "").isalnum():  # no scheme, or the drive of a Windows path
        raise ValueError(f"must be a URL; for a file write sqlite:///{_file(url)}")
    if scheme == "sqlite" and not rest.startswith("///"):
        file = _file(rest.lstrip("/"))
        raise ValueError(f"must be written with three slashes: sqlite:///{file}")
    return url


class Option(NamedTuple):
    """One option.

    Args:
        name: Its name in its section.
        default: The value where nothing is set.
        parse: Turns what a source holds (a text, or a Python value given as an argument) into the value.
        meaning: One line for people.
        secret: Whether the value is never shown.
    """

    name: str
    default: Any
    parse: Parse
    meaning: str
    secret: bool = False


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("url", None, _url, "where state is kept; default: a SQLite file in the user's state folder"),
        Option("backend", None, as_text, "dotted path of a BaseStateBackend subclass that keeps the entries"),
        Option("default_retention_days", 30, as_number(0), "days after the last update; 0: no default expiry"),
        Option("clear_on_success", False, as_flag, "drop an instance's keys when it succeeds"),
        Option(
            "state_cleanup_batch_size",
            0,
            as_number(0),
            "rows per delete statement; 0: a bounded batch of our choice",
        ),
        Option("max_value_bytes", 65_536, as_number(0), "most bytes of a value as JSON; 0: no limit"),
        Option("on_clear", "discard", _choice("discard", "keep"), "what clearing an instance does with its keys"),
        Option("archive_days", 7, as_number(0), "days that set-aside state and the change log are kept"),
        Option("asset_history_limit", 100, as_number(0), "earlier values kept per asset key; 0: none"),
        Option("orphan_grace_hours", 24, as_number(0), "hours after which the state of a deactivated asset may be removed"),
        Option(
            "unfinished_days",
            90,
            as_number(0),
            "days that open instances are spared after their last sign of life",
        ),
        Option("synchronous", "full", _choice("full", "normal"), "SQLite durability"),
        Option(
            "prepared_statements",
            True,
            as_flag,
            "prepare statements on PostgreSQL; false behind PgBouncer before 1.21 in transaction mode",
        ),
    )
}


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """The settings in force. Fields are the options of ``[state_store]``; see `OPTIONS` for their meanings.

    .. versionadded:: 0.1
    """

    url: str
    backend: str | None
    default_retention_days: int
    clear_on_success: bool
    state_cleanup_batch_size: int
    max_value_bytes: int
    on_clear: str
    archive_days: int
    asset_history_limit: int
    orphan_grace_hours: int
    unfinished_days: int
    synchronous: str
    prepared_statements: bool

    def __repr__(self) -> str:
        shown = (f"{field.name}={self._masked(field.name)!r}" for field in fields(self))
        return f"Settings({', '.join(shown)})"

    def _masked(self, name: str) -> Any:
        value = getattr(self, name)
        return mask_url(value) if name == "url" else value


def parse_option(name: str, raw: Any, place: str, section: str, options: dict[str, Option]) -> Any:
    """Return the value of an option.

    Args:
        name: The option.
        raw: What the source holds.
        place: Where that is, for the error.
        section: The section that it is in.
        options: The options of that section.

    Raises:
        ConfigurationError: The option is unknown or the value is bad.
    """
    if name not in options:
        raise ConfigurationError(f"{place}: there is no option {name!r} in [{section}]; known: {', '.join(options)}")
    try:
        return options[name].parse(raw)
    except ValueError as error:
        shown = "" if options[name].secret else f", got {_shown(name, raw)}"
        raise ConfigurationError(f"{place}: {name} {error}{shown}") from None


def _shown(name: str, raw: Any) -> str:
    if name == "url" and isinstance(raw, str | bytes):
        return repr(mask_url(raw)) if isinstance(raw, str) else "bytes"
    return repr(raw)
