"""What is to be done next in a run: decisions over plain data, without I/O.

A `Plan` knows every task and the state of every task instance.
The runner asks it what to do (`Plan.decide`), does it, and tells it what came of it.
It holds no clock: the runner passes the time, in seconds of any monotonic clock.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from milepost.runner.verdicts import Tally, Verdict, judge
from milepost.sdk.rules import TriggerRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["DONE", "Expand", "Instance", "Node", "Plan", "Settled", "Start", "State"]

State = Literal["none", "running", "up_for_retry", "success", "failed", "skipped", "upstream_failed"]

DONE: Final = frozenset({"success", "failed", "skipped", "upstream_failed"})
"""States in which a task instance is finished in this run."""


@dataclass(frozen=True, slots=True)
class Node:
    """A task, as far as planning goes.

    Args:
        task_id: Its id.
        upstream: The tasks directly before it.
        rule: Its trigger rule.
        retries: How often it is tried again.
        retry_delay: Seconds before each retry.
        mapped: Whether it is mapped.
        length_sources: The tasks whose results decide how many instances it has.
    """

    task_id: str
    upstream: tuple[str, ...] = ()
    rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retries: int = 0
    retry_delay: float = 0.0
    mapped: bool = False
    length_sources: tuple[str, ...] = ()


@dataclass(slots=True)
class Instance:
    """A task instance.

    Args:
        task_id: Its task.
        map_index: Its position; -1 if the task is not mapped.
        state: Its state.
        attempt: The latest attempt; 0 for none.
        tries: Attempts in the present retry budget.
    """

    task_id: str
    map_index: int
    state: State = "none"
    attempt: int = 0
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Expand:
    """The tasks before a mapped task are done: find out how many instances it has."""

    task_id: str


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt.

    Args:
        task_id: The task.
        map_index: The position, -1 if not mapped.
        attempt: The number of the attempt.
        retry: Whether another attempt follows if this one fails.
    """

    task_id: str
    map_index: int
    attempt: int
    retry: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """A task will not run in this run, because of the tasks before it."""

    task_id: str
    state: State


@dataclass(slots=True)
class _Task:
    node: Node
    instances: dict[int, Instance]
    counts: Counter[str]
    expanded: bool
    released: bool = False
    waiting: deque[int] = field(default_factory=deque)
    outdated: bool = False
    """Whether the list that it was mapped over is computed anew; what runs for the old one comes to its end first."""

    @property
    def done(self) -> bool:
        return self.expanded and not self.outdated and sum(self.counts[state] for state in DONE) == len(self.instances)


class Plan:
    """The plan of one run.

    Args:
        nodes: The tasks, each after those before it.
        records: What is recorded of the run's task instances: state and attempt by task id and map index.
            ``success`` and ``skipped`` are finished; everything else is to be run, from a fresh retry budget.
    """

    def __init__(self, nodes: Sequence[Node], records: Mapping[tuple[str, int], tuple[str, int]] | None = None) -> None:
        self._records = dict(records or {})
        self._tasks: dict[str, _Task] = {}
        self._retries: list[tuple[float, int, str, int]] = []
        self._drawn = 0
        for node in nodes:
            self._tasks[node.task_id] = _Task(node, {}, Counter(), expanded=False)
            if not node.mapped:
                self._give(node.task_id, [-1])

    def _give(self, task_id: str, indices: Iterable[int]) -> None:
        """Make the instances of a task from what is recorded of them."""
        task = self._tasks[task_id]
        task.expanded = True
        for index in indices:
            recorded, attempt = self._records.get((task_id, index), ("none", 0))
            state: State = "success" if recorded == "success" else "skipped" if recorded == "skipped" else "none"
            task.instances[index] = Instance(task_id, index, state, attempt)
            task.counts[state] += 1

    def instances(self) -> list[Instance]:
        """Return all task instances there are so far."""
        return [instance for task in self._tasks.values() for instance in task.instances.values()]

    def instance(self, task_id: str, map_index: int) -> Instance:
        """Return one task instance.

        Raises:
            KeyError: There is none.
        """
        return self._tasks[task_id].instances[map_index]

    def has(self, task_id: str, map_index: int) -> bool:
        """Tell whether the run has this task instance."""
        return task_id in self._tasks and map_index in self._tasks[task_id].instances

    def has_finished(self, task_id: str, map_index: int) -> bool:
        """Tell whether the run has this task instance, and it is finished."""
        return self.has(task_id, map_index) and self.instance(task_id, map_index).state in DONE

    def successes(self, task_id: str) -> list[int]:
        """Return the map indices of a task's successful instances, in order."""
        found = self._tasks[task_id].instances.values()
        return sorted(instance.map_index for instance in found if instance.state == "success")

    def _set(self, instance: Instance, state: State) -> None:
        counts = self._tasks[instance.task_id].counts
        counts[instance.state] -= 1
        counts[state] += 1
        instance.state = state

    def decide(self, now: float, slots: int) -> list[Expand | Start | Settled]:
        """Return what to do now; what is to be started counts as running from here on.

        Args:
            now: The time.
            slots: How many attempts may be started.

        Returns:
            Decisions. After an `Expand` was carried out (`expanded` or `unexpandable`), ask again.
        """
        while self._retries and self._retries[0][0] <= now:
            _, _, task_id, index = heapq.heappop(self._retries)
            instance = self._tasks[task_id].instances.get(index)
            if instance is not None and instance.state == "up_for_retry":  # not cleared meanwhile
                self._tasks[task_id].waiting.append(index)
        decisions: list[Expand | Start | Settled] = []
        for task in self._tasks.values():
            if task.outdated:
                if task.counts["running"]:
                    continue
                self._forget(task)
            decisions += self._release(task)
            while task.waiting and slots > 0:
                decisions.append(self._start(task, task.waiting.popleft()))
                slots -= 1
        return decisions

    def _release(self, task: _Task) -> list[Expand | Start | Settled]:
        """Let a task go ahead, or settle it, if the tasks before it say so."""
        if task.released or task.done:
            return []
        verdict: Verdict = judge(task.node.rule, self._tally(task.node))
        if verdict == "run" and not task.expanded:
            verdict = self._judge_lengths(task.node)
        if verdict == "wait":
            return []
        task.released = True
        if verdict == "run":
            if not task.expanded:
                return [Expand(task.node.task_id)]
            task.waiting.extend(self._unstarted(task))
            return []
        state: State = "skipped" if verdict == "skip" else "upstream_failed"
        if not task.expanded:
            return [self._settle_whole(task, state)]
        for index in self._unstarted(task):
            self._set(task.instances[index], state)
        return [Settled(task.node.task_id, state)]

    def _unstarted(self, task: _Task) -> list[int]:
        return [index for index, instance in task.instances.items() if instance.state == "none"]

    def _tally(self, node: Node) -> Tally:
        total: Counter[str] = Counter()
        for task_id in node.upstream:
            task = self._tasks[task_id]
            total.update(task.counts if task.expanded else {"none": 1})
        return Tally(
            total=sum(total.values()),
            success=total["success"],
            failed=total["failed"] + total["upstream_failed"],
            skipped=total["skipped"],
        )

    def _judge_lengths(self, node: Node) -> Verdict:
        """Judge whether the lists that a task is mapped over are there, whatever its trigger rule says."""
        sources = [self._tasks[task_id] for task_id in node.length_sources]
        if not all(task.done for task in sources):
            return "wait"
        plain = [task.instances[-1].state for task in sources if -1 in task.instances]
        if any(state in {"failed", "upstream_failed"} for state in plain):
            return "fail"
        return "skip" if "skipped" in plain else "run"

    def _start(self, task: _Task, index: int) -> Start:
        instance = task.instances[index]
        instance.attempt += 1
        instance.tries += 1
        self._set(instance, "running")
        return Start(task.node.task_id, index, instance.attempt, retry=instance.tries <= task.node.retries)

    def expanded(self, task_id: str, count: int, anew: Iterable[int] = ()) -> Settled | None:
        """Tell how many instances a mapped task has.

        Args:
            task_id: The task.
            count: How many.
            anew: Positions that start over, however they are recorded.

        Returns:
            That the task is skipped, if it has none.
        """
        task = self._tasks[task_id]
        for index in anew:
            _, attempt = self._records.get((task_id, index), ("none", 0))
            self._records[task_id, index] = ("none", attempt)
        if count == 0:
            return self._settle_whole(task, "skipped")
        self._give(task_id, range(count))
        task.waiting.extend(self._unstarted(task))
        return None

    def unexpandable(self, task_id: str) -> Settled:
        """Tell that a mapped task cannot be expanded: it failed."""
        return self._settle_whole(self._tasks[task_id], "failed")

    def _settle_whole(self, task: _Task, state: State) -> Settled:
        task.expanded = True
        task.instances[-1] = Instance(task.node.task_id, -1, state)
        task.counts[state] += 1
        return Settled(task.node.task_id, state)

    def finish(self, task_id: str, map_index: int, state: State, now: float) -> None:
        """Tell how an attempt ended.

        Args:
            task_id: The task.
            map_index: The position.
            state: ``success``, ``failed``, ``skipped`` or ``up_for_retry``.
            now: The time.
        """
        self._set(self.instance(task_id, map_index), state)
        if state == "up_for_retry":
            self._again(task_id, map_index, now + self._tasks[task_id].node.retry_delay)

    def restart(self, task_id: str, map_index: int, attempt: int) -> None:
        """Tell that an attempt was made stale from outside (a clear): start anew, from a fresh retry budget.

        It waits for the tasks before it, which may have been cleared too. Tasks that are mapped over its result are expanded
        anew.

        Args:
            task_id: The task.
            map_index: The position.
            attempt: The latest attempt that is recorded.
        """
        instance = self.instance(task_id, map_index)
        instance.tries, instance.attempt = 0, max(attempt, instance.attempt)
        self._set(instance, "none")
        self._hold_back(self._tasks[task_id])
        self._outdate_those_mapped_over(task_id)

    def take_back(self, start: Start) -> None:
        """Tell that an attempt was not started after all: its instance waits for the tasks before it again."""
        instance = self.instance(start.task_id, start.map_index)
        instance.tries -= 1
        instance.attempt -= 1
        self._set(instance, "none")
        self._hold_back(self._tasks[start.task_id])

    def reconsider(self, task_id: str) -> None:
        """Tell that a task was not expanded after all: it waits for the tasks before it again."""
        self._hold_back(self._tasks[task_id])

    def _hold_back(self, task: _Task) -> None:
        """Judge a task anew; what waits for a retry has been let go already."""
        task.released = False
        task.waiting = deque(index for index in task.waiting if task.instances[index].state == "up_for_retry")

    def _outdate_those_mapped_over(self, task_id: str) -> None:
        for task in self._tasks.values():
            if task_id in task.node.length_sources and task.expanded and not task.outdated:
                task.outdated = True
                self._outdate_those_mapped_over(task.node.task_id)

    def _forget(self, task: _Task) -> None:
        """Drop the instances of a mapped task; the next expansion makes them anew from how they stand now."""
        for (task_id, index), instance in [((one.task_id, one.map_index), one) for one in task.instances.values()]:
            self._records[task_id, index] = (instance.state, instance.attempt)
        task.instances, task.counts, task.waiting = {}, Counter(), deque()
        task.expanded = task.released = task.outdated = False

    def _again(self, task_id: str, map_index: int, at: float) -> None:
        self._drawn += 1
        heapq.heappush(self._retries, (at, self._drawn, task_id, map_index))

    def next_retry(self) -> float | None:
        """Return when the next retry is due; `None` if none waits."""
        return self._retries[0][0] if self._retries else None

    @property
    def done(self) -> bool:
        """Whether every task is finished."""
        return all(task.done for task in self._tasks.values())

    @property
    def run_state(self) -> Literal["success", "failed"] | None:
        """How the run ended, by the tasks that nothing comes after (as in Airflow); `None` while it goes on."""
        if not self.done:
            return None
        above = {task_id for task in self._tasks.values() for task_id in task.node.upstream}
        leaves = [task for task_id, task in self._tasks.items() if task_id not in above]
        bad = any(task.counts["failed"] or task.counts["upstream_failed"] for task in leaves)
        return "failed" if bad else "success"
