"""Heads of requests: how large they may be, and how long they may take to arrive.

uvicorn bounds neither. A client that sends a header without an end would take all memory, and connections that stop in
the middle of a head would stay until no other could be taken.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedHeads"]

MAX_HEAD_BYTES: Final = 65_536
SECONDS: Final = 60.0
"""How long a head may take, and how long a new connection may send nothing."""


class BoundedHeads(HttpToolsProtocol):
    """Serves one connection, on which no head (and nothing after a body) is larger or slower than it may be."""

    _in_head = True
    _moved = False
    _unseen = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to serve."""
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._settle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came, and look whether it brought a head to its end or a body forward."""
        self._moved = False
        super().data_received(data)
        if self._moved:
            self._unseen = 0
        else:
            self._unseen += len(data)
            if self._unseen > MAX_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(f"The head of the request has more than {MAX_HEAD_BYTES:,} bytes.")
        if self._in_head and self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(SECONDS, self._too_slow)

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head = False
        self._moved = True
        if self._head_timer is not None:
            self._settle()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._moved = True
        super().on_body(body)

    def _settle(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
