"""With what a client shows itself to a server."""

from __future__ import annotations

import os
from pathlib import Path

from milepost.config import default_folder, load_server_settings, place_of_secret, read_secret, resolve, secret_of
from milepost.config.server import SECRET_FILE
from milepost.errors import ConfigurationError

__all__ = ["LOOPBACK", "TOKEN_VARIABLE", "find_credential"]

TOKEN_VARIABLE = "MILEPOST_TOKEN"  # noqa: S105  (a name)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def find_credential(url: str, host: str, token: str | None, secret: str | None) -> tuple[str, str]:
    """Return the credential for a server, and where it is from.

    Args:
        url: The server.
        host: Its host.
        token: The token of an attempt, if one was given.
        secret: The worker secret, if it was given.

    Returns:
        The argument, or what goes with this url in another program's configuration (`also_from`), or what
        ``MILEPOST_TOKEN``, ``[server] secret`` or ``secret_file`` hold, or, for a server on this machine, the secret that it
        made for this user.

    Raises:
        ConfigurationError: There is none.
    """
    given, source = (token, "argument token") if token else (secret, "argument secret")
    if not given and (found := secret_of(url)) is not None:
        given, source = found
    if not given:
        given, source = os.environ.get(TOKEN_VARIABLE), f"environment variable {TOKEN_VARIABLE}"
    if given is None:
        given, source = _configured()
    if given is None and host in LOOPBACK:
        path: Path = default_folder(os.environ) / SECRET_FILE
        if path.is_file():
            try:
                given, source = path.read_text(encoding="utf-8").strip().partition("\n")[0], f"file {path}"
            except OSError as error:
                raise ConfigurationError(f"the worker secret {path} cannot be read: {error.strerror}") from error
    if not given:
        raise ConfigurationError(
            "a server needs a credential: the token of an attempt (MILEPOST_TOKEN) or the worker secret "
            "([server] secret or secret_file; inside Airflow [milepost] secret, AIRFLOW__MILEPOST__SECRET)"
        )
    if not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigurationError(f"the credential ({source}) has characters that do not fit into an HTTP header")
    return given, source


def _configured() -> tuple[str | None, str]:
    """Return the worker secret that is configured, if one is, and the place that holds it."""
    settings = load_server_settings({})
    found = resolve({}, section="server")
    if settings.secret is not None:
        return settings.secret, place_of_secret(found["secret"].source)
    return read_secret(settings), f"secret_file {settings.secret_file} (named by {found['secret_file'].source})"
