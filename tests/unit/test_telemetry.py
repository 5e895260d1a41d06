"""OpenTelemetry: a span and a count for each decision about a job."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))

import asyncio, sys
from milepost import TaskScope, connect

scope, jobs = TaskScope("d", "r", "t"), []

def submit(token):
    assert trace.get_current_span().get_span_context().is_valid
    jobs.append(token)
    if len(jobs) == 2:
        raise TimeoutError("lost")
    return len(jobs)

with connect("memory://") as store:
    for attempt, status in enumerate(("active", "active", "done", "gone"), 1):
        task = store.instances.open(scope, attempt)["task_store"]
        try:
            asyncio.run(task.asubmit_once("job", submit, status=lambda _: status))
        except TimeoutError:
            pass
    store.instances.open(scope, 5)["task_store"].submit_once("job", submit, find=lambda token: 7)
    try:
        store.instances.open(scope, 6)["task_store"].submit_once("other", lambda token: sys.exit(1))
    except SystemExit:
        pass
for span in spans.get_finished_spans():
    found = {name.removeprefix("milepost."): value for name, value in span.attributes.items()}
    print(span.name, span.status.status_code.name, found.get("decision"), found.get("job_id"), found["dag_id"])
data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
for metric in data:
    for point in metric.data.data_points:
        print(metric.name, point.value, sorted(point.attributes.items()))
"""


def test_every_decision_has_a_span_and_is_counted() -> None:
    """Spans name decision and job; that of a submission that failed or was interrupted is an error and not counted."""
    pytest.importorskip("opentelemetry.sdk")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:6] == [
        "milepost.job UNSET fresh 1 d",
        "milepost.job UNSET reattached 1 d",
        "milepost.job UNSET already_succeeded 1 d",
        "milepost.job ERROR None None d",
        "milepost.job UNSET adopted 7 d",
        "milepost.job ERROR None None d",
    ]
    assert sorted(lines[6:]) == [
        f"milepost.job.decisions 1 [('milepost.dag_id', 'd'), ('milepost.decision', '{decision}')]"
        for decision in ("adopted", "already_succeeded", "fresh", "reattached")
    ]


def test_nothing_is_loaded_where_there_is_no_job() -> None:
    """Importing and using a store loads neither OpenTelemetry nor asyncio."""
    program = (
        "import sys; from milepost import TaskScope, connect\n"
        "with connect('memory://') as store: store.task_store(TaskScope('d', 'r', 't')).set('k', 1)\n"
        "print([name for name in ('opentelemetry', 'asyncio', 'logging') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
