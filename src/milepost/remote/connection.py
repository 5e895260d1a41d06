"""Connections to a server: kept alive, shared by threads, left behind by a fork."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from milepost.config import mask_url
from milepost.errors import ConfigurationError
from milepost.remote.wire import NOTE_HEADER, TOKEN_HEADER

if TYPE_CHECKING:
    import ssl
    from io import BufferedReader

__all__ = ["Address", "Answer", "LostError", "Pool", "parse_url"]

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 130.0
"""How long an answer may take; a server gives up sooner."""

_KEPT: Final = 32
_TOKEN: Final = TOKEN_HEADER.lower().encode()
_NOTE: Final = NOTE_HEADER.lower().encode()
_MOST_LINE: Final = 65_536
_MOST_HEADERS: Final = 100


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


class _BrokenError(Exception):
    """What came is no answer, or the end of it is missing."""


class Connection:
    """A connection to a server, made when the first request goes over it.

    Args:
        address: The server.
        context: For TLS.
    """

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self._address = address
        self._context = context
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None
        self._poll: Any = None
        self.keeps = True
        """Whether another request may follow."""

    def open(self) -> None:
        """Connect, unless that has been done."""
        if self._socket is not None:
            return
        address = self._address
        port = address.port or (443 if address.secure else 80)
        made = socket.create_connection((address.host, port), CONNECT_SECONDS)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                made = self._context.wrap_socket(made, server_hostname=address.host)
            made.settimeout(ANSWER_SECONDS)
        except BaseException:
            made.close()
            raise
        self._socket, self._reader = made, made.makefile("rb")
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(made, select.POLLIN)

    def send(self, data: bytes) -> None:
        """Send a request."""
        assert self._socket is not None
        self._socket.sendall(data)

    def answer(self) -> Answer:
        """Wait for the answer to a request.

        Raises:
            OSError: The connection broke, or the answer did not come in time.
            _BrokenError: The answer is none.
        """
        assert self._reader is not None
        version, status, headers = _head(self._reader)
        while status < 200:  # not the answer yet
            version, status, headers = _head(self._reader)
        self.keeps = b"close" not in headers.get(b"connection", b"close" if version == b"HTTP/1.0" else b"").lower()
        if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
            body = _chunks(self._reader)
        elif (length := headers.get(b"content-length")) is not None:
            if not length.isdigit():
                raise _BrokenError("the length of the answer is no number")
            body = _exactly(self._reader, int(length))
        elif status in (204, 304):
            body = b""
        else:
            body = self._reader.read()
            self.keeps = False
        token, note = headers.get(_TOKEN), headers.get(_NOTE)
        return Answer(
            status,
            body,
            None if token is None else token.decode("latin-1"),
            None if note is None else note.decode("latin-1"),
        )

    def alive(self) -> bool:
        """Tell whether it is still open at the other end, while it is idle: nothing may have come over it."""
        if self._poll is not None:
            return not self._poll.poll(0)
        return self._socket is not None and not select.select([self._socket], [], [], 0)[0]

    def close(self) -> None:
        """Close it."""
        reader, made = self._reader, self._socket
        self._reader = self._socket = self._poll = None
        if reader is not None:
            reader.close()
        if made is not None:
            made.close()


def _line(reader: BufferedReader) -> bytes:
    line = reader.readline(_MOST_LINE)
    if not line.endswith(b"\n"):
        raise _BrokenError("the answer ended early" if len(line) < _MOST_LINE else "the answer has a line without end")
    return line.strip()


def _head(reader: BufferedReader) -> tuple[bytes, int, dict[bytes, bytes]]:
    """Read the version, the status and the headers of an answer; names are in lower case."""
    first = reader.readline(_MOST_LINE)
    if not first:
        raise _BrokenError("the connection was closed without an answer")
    version, _, rest = first.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise _BrokenError("what came is not HTTP")
    headers: dict[bytes, bytes] = {}
    while line := _line(reader):
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
        if len(headers) > _MOST_HEADERS:
            raise _BrokenError("the answer has too many headers")
    return version, int(rest[:3]), headers


def _exactly(reader: BufferedReader, count: int) -> bytes:
    data = reader.read(count)
    if len(data) < count:
        raise _BrokenError("the answer ended early")
    return data


def _chunks(reader: BufferedReader) -> bytes:
    """Read a body that comes in chunks."""
    parts = []
    while True:
        try:
            size = int(_line(reader).partition(b";")[0], 16)
        except ValueError:
            raise _BrokenError("the answer has a chunk without a size") from None
        if size <= 0:
            break
        parts.append(_exactly(reader, size))
        _line(reader)
    while _line(reader):  # trailers
        pass
    return b"".join(parts)


class Pool:
    """Connections to one server.

    Args:
        address: Where it is.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: deque[Connection] = deque()
        self._context: ssl.SSLContext | None = None
        host = str(address._replace(prefix="")).partition("://")[2]
        self._first = f"POST {quote(address.prefix, safe='/%~+')}".encode()
        self._host = (host if host.isascii() else host.encode("idna").decode()).encode()
        _pools.add(self)

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if connection.alive():
                return connection
            connection.close()
        if self._address.secure and self._context is None:
            import ssl

            self._context = ssl.create_default_context()
        return Connection(self._address, self._context)

    def post(self, path: str, body: bytes, credential: bytes) -> Answer:
        """Send a request and wait for its answer.

        Args:
            path: The path, below the prefix.
            body: The body: JSON.
            credential: The worker secret or a token.

        Raises:
            LostError: There was no answer.
        """
        connection = self._take()
        sent = False
        try:
            connection.open()
            sent = True
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A server that refuses a request may answer and close before it has read all of it.
                connection.send(
                    b"%b%b HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (self._first, path.encode(), self._host, credential, len(body), body)
                )
            answer = connection.answer()
        except (OSError, _BrokenError) as error:
            connection.close()
            if sent:
                self.drop()  # the idle ones have most likely gone with it
            raise LostError(f"{error}" or type(error).__name__, sent=sent) from error
        except BaseException:  # interrupted while waiting: nobody knows what comes next on this connection
            connection.close()
            raise
        if connection.keeps and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def drop(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.drop()  # closes this process's copies of the sockets; the parent's stay open


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
