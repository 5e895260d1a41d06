"""OpenTelemetry of requests to both APIs."""

from __future__ import annotations

import asyncio
import http.server
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from milepost import Store, TaskScope, calls, connect
from milepost.calls import Handle
from milepost.config import load_server_settings
from milepost.remote.wire import dump_call, dumps
from milepost.server.app import create_app
from milepost.server.telemetry import Telemetry, set_up, wanted
from tests.support.serve_process import ServeProcess
from tests.support.serving import SECRET

SCOPE = TaskScope("a-private-dag", "run", "task")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def send(app: Any, method: str, path: str, credential: str, body: bytes = b"") -> int:
    """Make one request of an application and return the status."""
    headers = [(b"authorization", f"Bearer {credential}".encode()), (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "root_path": "",
    }
    scope |= {"raw_path": path.encode(), "query_string": b"", "headers": headers, "scheme": "http", "server": ("x", 1)}
    statuses = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def answer(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, answer)
    return int(statuses[0])


def test_a_span_and_a_duration_for_each_request(behind: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of both APIs have a span below the caller's, named by route, and a duration, without what they name."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader, ends = InMemorySpanExporter(), InMemoryMetricReader(), []
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = Telemetry(provider, MeterProvider([reader]), [lambda: ends.append("ended")])
    app = telemetry.around(create_app(behind, load_server_settings({}, {}), [SECRET]))
    behind.task_store(SCOPE).set("a-private-key", "a private value")
    token = behind.tokens.create("viewer", role="viewer").token
    keys = f"/api/v2/dags/{SCOPE.dag_id}/dagRuns/run/taskInstances/task/state-store/a-private-key"
    call = dumps(dump_call(calls.Get(Handle(SCOPE, "python"), "a-private-key")))

    async def requests() -> list[int]:
        return [
            await send(app, "POST", "/execution/v1/call", SECRET, call),
            await send(app, "GET", keys, token),
            await send(app, "GET", keys, "milepost_wrong"),
            await send(app, "BREW", "/nowhere/a-private-path", token),
        ]

    assert asyncio.run(requests()) == [200, 200, 401, 404]
    told = spans.get_finished_spans()
    key = "/api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}/state-store/{key}"
    assert [(span.name, span.attributes["http.response.status_code"]) for span in told] == [
        ("POST /execution/v1/call", 200),
        (f"GET {key}", 200),
        ("GET /api/v2/", 401),
        ("_OTHER other", 404),
    ]
    assert [span.attributes.get("milepost.calls") for span in told] == [("Get",), None, None, None]
    assert {(f"{span.context.trace_id:x}".zfill(32), f"{span.parent.span_id:x}") for span in told} == {(TRACE, PARENT)}
    assert "private" not in "".join(span.to_json() for span in told)
    (metric,) = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics  # type: ignore[union-attr]
    assert (metric.name, metric.unit) == ("http.server.request.duration", "s")
    counted = {point.attributes["http.route"]: point.count for point in metric.data.data_points}  # type: ignore[union-attr,index]
    assert counted == {"/execution/v1/call": 1, key: 1, "/api/v2/": 1, "other": 1}

    async def broken(*_: Any) -> None:
        raise RuntimeError("a private value")

    with pytest.raises(RuntimeError):
        asyncio.run(send(telemetry.around(broken), "GET", "/ready", token))
    last = spans.get_finished_spans()[-1]
    assert (last.status.is_ok, last.attributes["error.type"]) == (False, "500")  # type: ignore[index]
    assert "private" not in last.to_json()


@pytest.mark.parametrize(
    ("environment", "signals"),
    [
        ({}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, ["traces", "metrics"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, ["traces"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_METRICS_EXPORTER": "none"}, ["traces"]),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["traces"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, []),
    ],
)
def test_when_it_is_configured(environment: dict[str, str], signals: list[str]) -> None:
    """Telemetry is asked for by the variables of OpenTelemetry, and by nothing else."""
    assert wanted(environment) == signals


def test_a_package_that_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    """Without the exporter's package the server runs, and its log says what to install."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
        assert set_up({"OTEL_TRACES_EXPORTER": "otlp"}) is None
    assert "pip install opentelemetry-exporter-otlp-proto-http" in caplog.text
    assert set_up({}) is None


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """What takes spans and numbers, as a collector of OpenTelemetry does."""
    got: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


def test_a_server_sends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`milepost serve` sends spans and durations to the collector that the environment names, all of them when it ends."""
    with collector() as (url, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        server = ServeProcess(f"sqlite:///{tmp_path}/store.db", tmp_path)
        with connect(server.url, secret=SECRET) as store:
            store.task_store(SCOPE).set("a-private-key", "a private value")
        assert server.end() == 0
    assert {path for path, _ in got} == {"/v1/traces", "/v1/metrics"}
    sent = b"".join(body for _, body in got)
    assert b"POST /execution/v1/call" in sent
    assert b"milepost" in sent
    assert b"private" not in sent
    assert [line for line in server.logs() if line["level"] != "info"] == []
