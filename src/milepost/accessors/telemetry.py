"""OpenTelemetry, where its API is installed: a span and a count for each decision about an external job."""

from __future__ import annotations

from functools import cache
from typing import Any

from milepost.job_records import JobDecision
from milepost.program import Program
from milepost.scopes import Scope, TaskScope
from milepost.submission import shown

__all__ = ["observed"]


@cache
def _instruments() -> tuple[Any, Any] | None:
    """Return the tracer and the counter, or `None` where there is no OpenTelemetry. Looked for once, at the first job."""
    try:
        from opentelemetry.metrics import get_meter
        from opentelemetry.trace import get_tracer
    except ImportError:
        return None
    counter = get_meter("milepost").create_counter(
        "milepost.job.decisions", unit="{decision}", description="Decisions about external jobs, by what was decided."
    )
    return get_tracer("milepost"), counter


def observed(program: Program[JobDecision], scope: Scope | None, key: str) -> Program[JobDecision]:
    """Run a program that decides about a job inside a span, and count the decision."""
    instruments = _instruments()
    if instruments is None:
        return program
    return _observed(program, scope, key, *instruments)


def _observed(
    program: Program[JobDecision], scope: Scope | None, key: str, tracer: Any, counter: Any
) -> Program[JobDecision]:
    attributes: dict[str, Any] = {"milepost.key": key}
    if isinstance(scope, TaskScope):
        attributes |= {
            "milepost.dag_id": scope.dag_id,
            "milepost.run_id": scope.run_id,
            "milepost.task_id": scope.task_id,
            "milepost.map_index": scope.map_index,
        }
    with tracer.start_as_current_span("milepost.job", attributes=attributes) as span:
        try:
            decision = yield from program
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:  # an interrupt, a cancellation: OpenTelemetry itself marks only the others
            from opentelemetry.trace import StatusCode

            span.record_exception(error)
            span.set_status(StatusCode.ERROR, type(error).__name__)
            raise
        counted: dict[str, str] = {"milepost.decision": decision.action}
        if isinstance(scope, TaskScope):
            counted["milepost.dag_id"] = scope.dag_id
        counter.add(1, counted)
        span.set_attribute("milepost.decision", decision.action)
        span.set_attribute("milepost.job_id", shown(decision.job_id))
        if decision.submission is not None:
            span.set_attribute("milepost.submission", decision.submission)
        return decision
