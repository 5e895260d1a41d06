"""What can go wrong before and while a DAG file is run."""

from __future__ import annotations

from milepost.errors import MilepostError

__all__ = ["DagLoadError", "ResultDamagedError", "RunnerUsageError"]


class DagLoadError(MilepostError):
    """A DAG file is missing or does not load; the message names the file and the line. Exit code 2.

    .. versionadded:: 0.1
    """

    exit_code = 2


class RunnerUsageError(MilepostError, ValueError):
    """The runner was asked for something that cannot be: an unknown DAG or task, bad parameters. Exit code 2.

    .. versionadded:: 0.1
    """

    exit_code = 2


class ResultDamagedError(MilepostError, ValueError):
    """A stored result of a task cannot be read, or was written by a newer Milepost.

    .. versionadded:: 0.1
    """
