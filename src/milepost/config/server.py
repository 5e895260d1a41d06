"""The options of ``[server]``: how ``milepost serve`` listens, whom it lets in, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from milepost.config.settings import Option, as_number, as_text
from milepost.errors import ConfigurationError

__all__ = ["SECRET_FILE", "SERVER_OPTIONS", "ServerSettings", "read_secret", "read_secrets", "secrets_in"]

MIN_SECRET_CHARS = 16
SECRET_FILE = "server-secret"  # noqa: S105  (a name)
"""The file in the user's state folder that holds the worker secret of a server on loopback, where none was configured."""


def _secret(raw: Any) -> str:
    text = as_text(raw)
    if len(text) < MIN_SECRET_CHARS:
        raise ValueError(f"must have {MIN_SECRET_CHARS} characters or more")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be of printable ASCII characters without spaces, as it travels in an HTTP header")
    return text


def _port(raw: Any) -> int:
    port: int = as_number(0)(raw)
    if port > 65_535:
        raise ValueError("must be 65535 or less")
    return port


SERVER_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("host", "127.0.0.1", as_text, "address to listen on; any but loopback needs a secret"),
        Option("port", 8470, _port, "port to listen on; 0: any free one"),
        Option("workers", 1, as_number(1), "processes that share the port"),
        Option("secret", None, _secret, "the worker secret: it opens the whole store to those who start tasks", secret=True),
        Option(
            "secret_file",
            None,
            as_text,
            "file with the worker secret, further lines: older ones; on loopback one is made if neither is set",
        ),
        Option("token_seconds", 3600, as_number(10), "how long the token of an attempt lasts unless it is renewed"),
        Option("cleanup_interval", 3600, as_number(0), "seconds between collections; 0: none"),
        Option("max_request_bytes", 134_217_728, as_number(1024), "most bytes of a request"),
        Option("request_seconds", 60, as_number(1), "how long a request may take to arrive, and to be answered"),
        Option("shutdown_seconds", 30, as_number(0), "how long requests in flight may go on at a shutdown"),
    )
}


class ServerSettings(NamedTuple):
    """The settings of a server. Fields are the options of ``[server]``.

    .. versionadded:: 0.1
    """

    host: str
    port: int
    workers: int
    secret: str | None
    secret_file: str | None
    token_seconds: int
    cleanup_interval: int
    max_request_bytes: int
    request_seconds: int
    shutdown_seconds: int

    def __repr__(self) -> str:
        shown = self._asdict()
        shown["secret"] = None if self.secret is None else "***"
        return f"ServerSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def read_secret(settings: ServerSettings) -> str | None:
    """Return the worker secret, from the option or from the file that is named; `None` where neither is set.

    Raises:
        ConfigurationError: The file cannot be read or holds no secret.
    """
    return next(iter(read_secrets(settings)), None)


def read_secrets(settings: ServerSettings) -> list[str]:
    """Return the worker secret, as `read_secret`, and those before it that a server still accepts.

    Raises:
        ConfigurationError: As there.
    """
    if settings.secret is not None:
        return [settings.secret]
    return [] if settings.secret_file is None else secrets_in(Path(settings.secret_file).expanduser())


def secrets_in(path: Path) -> list[str]:
    """Return the worker secrets in a file, one in a line; the first is the one in use.

    Raises:
        ConfigurationError: It cannot be read or holds no secret.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        return [_secret(line) for line in lines if line.strip()] or [_secret("")]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"secret_file {str(path)!r} cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigurationError(f"the secret in {str(path)!r} {error}") from None
