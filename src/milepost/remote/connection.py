"""Connections to a server: kept alive, shared by threads, left behind by a fork."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import select
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from milepost.config import mask_url
from milepost.errors import ConfigurationError
from milepost.remote.wire import NOTE_HEADER, TOKEN_HEADER

if TYPE_CHECKING:
    import ssl

__all__ = ["Address", "Answer", "LostError", "Pool", "parse_url"]

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 130.0
"""How long an answer may take; a server gives up sooner."""

_KEPT: Final = 32


class Address(NamedTuple):
    """Where a server is.

    Args:
        secure: Whether over TLS.
        host: The host.
        port: The port; `None`: the usual one.
        prefix: What paths begin with.
    """

    secure: bool
    host: str
    port: int | None
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}{self.prefix}"


def parse_url(url: str) -> Address:
    """Return the address that a URL names.

    Raises:
        ConfigurationError: It is not of the form ``http(s)://host[:port][/prefix]``.
    """
    malformed = ConfigurationError(f"{mask_url(url)} is not a valid URL; that of a server is http(s)://host[:port][/prefix]")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may have a password
        raise malformed from None
    # Nothing odd, which may be a part of a password: host and path show wherever the server is named.
    if not re.fullmatch(r"[\w.:%-]*", parts.hostname or "") or not re.fullmatch(r"[\w./%~+-]*", parts.path):
        raise malformed
    if parts.username is not None or parts.query or parts.fragment or not parts.hostname:
        raise ConfigurationError(
            "the url of a server is http(s)://host[:port][/prefix]; credentials are given apart (token, secret, "
            "MILEPOST_TOKEN)"
        )
    return Address(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


class Answer(NamedTuple):
    """What a server, or something in between, answered."""

    status: int
    body: bytes
    token: str | None
    note: str | None


class LostError(Exception):
    """There was no answer.

    Args:
        reason: Why.
        sent: Whether the request may have arrived.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Pool:
    """Connections to one server.

    Args:
        address: Where it is.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._context: ssl.SSLContext | None = None
        _pools.add(self)

    def _new(self) -> http.client.HTTPConnection:
        address = self._address
        if not address.secure:
            return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_SECONDS)
        import ssl

        if self._context is None:
            self._context = ssl.create_default_context()
        return http.client.HTTPSConnection(address.host, address.port, timeout=CONNECT_SECONDS, context=self._context)

    def _take(self) -> http.client.HTTPConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._new()
            if _alive(connection):
                return connection
            connection.close()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Send a request and wait for its answer.

        Args:
            path: The path, below the prefix.
            body: The body.
            headers: The headers.

        Raises:
            LostError: There was no answer.
        """
        connection = self._take()
        sent = False
        try:
            if connection.sock is None:
                connection.connect()
                _wait_longer(connection)
            sent = True
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A server that refuses a request may answer and close before it has read all of it.
                connection.request("POST", self._address.prefix + path, body, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if sent:
                self.drop()  # the idle ones have most likely gone with it
            raise LostError(f"{error}" or type(error).__name__, sent=sent) from error
        except BaseException:  # interrupted while waiting: nobody knows what comes next on this connection
            connection.close()
            raise
        if not response.will_close and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return Answer(response.status, data, response.headers.get(TOKEN_HEADER), response.headers.get(NOTE_HEADER))

    def drop(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()


def _wait_longer(connection: http.client.HTTPConnection) -> None:
    """Give answers more time than connecting had."""
    if connection.sock is not None:
        connection.sock.settimeout(ANSWER_SECONDS)


def _alive(connection: http.client.HTTPConnection) -> bool:
    """Tell whether an idle connection is still open at the other end: nothing may have come over it."""
    if connection.sock is None:
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return not poll.poll(0)
    return not select.select([connection.sock], [], [], 0)[0]


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.drop()  # closes this process's copies of the sockets; the parent's stay open


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
