"""What is said of a store that is not open in time."""

from __future__ import annotations

import http.server
import re
import socket
import threading
from collections.abc import Iterator

import pytest

from milepost import Store, StoreUnreachableError
from milepost.airflow import process
from milepost.airflow.opening import within
from milepost.airflow.settings import AirflowSettings


class Busy(http.server.BaseHTTPRequestHandler):
    """Answers 503, as a proxy does whose server is gone."""

    def do_POST(self) -> None:
        """Refuse."""
        self.send_error(503)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of something that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made.getsockname()[1]


@pytest.fixture
def busy() -> Iterator[int]:
    """The port of something that answers 503."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made.server_address[1]
        made.shutdown()


def why(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is said of a store that is wanted within a second."""
    opened: dict[object, Store] = {}
    monkeypatch.setattr(process, "_stores", opened)
    settings = AirflowSettings({"url": url}, "s" * 16 if url.startswith("http") else None, None, 1, False, 0, False, True)

    def work() -> None:
        process.store(settings).runs.list()

    with pytest.raises(StoreUnreachableError) as caught:
        within(settings, work)
    for store in opened.values():
        store.close()  # which ends the tries
    return str(caught.value)


@pytest.mark.timeout(60)
def test_a_store_that_is_not_open_in_time_is_named_with_the_last_error(
    silent: int, busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the URL, without a password, and what went wrong so far; or that nothing was answered."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        port = unused.getsockname()[1]
        refused = why(f"http://127.0.0.1:{port}/m", monkeypatch)
    late = "was not open after 1 seconds ([milepost] open_timeout)"
    assert re.sub(r"Errno \d+", "Errno", refused) == (
        f"the store http://127.0.0.1:{port}/m {late}: "
        f"cannot reach the server http://127.0.0.1:{port}/m: [Errno] Connection refused"
    )
    url = f"http://127.0.0.1:{busy}"
    assert why(url, monkeypatch) == f"the store {url} {late}: the server {url} answers with HTTP 503"
    for scheme, shown in (("http://", "http://"), ("postgresql://me:secret@", "postgresql://me:***@")):
        told = why(f"{scheme}127.0.0.1:{silent}/m", monkeypatch)
        assert told == f"the store {shown}127.0.0.1:{silent}/m {late}; it has not answered so far"
