"""Servers that do not answer: each call ends in time, with one line that says which store it was."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from milepost import ConfigurationError, OutcomeUnknownError, Store, StoreUnreachableError, TaskScope, connect
from milepost.metastore.engines.network import NetworkEngine
from tests.fault.server_helpers import DIALECTS, Proxy
from tests.support.servers import Database, Databases, in_use, wait_until

SCOPE = TaskScope("d", "r", "t")
SCHEMES = {"postgres": "postgresql", "mysql": "mysql"}
BOUND = 40.0
"""Seconds within which every call must have ended, on a busy machine too; the limits below are far shorter."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the limits, so that the tests need not wait as long as a user would."""
    monkeypatch.setattr(NetworkEngine, "connect_seconds", 2)  # the least that libpq takes
    monkeypatch.setattr(NetworkEngine, "patience_seconds", 0.2)
    monkeypatch.setattr(NetworkEngine, "answer_seconds", 0.5)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Each kind of server."""
    return str(request.param)


@pytest.fixture
def database(dialect: str, databases: Databases) -> Database:
    """A prepared database."""
    return databases.get(dialect)


class Server:
    """A server on loopback that does with each connection what it is told.

    Args:
        treat: Gets the connection; it is closed afterwards.
    """

    def __init__(self, treat: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._treat = treat
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            with contextlib.suppress(OSError):  # the other side may hang up at any moment
                self._treat(connection)
            connection.close()

    def close(self) -> None:
        """Stop accepting."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(40)


def unreachable(url: str, error: type[Exception] = StoreUnreachableError) -> str:
    """Connect in vain, in time; return the message, which is one line."""
    begin = time.monotonic()
    with pytest.raises(error) as caught:
        connect(url)
    assert time.monotonic() - begin < BOUND
    assert "\n" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value) or "nowhere.invalid" in str(caught.value)
    return str(caught.value)


def wait_for_end(connection: socket.socket) -> None:
    """Read until the other side gives up."""
    while connection.recv(65_536):
        pass


@pytest.mark.parametrize("treat", ["mute", "hang up", "garbage"])
def test_a_server_that_is_none(dialect: str, treat: str) -> None:
    """One that accepts and never answers, hangs up at once, or talks something else: `connect` ends in time."""
    work: dict[str, Callable[[socket.socket], None]] = {
        "mute": wait_for_end,
        "hang up": lambda _: None,
        "garbage": lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4),
    }
    server = Server(work[treat])
    try:
        unreachable(f"{SCHEMES[dialect]}://u@127.0.0.1:{server.port}/db")
    finally:
        server.close()


def test_a_port_that_swallows_connections(dialect: str) -> None:
    """A listener whose queue is full answers no packet: `connect` ends in time."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        unreachable(f"{SCHEMES[dialect]}://u@127.0.0.1:{port}/db")
        for one in waiting:
            one.close()


def test_a_name_that_nobody_knows(dialect: str) -> None:
    """A host without an address is named in the error."""
    unreachable(f"{SCHEMES[dialect]}://u@nowhere.invalid/db")


def test_a_wrong_password_and_a_missing_database(database: Database) -> None:
    """Both are told in one line that shows no password, at once for a pool that is open already, too."""
    base = database.url.rpartition("/")[0]
    assert "no_such_db" in unreachable(f"{base}/no_such_db")
    if database.dialect == "mysql":  # the PostgreSQL here trusts everybody
        message = unreachable(f"{base.replace('root@', 'milepost_nobody:wr0ng@')}/x")
        assert "wr0ng" not in message


class Frozen:
    """A store behind a proxy that stops forwarding: to both sides the connection looks alive."""

    def __init__(self, database: Database) -> None:
        self.proxy = FreezingProxy(database)
        self.store = connect(self.proxy.url)
        self.task = self.store.task_store(SCOPE, attempt=1)
        self.task.set("k", 1)

    def __enter__(self) -> Frozen:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.flow.set()
        self.store.close()
        self.proxy.close()


class FreezingProxy(Proxy):
    """Forwards nothing while `flow` is not set; accepted connections wait too."""

    def __init__(self, database: Database) -> None:
        self.flow = threading.Event()
        self.flow.set()
        super().__init__(database)

    def _pump(self, source: Any, target: Any, state: dict[str, bool], up: bool) -> None:
        super()._pump(_Gated(source, self.flow), target, state, up)


class _Gated:
    """A socket from which nothing comes while the flow is stopped."""

    def __init__(self, inner: socket.socket, flow: threading.Event) -> None:
        self._inner, self._flow = inner, flow

    def recv(self, size: int) -> bytes:
        data = self._inner.recv(size)
        self._flow.wait(60)
        return data

    def shutdown(self, how: int) -> None:
        self._inner.shutdown(how)


@pytest.fixture
def frozen(database: Database) -> Iterator[Frozen]:
    """A store whose connections can be frozen."""
    with Frozen(database) as made:
        yield made


CALLS: dict[str, tuple[type[Exception], Callable[[Any], object]]] = {
    "get": (StoreUnreachableError, lambda task: task.get("k")),
    "items": (StoreUnreachableError, lambda task: task.items()),
    "set": (OutcomeUnknownError, lambda task: task.set("k", 2)),
    "set_many": (OutcomeUnknownError, lambda task: task.set_many({"k": 2, "l": 2})),
    "set_default": (StoreUnreachableError, lambda task: task.set_default("l", 2)),
    "increment": (StoreUnreachableError, lambda task: task.increment("k")),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_connection_that_freezes(frozen: Frozen, call: str) -> None:
    """A statement whose answer never comes ends with an error that says what is known; then the store works again."""
    kind, work = CALLS[call]
    frozen.proxy.flow.clear()
    begin = time.monotonic()
    with pytest.raises(kind, match="has not answered for 0 s") as caught:
        work(frozen.task)
    assert type(caught.value) is kind
    assert time.monotonic() - begin < BOUND
    assert in_use(engine(frozen.store)) == 0
    frozen.proxy.flow.set()
    frozen.task.set("k", 3)
    assert frozen.task.get("k") == 3


async def test_an_asynchronous_call_on_a_frozen_connection(frozen: Frozen) -> None:
    """The same holds for asynchronous calls, and the loop is free meanwhile."""
    await frozen.task.aset("k", 2)
    frozen.proxy.flow.clear()
    reading = asyncio.create_task(frozen.task.aget("k"))
    ticks = 0
    while not reading.done() and ticks < 10_000:
        await asyncio.sleep(0.002)
        ticks += 1
    assert ticks > 10
    with pytest.raises(StoreUnreachableError, match="has not answered"):
        await reading
    assert in_use(engine(frozen.store)) == 0
    frozen.proxy.flow.set()
    assert await frozen.task.aget("k") == 2


def test_a_frozen_commit_is_of_unknown_outcome(frozen: Frozen) -> None:
    """If no answer to the COMMIT comes, the call says that it may or may not have taken effect, and is not sent again."""
    proxy = frozen.proxy
    inner = engine(frozen.store).execute

    def execute(action: Any) -> Any:
        if action.text == "COMMIT":
            proxy.flow.clear()
        return inner(action)

    engine(frozen.store).execute = execute
    with pytest.raises(OutcomeUnknownError, match="may or may not"):
        frozen.task.set_default("l", 5)
    engine(frozen.store).execute = inner
    proxy.flow.set()
    wait_until(lambda: frozen.task.get("k") == 1, "the store works")
    assert frozen.task.get("l") in (None, 5)


def test_a_server_that_dies_after_the_handshake(database: Database) -> None:
    """Connections that break before the first statement: the call ends in time, and works when they no longer break."""
    proxy = Proxy(database)
    try:
        with connect(proxy.url) as store:
            store.task_store(SCOPE).set("k", 1)
            inner, broken = engine(store).open, []

            def open_and_break() -> Any:
                connection = inner()
                sock = socket.socket(
                    fileno=connection.fileno() if database.dialect == "postgres" else connection._sock.fileno()
                )
                sock.shutdown(socket.SHUT_RDWR)
                sock.detach()
                broken.append(connection)
                return connection

            engine(store).drop_all(engine(store)._idle)
            engine(store).open = open_and_break
            with pytest.raises(StoreUnreachableError):
                store.task_store(SCOPE).get("k")
            assert broken
            engine(store).open = inner
            assert store.task_store(SCOPE).get("k") == 1
    finally:
        proxy.close()


def test_a_time_out_of_the_url_counts(dialect: str) -> None:
    """`connect_timeout` in a PostgreSQL URL is the user's own; in a MySQL URL it is an unknown option."""
    url = f"{SCHEMES[dialect]}://u@127.0.0.1:1/db?connect_timeout=7"
    if dialect == "mysql":
        with pytest.raises(ConfigurationError, match="unknown option"):
            connect(url)
        return
    from milepost.clock import SystemClock
    from milepost.metastore.engines.postgres import PostgresEngine

    assert PostgresEngine(url, clock=SystemClock())._settings()["connect_timeout"] == "7"


def engine(store: Store) -> Any:
    """Return the engine of a store."""
    return store.metastore.engine  # type: ignore[attr-defined]
