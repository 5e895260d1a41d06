"""OpenTelemetry of requests: a span and a duration for each, where OpenTelemetry is configured.

It is by the variables that its own documentation names (``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like), or by whoever has
set up providers in this process, as ``opentelemetry-instrument`` does. Spans have neither keys nor values nor credentials.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from milepost import __version__
from milepost.server.metrics import METHODS, route_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Telemetry", "set_up", "wanted"]

_log = logging.getLogger("milepost.server")
_SIGNALS: Final = ("traces", "metrics")
_PACKAGES: Final = {"http/protobuf": "http", "grpc": "grpc"}
_END_SECONDS: Final = 5.0
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


def wanted(environment: Mapping[str, str]) -> list[str]:
    """Return which of traces and metrics the environment asks for."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    return [signal for signal in _SIGNALS if _asked(environment, signal.upper())]


def _asked(environment: Mapping[str, str], signal: str) -> bool:
    exporter = environment.get(f"OTEL_{signal}_EXPORTER", "").strip()
    if exporter:
        return exporter == "otlp"
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return any(environment.get(name, "").strip() for name in names)


def _exporter(environment: Mapping[str, str], signal: str) -> Any:
    """Return what sends one of the signals; it reads the rest of the environment itself."""
    protocol = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    one = signal.removesuffix("s")
    module = f"opentelemetry.exporter.otlp.proto.{_PACKAGES.get(protocol.strip(), 'http')}.{one}_exporter"
    name = {"trace": "OTLPSpanExporter", "metric": "OTLPMetricExporter"}[one]
    return getattr(importlib.import_module(module), name)()


def set_up(environment: Mapping[str, str]) -> Telemetry | None:
    """Return the telemetry of this process; `None` where nobody asks for it, or what it takes is not installed."""
    asked = wanted(environment)
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.trace import ProxyTracerProvider

        there = not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)
        if there:  # set up by others
            return Telemetry(trace.get_tracer_provider(), metrics.get_meter_provider())
        if not asked:
            return None
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource

        named = environment.get("OTEL_SERVICE_NAME") or "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        resource = Resource.create({} if named else {SERVICE_NAME: "milepost"})
        return _providers(environment, asked, resource)
    except ImportError as error:
        if asked:
            _log.warning(
                "telemetry is asked for (OTEL_…) and a package is missing (%s): "
                "pip install opentelemetry-exporter-otlp-proto-http",
                error.name,
                extra={"action": "telemetry"},
            )
        return None


def _providers(environment: Mapping[str, str], asked: list[str], resource: Any) -> Telemetry:
    from opentelemetry.metrics import NoOpMeterProvider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import NoOpTracerProvider

    traces: Any = NoOpTracerProvider()
    meters: Any = NoOpMeterProvider()
    owned = []
    if "traces" in asked:
        traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        traces.add_span_processor(BatchSpanProcessor(_exporter(environment, "traces")))
        owned.append(traces.shutdown)
    if "metrics" in asked:
        reader = PeriodicExportingMetricReader(_exporter(environment, "metrics"))
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        owned.append(meters.shutdown)
    return Telemetry(traces, meters, owned)


class Telemetry:
    """Tells of each request that an application answers.

    Args:
        traces: Where spans go.
        meters: Where durations go.
        owned: What to call when the server ends.
    """

    def __init__(self, traces: Any, meters: Any, owned: list[Callable[[], object]] | None = None) -> None:
        self._tracer = traces.get_tracer("milepost.server", __version__)
        self._seconds = meters.get_meter("milepost.server", __version__).create_histogram(
            "http.server.request.duration",
            unit="s",
            description="How long requests took.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._owned = owned or []

    def _end(self) -> None:
        """Send what is left; a collector that does not answer is not waited for long."""
        threads = [threading.Thread(target=end, name="milepost-telemetry", daemon=True) for end in self._owned]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _END_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application that tells of what another one answers."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        async def told(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":

                async def ending(message: Message) -> None:
                    if message["type"] == "lifespan.shutdown.complete":
                        await asyncio.to_thread(self._end)
                    await send(message)

                await app(scope, receive, ending)
                return
            status = 500

            async def noted(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            method = scope["method"] if scope["method"] in METHODS else "_OTHER"
            began = time.perf_counter()
            with self._tracer.start_as_current_span(
                method, context=extract(headers), kind=SpanKind.SERVER, record_exception=False, set_status_on_exception=False
            ) as span:
                try:
                    await app(scope, receive, noted)
                finally:
                    about: dict[str, Any] = {
                        "http.request.method": method,
                        "http.route": route_of(scope),
                        "http.response.status_code": status,
                    }
                    if status >= 500:
                        about["error.type"] = str(status)
                        span.set_status(StatusCode.ERROR)
                    self._seconds.record(time.perf_counter() - began, about)
                    span.update_name(f"{method} {about['http.route']}")
                    span.set_attributes(about)
                    if scope.get("milepost.calls"):
                        span.set_attribute("milepost.calls", scope["milepost.calls"])

        return told
