"""The pure decisions about external jobs: every situation has one right step (SPEC 9)."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import NOT_FOUND, TaskScope
from milepost.job_records import Intent
from milepost.metastore.operations.submissions import token_of
from milepost.submission import (
    ABSENT,
    Adopt,
    Find,
    Refuse,
    Situation,
    Status,
    Submit,
    Use,
    fingerprint,
    fingerprints,
    next_step,
    shown,
)

SCOPE = TaskScope("d", "r", "t")
OLD, NEW = fingerprints({"a": 1}), fingerprints({"a": 2})


def intent(state: str, job: Any = ABSENT, params: str | None = None) -> Intent:
    """Return an intent, with the fingerprint of a job whose id is known."""
    return Intent(1, "mp-1", state, None if job is ABSENT else fingerprint(job), params, "v")


STATES = st.sampled_from(["open", "known", "dropped"])
SITUATIONS = st.builds(
    Situation,
    intent=st.none() | st.builds(intent, STATES, st.sampled_from([ABSENT, 0, "x"]), st.sampled_from([None, OLD])),
    job=st.sampled_from([ABSENT, 0, ""]),
    params=st.sampled_from([None, OLD, NEW]),
    found=st.sampled_from([ABSENT, NOT_FOUND, 0, ""]),
    status=st.sampled_from([None, "active", "done", "gone"]),
    can_find=st.booleans(),
    can_status=st.booleans(),
    on_unknown=st.sampled_from(["resubmit", "fail"]),
    on_changed=st.sampled_from(["reattach", "fail", "resubmit"]),
)


@given(SITUATIONS)
def test_what_never_happens(now: Situation) -> None:
    """Whatever the situation: what can be asked is asked before a submission, and a job that is wanted is not doubled."""
    step = next_step(now)
    open_intent = now.intent is not None and now.intent.state == "open"
    if isinstance(step, Submit):
        if open_intent and now.job is ABSENT:
            assert now.found is NOT_FOUND or not now.can_find
            assert now.found is NOT_FOUND or now.on_unknown == "resubmit"
            assert (
                step.new == bool(now.changed and (now.found is NOT_FOUND or now.on_changed == "resubmit"))
                or step.new is False
            )
        else:
            assert step.new
        if now.job is not ABSENT:
            assert now.status == "gone" or (now.changed and (now.status == "done" or now.on_changed == "resubmit"))
            assert now.status is not None or not now.can_status
    elif isinstance(step, Use):
        assert step.job == now.job
        assert now.status != "gone"
        assert step.status == ("done" if now.status == "done" else "active")
        assert bool(step.warning) == bool(now.changed)
    elif isinstance(step, Find):
        assert now.can_find
        assert now.found is ABSENT
    elif isinstance(step, Status):
        assert now.can_status
        assert now.status is None
    elif isinstance(step, Adopt):
        assert open_intent
    else:
        assert isinstance(step, Refuse)
        assert "fail" in (now.on_unknown, now.on_changed)


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (Situation(), Submit(True, "fresh", "no job was submitted before")),
        (Situation(job=0), Use(0, "reattached", "active", "job 0 was submitted")),
        (Situation(job=0, can_status=True), Status(0)),
        (Situation(job=""), Use("", "reattached", "active", "job '' was submitted")),
        (
            Situation(intent("known", 0)),
            Submit(True, "resubmitted", "the earlier job was cleared; if it still runs, nobody waits for it"),
        ),
        (Situation(intent("open"), can_find=True), Find("mp-1")),
        (Situation(intent("open"), can_find=True, found=0), Adopt(0)),
        (Situation(intent("open"), job=0), Adopt(0)),
    ],
    ids=str,
)
def test_single_steps(now: Situation, step: Any) -> None:
    """The plain cases, word for word."""
    assert next_step(now) == step


def test_parameters_are_compared_with_those_of_the_same_job() -> None:
    """An id that somebody else stored has unknown parameters, and so has a job that was submitted without any."""
    assert Situation(intent("known", 0, OLD), job=0, params=NEW).changed == ["a"]
    assert Situation(intent("known", 0, OLD), job=1, params=NEW).changed == []
    assert Situation(intent("known", 0, None), job=0, params=NEW).changed == []
    assert Situation(intent("known", 0, OLD), job=0, params=None).changed == []
    assert Situation(intent("open", params=OLD), params=NEW).changed == ["a"]


def test_fingerprints_hold_no_values_and_tell_types_apart() -> None:
    """What is remembered names the parameters and shows none of their values; 1, 1.0, True and "1" differ."""
    text = fingerprints({"password": "hunter2", "n": None})
    assert text is not None
    assert "password" in text
    assert "hunter2" not in text
    assert len({fingerprints([value]) for value in (1, 1.0, True, "1", [1])}) == 5
    assert fingerprints({"a": {"x": 1, "y": 2}}) == fingerprints({"a": {"y": 2, "x": 1}})
    assert fingerprints({}) != fingerprints(None) is None


def test_tokens_are_what_services_take() -> None:
    """A token has 35 lowercase letters, digits and a hyphen; each part of what it is made of makes another."""
    parts: list[Any] = ["k", "i", 0, 1]
    tokens = {token_of(SCOPE, *parts)}
    for place, other in enumerate(["l", "j", 1, 2]):
        changed = [*parts]
        changed[place] = other
        tokens.add(token_of(SCOPE, *changed))
    for scope in (
        TaskScope("d", "r", "t", 0),
        TaskScope("d", "r", "tk"),
        TaskScope("d", "rt", "t"),
        TaskScope("dr", "r", "t"),
    ):
        tokens.add(token_of(scope, *parts))
    assert len(tokens) == 9
    assert all(re.fullmatch(r"mp-[0-9a-f]{32}", token) for token in tokens)
    assert token_of(SCOPE, *parts) == token_of(SCOPE, *parts)


def test_not_found_is_one_thing() -> None:
    """Copies of `NOT_FOUND`, pickled ones too, are the same object, and it says what it is."""
    copies = [copy.copy(NOT_FOUND), copy.deepcopy(NOT_FOUND), pickle.loads(pickle.dumps(NOT_FOUND))]
    assert all(one is NOT_FOUND for one in copies)
    assert repr(NOT_FOUND) == "NOT_FOUND"


def test_parameters_that_changed_are_named_on_one_line() -> None:
    """Names are shown like ids, and ten of them: none can break the log's line or fill the log."""
    before = fingerprints({f"{number:02}\n": 1 for number in range(12)})
    step = next_step(Situation(intent("known", 7, before), 7, fingerprints({"": 1})))
    assert isinstance(step, Use)
    assert step.warning is not None
    names = ", ".join(["''"] + [f"'{number:02}\\n'" for number in range(9)])
    assert f"its parameters have changed ({names}, and 3 more)" in step.warning


def test_ids_are_shown_short_and_on_one_line() -> None:
    """The log shows an id as it is, in quotes where it would be misread, and only the beginning of a long one."""
    assert [shown(job) for job in ("j-1", "", " ", "a\nb", 0, {"pid": 1})] == [
        "j-1",
        "''",
        "' '",
        r"'a\nb'",
        "0",
        "{'pid': 1}",
    ]
    assert shown("x" * 500) == "x" * 100 + "…"
