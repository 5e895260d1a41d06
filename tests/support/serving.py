"""A server for tests: one per process of the test run, in a thread, for as many stores as are wanted."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from milepost.config import load_server_settings
from milepost.store import Store

__all__ = ["SECRET", "Served", "served"]

SECRET = "a-worker-secret-for-tests"


class Served:
    """A server on loopback that serves each store below a path of its own."""

    def __init__(self) -> None:
        import uvicorn

        from milepost.server.heads import BoundedHeads

        self._apps: dict[str, Any] = {}
        self._numbers = itertools.count()
        # The protocol is named so that asyncio turns Nagle's algorithm off.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._app, lifespan="off", interface="asgi3", log_config=None, access_log=False, http=BoundedHeads
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="test server")
        self._thread.start()

    def _run(self) -> None:
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        asyncio.run(self._server.serve(sockets=[self._socket]))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        number, _, path = scope["path"][1:].partition("/")
        raw = scope["raw_path"][1:].partition(b"/")[2]
        scope |= {"path": f"/{path}", "raw_path": b"/" + raw}
        await self._apps[number](scope, receive, send)

    def add(self, store: Store, *, secrets: Sequence[str] = (SECRET,), rest: bool = True, **settings: Any) -> str:
        """Serve a store, which its owner closes, to workers and perhaps to people, which takes longer; return the URL."""
        from milepost.server.app import create_app

        number = str(next(self._numbers))
        self._apps[number] = create_app(store, load_server_settings(settings, {}), secrets, rest=rest)
        return f"http://127.0.0.1:{self.port}/{number}"

    def close(self) -> None:
        """Stop the server."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The server of this process."""
    made = Served()
    yield made
    made.close()
