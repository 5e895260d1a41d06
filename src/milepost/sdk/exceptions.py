"""What a task raises to say how it ends, under Airflow's names and under shorter ones."""

from __future__ import annotations

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "FailTask",
    "SkipTask",
]


class AirflowException(Exception):  # noqa: N818 - Airflow's name
    """Something went wrong in a task; it is retried like after any other exception.

    .. versionadded:: 0.1
    """


class AirflowSkipException(AirflowException):
    """Raised in a task: it ends as *skipped*.

    .. versionadded:: 0.1
    """


class AirflowFailException(AirflowException):
    """Raised in a task: it ends as *failed*, whatever retries are left.

    .. versionadded:: 0.1
    """


SkipTask = AirflowSkipException
FailTask = AirflowFailException
