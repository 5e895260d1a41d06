"""What the fault tests of database servers share: statements that pause, a proxy that cuts, threads that start together."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from milepost.metastore.engines.flow import Run
from tests.support.servers import Database

__all__ = ["DIALECTS", "Pause", "Proxy", "together"]

DIALECTS = ("postgres", "mysql")


def together(number: int, work: Callable[[int], None]) -> None:
    """Run ``work(i)`` in threads that start at the same moment; raise the first error."""
    barrier = threading.Barrier(number)
    errors: list[BaseException] = []

    def one(index: int) -> None:
        try:
            barrier.wait(30)
            work(index)
        except BaseException as error:  # noqa: BLE001  (handed on to the test)
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


class Pause:
    """Stops an engine's calls, of any kind, right before a statement of which ``when`` says so, once.

    Args:
        engine: The engine.
        when: Looks at a statement's text.
    """

    def __init__(self, engine: Any, when: Callable[[str], bool]) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        inner = engine.drive
        self.armed = True

        def drive(*args: Any, **options: Any) -> Any:
            flow = inner(*args, **options)
            step: Callable[[], Any] = lambda: next(flow)  # noqa: E731
            try:
                while True:
                    try:
                        action = step()
                    except StopIteration as done:
                        return done.value
                    if self.armed and type(action) is Run and when(action.text):
                        self.armed = False
                        self.reached.set()
                        assert self.go.wait(60)
                    try:
                        answer = yield action
                    except Exception as error:  # noqa: BLE001  (handed on)
                        step = lambda error=error: flow.throw(error)  # noqa: E731
                    else:
                        step = lambda answer=answer: flow.send(answer)  # noqa: E731
            finally:
                flow.close()

        engine.drive = drive


class Proxy:
    """Forwards connections to a database server and cuts them when told to.

    Args:
        database: Where to.

    Attributes:
        cut_after: What a client sends last: once it went through, the connection is cut before the answer comes back.
        withhold: What a client sends last: it does not go through, and the client is cut off while the server waits.
    """

    def __init__(self, database: Database) -> None:
        parts = urlsplit(database.url)
        self._to = (parts.hostname, parts.port or (5432 if database.dialect == "postgres" else 3306))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        user = f"{parts.username}:{parts.password}@" if parts.password else f"{parts.username}@"
        self.url = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{port}"))
        self.cut_after: bytes | None = None
        self.withhold: bytes | None = None
        self._withheld: list[tuple[socket.socket, bytes]] = []
        self.on_cut: Callable[[], None] = lambda: None
        self.cuts = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                self._open += [client, server]
                state = {"cut": False}
                self._start(self._pump, client, server, state, True)
                self._start(self._pump, server, client, state, False)

    def _pump(self, source: socket.socket, target: socket.socket, state: dict[str, bool], up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if up and self.withhold is not None and self.withhold in data:
                    self.withhold = None
                    self._withheld.append((target, data))
                    source.shutdown(socket.SHUT_RDWR)
                    return
                if up and self.cut_after is not None and self.cut_after in data:
                    self.cut_after, state["cut"] = None, True
                    target.sendall(data)
                    continue
                if not up and state["cut"]:  # the answer is there, so the server has done it
                    self.cuts += 1
                    self.on_cut()
                    break
                target.sendall(data)
        for side in (source, target):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def deliver(self) -> None:
        """Send on what was withheld, as a network may do late."""
        for target, data in self._withheld:
            with contextlib.suppress(OSError):
                target.sendall(data)

    def close(self) -> None:
        """Cut everything and stop."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for side in self._open:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(30)
        for side in self._open:
            side.close()
