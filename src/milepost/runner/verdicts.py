"""Trigger rules as decisions over counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from milepost.sdk.rules import TriggerRule

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Tally", "Verdict", "judge"]

Verdict = Literal["wait", "run", "skip", "fail"]
"""``fail``: the task does not run and counts as failed, because of a task before it."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How the task instances directly before a task stand.

    Args:
        total: All of them; a mapped task that is not expanded yet counts as one that is not done.
        success: Those that succeeded.
        failed: Those that failed, or did not run because one before them failed.
        skipped: Those that were skipped.
    """

    total: int
    success: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def done(self) -> bool:
        """Whether all are finished."""
        return self.success + self.failed + self.skipped == self.total


def _all_success(up: Tally) -> Verdict:
    if up.failed:
        return "fail"
    if up.skipped:
        return "skip"
    return "run" if up.done else "wait"


def _all_failed(up: Tally) -> Verdict:
    if up.success or up.skipped:
        return "skip"
    return "run" if up.done else "wait"


def _all_done(up: Tally) -> Verdict:
    return "run" if up.done else "wait"


def _all_done_min_one_success(up: Tally) -> Verdict:
    if not up.done:
        return "wait"
    if up.success:
        return "run"
    return "fail" if up.failed else "skip"


def _all_skipped(up: Tally) -> Verdict:
    if up.success or up.failed:
        return "skip"
    return "run" if up.done else "wait"


def _one_success(up: Tally) -> Verdict:
    if up.success:
        return "run"
    if not up.done:
        return "wait"
    return "fail" if up.failed else "skip"


def _one_failed(up: Tally) -> Verdict:
    if up.failed:
        return "run"
    return "skip" if up.done else "wait"


def _one_done(up: Tally) -> Verdict:
    if up.success or up.failed:
        return "run"
    return "skip" if up.done else "wait"


def _none_failed(up: Tally) -> Verdict:
    if up.failed:
        return "fail"
    return "run" if up.done else "wait"


def _none_failed_min_one_success(up: Tally) -> Verdict:
    if up.failed:
        return "fail"
    if not up.done:
        return "wait"
    return "run" if up.success else "skip"


def _none_skipped(up: Tally) -> Verdict:
    if up.skipped:
        return "skip"
    return "run" if up.done else "wait"


_JUDGES: Final[dict[TriggerRule, Callable[[Tally], Verdict]]] = {
    TriggerRule.ALL_SUCCESS: _all_success,
    TriggerRule.ALL_FAILED: _all_failed,
    TriggerRule.ALL_DONE: _all_done,
    TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: _all_done_min_one_success,
    TriggerRule.ALL_SKIPPED: _all_skipped,
    TriggerRule.ONE_SUCCESS: _one_success,
    TriggerRule.ONE_FAILED: _one_failed,
    TriggerRule.ONE_DONE: _one_done,
    TriggerRule.NONE_FAILED: _none_failed,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
    TriggerRule.NONE_SKIPPED: _none_skipped,
}


def judge(rule: TriggerRule, up: Tally) -> Verdict:
    """Judge what a trigger rule makes of the tasks before.

    Args:
        rule: The rule.
        up: How they stand.

    Returns:
        Whether the task waits, runs, is skipped, or counts as failed.
        Verdicts other than ``wait`` may come before all are done, and are final.
    """
    if up.total == 0 or rule is TriggerRule.ALWAYS:
        return "run"
    return _JUDGES[rule](up)
