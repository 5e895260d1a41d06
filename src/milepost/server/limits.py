"""Limits of one request: its size, and the time in which it has to arrive and to be answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Limits"]


class Limits:
    """Refuses requests that are too large or too slow.

    Args:
        app: The application behind it.
        max_bytes: The most bytes of a body.
        seconds: How long a request may take to arrive, and as long again to be answered.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int, seconds: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._said = f"the request has more than {max_bytes:,} bytes ([server] max_request_bytes)"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_bytes:
                await self._too_large(scope, receive, send)
                return
        count = 0
        begun = False
        late = False

        async def counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._max_bytes:
                # The rest of the body is not read, so nothing more can come over this connection.
                raise HTTPException(413, self._said, {"connection": "close"})
            return message

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        task = asyncio.current_task()
        assert task is not None
        cancel = task.cancel

        def expire() -> None:
            nonlocal late
            late = True
            cancel()

        timer = asyncio.get_running_loop().call_later(self._seconds * 2, expire)
        try:
            await self._app(scope, counted, noted)
        except asyncio.CancelledError:
            if not late:
                raise
            if hasattr(task, "uncancel"):
                task.uncancel()
            if not begun:
                body = {"error": "RequestTimeout", "detail": f"the request took more than {self._seconds * 2:g} seconds"}
                await JSONResponse(body, 408, {"connection": "close"})(scope, receive, send)
        finally:
            timer.cancel()

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = {"error": "RequestTooLarge", "detail": self._said}
        await JSONResponse(body, 413, {"connection": "close"})(scope, receive, send)
