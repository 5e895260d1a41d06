"""Planning: which attempts are started when, retries, expansion, resumption, the end of a run."""

from __future__ import annotations

from milepost.runner.plan import Expand, Node, Plan, Settled, Start
from milepost.sdk import TriggerRule


def chain_of(*ids: str, **more) -> list[Node]:
    """Return tasks one after the other."""
    return [Node(name, upstream=ids[max(position - 1, 0) : position], **more) for position, name in enumerate(ids)]


def states(plan: Plan) -> dict[str, str]:
    """Return the state of every instance there is."""
    return {f"{one.task_id}[{one.map_index}]": one.state for one in plan.instances()}


def drive(plan: Plan, fate=lambda start: "success", counts=None, slots=1) -> list[str]:
    """Run a plan to its end with one attempt at a time; return the attempts as ``task[index]#attempt``."""
    order = []
    for now in range(1000):
        for decision in plan.decide(float(now), slots):
            if isinstance(decision, Start):
                order.append(f"{decision.task_id}[{decision.map_index}]#{decision.attempt}")
                plan.finish(decision.task_id, decision.map_index, fate(decision), float(now))
            elif isinstance(decision, Expand):
                plan.expanded(decision.task_id, counts[decision.task_id])
        if plan.done:
            return order
    raise AssertionError(f"never done: {states(plan)}")


def test_tasks_run_in_order():
    """A task starts when the one before it has succeeded, not earlier."""
    plan = Plan(chain_of("a", "b"))
    assert plan.decide(0, 5) == [Start("a", -1, 1, retry=False)]
    assert plan.decide(0, 5) == []
    plan.finish("a", -1, "success", 0)
    assert plan.decide(0, 5) == [Start("b", -1, 1, retry=False)]


def test_slots_bound_what_is_started():
    """No more attempts are started than there are slots; the file's order goes first."""
    plan = Plan([Node("a"), Node("b"), Node("c")])
    assert [one.task_id for one in plan.decide(0, 2)] == ["a", "b"]
    assert plan.decide(0, 0) == []
    assert [one.task_id for one in plan.decide(0, 1)] == ["c"]


def test_retry_waits_for_its_delay():
    """A failed attempt with retries left is started again after the delay, with the next number."""
    plan = Plan([Node("a", retries=1, retry_delay=5)])
    assert plan.decide(0, 1) == [Start("a", -1, 1, retry=True)]
    plan.finish("a", -1, "up_for_retry", 10)
    assert (plan.next_retry(), plan.decide(14.9, 1)) == (15, [])
    assert plan.decide(15, 1) == [Start("a", -1, 2, retry=False)]
    plan.finish("a", -1, "failed", 16)
    assert (plan.next_retry(), plan.run_state) == (None, "failed")


def test_waiting_retry_does_not_hold_up_others():
    """While one task waits for its retry, others go ahead."""
    plan = Plan([Node("a", retries=1, retry_delay=5), Node("b")])
    plan.decide(0, 1)
    plan.finish("a", -1, "up_for_retry", 0)
    assert plan.decide(1, 1) == [Start("b", -1, 1, retry=False)]


def test_failure_spreads_to_the_tasks_behind():
    """Behind a failed task nothing runs, and the run has failed."""
    plan = Plan(chain_of("a", "b", "c"))
    assert drive(plan, lambda start: "failed") == ["a[-1]#1"]
    assert (states(plan), plan.run_state) == (
        {"a[-1]": "failed", "b[-1]": "upstream_failed", "c[-1]": "upstream_failed"},
        "failed",
    )


def test_skip_spreads_and_the_run_succeeds():
    """Behind a skipped task all is skipped, and a run without failures has succeeded."""
    plan = Plan(chain_of("a", "b"))
    drive(plan, lambda start: "skipped")
    assert (states(plan), plan.run_state) == ({"a[-1]": "skipped", "b[-1]": "skipped"}, "success")


def test_last_tasks_decide_the_run():
    """As in Airflow, a run whose last tasks succeed has succeeded, whatever failed before."""
    nodes = [Node("a"), Node("b", upstream=("a",), rule=TriggerRule.ALL_DONE)]
    plan = Plan(nodes)
    assert drive(plan, lambda start: "failed" if start.task_id == "a" else "success") == ["a[-1]#1", "b[-1]#1"]
    assert plan.run_state == "success"


def test_expansion_comes_after_the_tasks_before():
    """A mapped task is expanded once those before it are done; each instance then has its own attempts."""
    nodes = [Node("a"), Node("m", ("a",), mapped=True, length_sources=("a",), retries=1), Node("z", ("m",))]
    plan = Plan(nodes)
    assert plan.decide(0, 9) == [Start("a", -1, 1, retry=False)]
    plan.finish("a", -1, "success", 0)
    assert plan.decide(0, 9) == [Expand("m")]
    assert plan.expanded("m", 2) is None
    assert plan.decide(0, 9) == [Start("m", 0, 1, retry=True), Start("m", 1, 1, retry=True)]
    plan.finish("m", 1, "success", 0)
    plan.finish("m", 0, "up_for_retry", 0)
    assert plan.decide(0, 9) == [Start("m", 0, 2, retry=False)]
    plan.finish("m", 0, "success", 0)
    assert (plan.successes("m"), plan.decide(0, 9)) == ([0, 1], [Start("z", -1, 1, retry=False)])


def test_one_failed_index_fails_what_comes_behind():
    """One failed index is enough for the rule of the next task; the others are run all the same."""
    plan = Plan([Node("m", mapped=True), Node("z", ("m",))])
    order = drive(plan, lambda start: "failed" if start.map_index == 1 else "success", {"m": 3}, slots=1)
    assert order == ["m[0]#1", "m[1]#1", "m[2]#1"]
    assert (plan.successes("m"), states(plan)["z[-1]"], plan.run_state) == ([0, 2], "upstream_failed", "failed")


def test_empty_expansion_is_skipped():
    """A task that is mapped over nothing is skipped."""
    plan = Plan([Node("m", mapped=True), Node("z", ("m",))])
    assert plan.decide(0, 1) == [Expand("m")]
    assert plan.expanded("m", 0) == Settled("m", "skipped")
    assert plan.decide(0, 1) == [Settled("z", "skipped")]
    assert plan.run_state == "success"


def test_unexpandable_task_has_failed():
    """A task whose list is none has failed, and so has the run."""
    plan = Plan([Node("m", mapped=True), Node("z", ("m",))])
    plan.decide(0, 1)
    plan.unexpandable("m")
    plan.decide(0, 1)
    assert (states(plan), plan.run_state) == ({"m[-1]": "failed", "z[-1]": "upstream_failed"}, "failed")


def test_mapped_task_needs_its_lists_whatever_its_rule():
    """A rule that is content without the list's task still waits for it, and a failed one leaves nothing to map over."""
    nodes = [
        Node("list"),
        Node("other"),
        Node("m", ("list", "other"), rule=TriggerRule.ONE_SUCCESS, mapped=True, length_sources=("list",)),
    ]
    plan = Plan(nodes)
    plan.decide(0, 2)
    plan.finish("other", -1, "success", 0)
    assert plan.decide(0, 1) == []
    plan.finish("list", -1, "failed", 0)
    assert plan.decide(0, 1) == [Settled("m", "upstream_failed")]


def test_resumed_run_skips_what_is_finished():
    """Successful and skipped instances are not run again; all others are, with the next attempt number."""
    nodes = [*chain_of("a", "b", rule=TriggerRule.NONE_FAILED), Node("c"), Node("d"), Node("e")]
    records = {
        ("a", -1): ("success", 2),
        ("b", -1): ("running", 3),
        ("c", -1): ("skipped", 1),
        ("d", -1): ("failed", 4),
        ("e", -1): ("cleared", 5),
    }
    assert drive(Plan(nodes, records)) == ["b[-1]#4", "d[-1]#5", "e[-1]#6"]


def test_resumed_run_has_a_fresh_retry_budget():
    """Attempts of before do not count against the retries of a resumed run."""
    plan = Plan([Node("a", retries=1)], {("a", -1): ("failed", 2)})
    assert drive(plan, lambda start: "up_for_retry" if start.retry else "failed") == ["a[-1]#3", "a[-1]#4"]


def test_resumed_run_expands_again():
    """Indices that were finished before are not run again after the expansion; those beyond it do not count."""
    records = {("m", 0): ("success", 1), ("m", 1): ("failed", 1), ("m", 7): ("success", 1)}
    plan = Plan([Node("m", mapped=True)], records)
    assert drive(plan, counts={"m": 3}) == ["m[1]#2", "m[2]#1"]
    assert plan.successes("m") == [0, 1, 2]


def test_finished_task_is_not_judged_again():
    """A task that succeeded in an earlier session stays so when one before it is run again."""
    plan = Plan(chain_of("a", "b"), {("b", -1): ("success", 1)})
    assert drive(plan, lambda start: "failed") == ["a[-1]#1"]
    assert states(plan) == {"a[-1]": "failed", "b[-1]": "success"}


def test_cleared_attempt_starts_over():
    """An attempt that a clear made stale is followed by a new one with a fresh budget."""
    plan = Plan([Node("a", retries=0)])
    plan.decide(0, 1)
    plan.restart("a", -1, 4)
    assert plan.decide(0, 1) == [Start("a", -1, 5, retry=False)]


def test_run_without_tasks_has_succeeded():
    """Nothing to do is done."""
    assert Plan([]).run_state == "success"


def test_finished_instance_can_start_over():
    """An instance that was cleared after it had finished runs again; what came behind it stays finished."""
    plan = Plan(chain_of("a", "b"))
    drive(plan)
    plan.restart("a", -1, 1)
    assert plan.done is False
    assert drive(plan) == ["a[-1]#2"]
    assert (plan.has("a", -1), plan.has("a", 0), plan.has("c", -1)) == (True, False, False)


def test_a_cleared_task_waits_for_cleared_ones_before_it():
    """Of several cleared tasks, each starts over after those before it, whatever the order of the clears."""
    plan = Plan(chain_of("b", "a", "c"))
    assert [plan.decide(0, 1)[0].task_id, plan.finish("b", -1, "success", 0)] == ["b", None]
    assert plan.decide(0, 1) == [Start("a", -1, 1, retry=False)]
    plan.restart("a", -1, 1)
    plan.restart("b", -1, 1)
    assert drive(plan, slots=5) == ["b[-1]#2", "a[-1]#2", "c[-1]#1"]


def test_a_retry_goes_on_beside_a_cleared_sibling():
    """A sibling that waits for its retry keeps its budget and its delay when another instance is cleared."""
    plan = Plan([Node("m", mapped=True, retries=1, retry_delay=5)])
    assert plan.decide(0, 2) == [Expand("m")]
    plan.expanded("m", 2)
    plan.decide(0, 2)
    plan.finish("m", 0, "up_for_retry", 0)
    plan.finish("m", 1, "success", 0)
    plan.restart("m", 1, 1)
    assert plan.decide(1, 2) == [Start("m", 1, 2, retry=True)]
    assert plan.decide(5, 2) == [Start("m", 0, 2, retry=False)]


def test_a_retry_that_was_cleared_is_started_once():
    """An instance that was cleared while it waited for its retry starts over at once, and only once."""
    plan = Plan([Node("a", retries=1, retry_delay=5)])
    plan.decide(0, 1)
    plan.finish("a", -1, "up_for_retry", 0)
    plan.restart("a", -1, 1)
    assert plan.decide(1, 1) == [Start("a", -1, 2, retry=True)]
    assert plan.decide(5, 1) == []


def test_a_cleared_list_is_expanded_anew():
    """A task mapped over a cleared result is expanded anew when what runs for the old list has ended."""
    nodes = [
        Node("list"),
        Node("m", upstream=("list",), mapped=True, length_sources=("list",)),
        Node("n", upstream=("m",), mapped=True, length_sources=("m",)),
    ]
    plan = Plan(nodes, {("list", -1): ("success", 1)})
    assert plan.decide(0, 1) == [Expand("m")]
    plan.expanded("m", 2)
    assert plan.decide(0, 1) == [Start("m", 0, 1, retry=False)]
    plan.restart("list", -1, 1)
    assert plan.decide(0, 1) == [Start("list", -1, 2, retry=False)]
    plan.finish("list", -1, "success", 0)
    assert plan.decide(0, 5) == []
    plan.finish("m", 0, "success", 0)
    assert drive(plan, counts={"m": 3, "n": 1}, slots=5) == ["m[1]#1", "m[2]#1", "n[0]#1"]
    plan.restart("list", -1, 2)
    assert plan.done is False
    assert drive(plan, counts={"m": 1, "n": 2}) == ["list[-1]#3", "n[1]#1"]
    assert plan.run_state == "success"
