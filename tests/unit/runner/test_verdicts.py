"""Trigger rules, over every small number of tasks before."""

from __future__ import annotations

from itertools import product

import pytest

from milepost.runner.verdicts import Tally, judge
from milepost.sdk import TriggerRule

TALLIES = [
    Tally(success + failed + skipped + waiting, success, failed, skipped)
    for success, failed, skipped, waiting in product(range(3), repeat=4)
]


def when_done(rule: TriggerRule, up: Tally) -> bool:
    """Say in a formula of its own whether a task runs, once all before it are finished."""
    return {
        TriggerRule.ALL_SUCCESS: up.success == up.total,
        TriggerRule.ALL_FAILED: up.failed == up.total,
        TriggerRule.ALL_DONE: True,
        TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: up.success > 0,
        TriggerRule.ALL_SKIPPED: up.skipped == up.total,
        TriggerRule.ONE_SUCCESS: up.success > 0,
        TriggerRule.ONE_FAILED: up.failed > 0,
        TriggerRule.ONE_DONE: up.success + up.failed > 0,
        TriggerRule.NONE_FAILED: up.failed == 0,
        TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: up.failed == 0 and up.success > 0,
        TriggerRule.NONE_SKIPPED: up.skipped == 0,
        TriggerRule.ALWAYS: True,
    }[rule]


@pytest.mark.parametrize("rule", list(TriggerRule))
def test_verdict_once_all_are_done(rule):
    """When all tasks before are finished, no task waits, and it runs exactly if its rule is fulfilled."""
    for up in TALLIES:
        if up.done:
            expected = up.total == 0 or when_done(rule, up)
            assert (judge(rule, up) == "run") == expected, up
            assert judge(rule, up) != "wait"


@pytest.mark.parametrize("rule", list(TriggerRule))
def test_early_verdict_is_never_revised(rule):
    """A verdict before all are finished is the one that every way to finish them would lead to."""
    for up in TALLIES:
        verdict = judge(rule, up)
        if verdict == "wait" or up.done or rule is TriggerRule.ALWAYS:
            continue
        left = up.total - up.success - up.failed - up.skipped
        for more in product(range(left + 1), repeat=3):
            if sum(more) == left:
                done = Tally(up.total, up.success + more[0], up.failed + more[1], up.skipped + more[2])
                # `fail` over `skip` may depend on who comes first; whether the task runs does not.
                assert (judge(rule, done) == "run") == (verdict == "run"), (up, done)


@pytest.mark.parametrize(
    ("rule", "up", "verdict"),
    [
        ("all_success", Tally(2, failed=1), "fail"),
        ("all_success", Tally(2, skipped=1), "skip"),
        ("all_success", Tally(2, success=1), "wait"),
        ("none_failed", Tally(2, success=1, skipped=1), "run"),
        ("none_failed", Tally(1, failed=1), "fail"),
        ("none_failed_min_one_success", Tally(2, skipped=2), "skip"),
        ("one_success", Tally(2, success=1), "run"),
        ("one_success", Tally(2, failed=1, skipped=1), "fail"),
        ("one_success", Tally(2, skipped=2), "skip"),
        ("one_failed", Tally(2, failed=1), "run"),
        ("one_failed", Tally(2, success=2), "skip"),
        ("all_done", Tally(2, failed=1), "wait"),
        ("all_failed", Tally(2, failed=1, success=1), "skip"),
        ("none_skipped", Tally(2, failed=2), "run"),
        ("always", Tally(2), "run"),
    ],
)
def test_verdicts_are_airflows(rule, up, verdict):
    """Whether a task that does not run is skipped or counts as failed follows Airflow."""
    assert judge(TriggerRule(rule), up) == verdict
