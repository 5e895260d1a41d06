"""What tells one run of Airflow from another, by what Airflow says of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from milepost.airflow.compat import Identity, identity

UTC = "+00:00"


class Instant(str):
    """A time as Airflow gives it."""

    def isoformat(self) -> str:
        """Return it."""
        return self


def at_worker(attempt: int, *, clears: int, started: str) -> Identity:
    """Return the identity of a task instance on Airflow 3."""
    sent: Any = SimpleNamespace(should_retry=False)
    names: dict[str, Any] = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    instance = SimpleNamespace(**names, try_number=attempt, max_tries=0, _ti_context_from_server=sent)
    after = Instant(f"2026-01-01T00:00:00{UTC}")
    run = SimpleNamespace(run_after=after, start_date=Instant(started), clear_number=clears)
    return identity(instance, SimpleNamespace(), {"dag_run": run}, attempt)


def test_a_clear_in_a_run_that_goes_on_leaves_it_the_same() -> None:
    """Airflow 3.2 counts each clear; tasks that run meanwhile know of fewer, and are of the same run."""
    before = at_worker(1, clears=0, started=f"2026-01-01T00:00:01.5{UTC}")
    after = at_worker(2, clears=1, started=f"2026-01-01T00:00:01.5{UTC}")
    assert before.incarnation == after.incarnation
    assert (before.run_clears, after.run_clears) == (0, 1)


def test_a_run_that_started_anew_has_another_incarnation() -> None:
    """Made anew, or cleared after its end: how often it was cleared says which."""
    before = at_worker(1, clears=1, started=f"2026-01-01T00:00:01{UTC}")
    assert before.incarnation != at_worker(1, clears=1, started=f"2026-01-01T00:00:02{UTC}").incarnation


def test_airflow_2_tells_of_no_clears() -> None:
    """Its runs have numbers; so a run of which clears are told goes on after an upgrade to Airflow 3."""
    names: dict[str, Any] = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    instance = SimpleNamespace(**names, try_number=1, max_tries=0, job_id=4)
    before = identity(instance, SimpleNamespace(), {"dag_run": SimpleNamespace(id=17)}, 1)
    assert (before.incarnation, before.run_clears) == ("17", None)
    assert at_worker(2, clears=0, started="-").run_clears == 0
