"""What the runner tells an attempt, as JSON over its standard input."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

__all__ = ["AttemptSpec", "ExitCode", "MappedItem"]


class ExitCode:
    """How an attempt says that it ended. The record in the store decides; the code only says why.

    Anything else, a signal above all: the process came to its end before it could record anything.
    """

    SUCCESS = 0
    SKIPPED = 10
    FAILED = 11
    """Failed for good: no retry is left, or the task asked for none."""
    UP_FOR_RETRY = 12
    STALE = 13
    """A clear or a later attempt took over while it ran."""
    NOT_STARTED = 14
    """The DAG file did not load, or the attempt could not be opened: nothing is recorded."""
    STORE = 15
    """The store could not be reached to record the end."""


class MappedItem(NamedTuple):
    """The mapped arguments of one instance.

    Args:
        sent: Arguments by name, in the codec of results.
        own: Arguments that the codec cannot hold: their position in the list in the file.
    """

    sent: dict[str, str]
    own: dict[str, int]


class AttemptSpec(NamedTuple):
    """One attempt.

    Args:
        file: The DAG file.
        dag_id: The DAG.
        run_id: The run.
        task_id: The task.
        map_index: The position, -1 if not mapped.
        attempt: The number of the attempt.
        retry: Whether another attempt follows if this one fails.
        max_tries: The most attempts that the task has in one budget.
        settings: The store's settings, by name.
        params: What the run was started with.
        logical_date: ISO 8601 with offset.
        indices: For each task whose result is taken, its successful map indices.
        item: The mapped arguments; `None` if the task is not mapped.
        runner: The process id of the runner.
        control: The number of the file descriptor for news to the runner.
        incarnation: That of the run.
        token: With what the attempt shows itself to a server, where the store is behind one.
    """

    file: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    attempt: int
    retry: bool
    max_tries: int
    settings: dict[str, Any]
    params: dict[str, Any]
    logical_date: str
    indices: dict[str, list[int]]
    item: MappedItem | None
    runner: int
    control: int
    incarnation: str | None = None
    token: str | None = None

    def dump(self) -> bytes:
        """Return the specification as JSON."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def load(cls, data: bytes) -> AttemptSpec:
        """Return the specification that `dump` wrote."""
        fields = json.loads(data)
        if fields["item"] is not None:
            fields["item"] = MappedItem(*fields["item"])
        return cls(**fields)
