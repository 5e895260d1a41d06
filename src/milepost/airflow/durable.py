"""`ResumableJobMixin` for the operators of Airflow's providers, where Airflow itself has none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from milepost.airflow import compat
from milepost.resumable import ResumableJobMixin

__all__ = ["DurableJobMixin"]

_log = logging.getLogger("milepost.airflow")


class DurableJobMixin(ResumableJobMixin):
    """`milepost.ResumableJobMixin` that takes ``durable`` from ``default_args``, too.

    A store that cannot be reached fails the attempt: nothing is submitted that could not be remembered.

    .. versionadded:: 0.1
    """

    if TYPE_CHECKING:
        task_id: str  # the operator's

    @compat.takes_default_args
    def __init__(self, *, durable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(durable=durable is not False, **kwargs)
        self.__dict__["_durable_by_default"] = durable is None

    @property
    def durable(self) -> bool:
        """Whether to remember the job: `False` if nobody has asked for it and the operator would refuse to do so."""
        remembers: bool = self.__dict__["durable"]
        return remembers and not (self.__dict__.get("_durable_by_default") and _refuses(self))

    @durable.setter
    def durable(self, value: bool) -> None:
        self.__dict__["durable"] = value

    def execute_resumable(self, context: Any) -> Any:
        """As the mixin's; an operator that is not the task itself remembers nothing: several of them would share a key."""
        if not self.durable or _runs_as_task(self, context):
            return super().execute_resumable(context)
        _log.info(
            "%s does not keep its job over retries, because it is not a task, but executed by one",
            self.task_id, extra={"action": "airflow_not_durable"},
        )  # fmt: skip
        self.durable = False
        try:
            return super().execute_resumable(context)
        finally:
            self.durable = True


def _runs_as_task(operator: Any, context: Any) -> bool:
    """Tell whether an operator is the task that runs, and not one that code of a task, or a test, executes by itself."""
    task = context.get("task") if isinstance(context, Mapping) else None
    return getattr(task, "task_id", None) == operator.task_id and isinstance(operator, type(task))


def _refuses(operator: Any) -> bool:
    """Tell whether a `SparkSubmitOperator` would raise because it cannot ask YARN for the job.

    On Airflow 3.3 it does, and the DAG has to choose. Here, one that worked without Milepost goes on as it was.
    """
    hook = operator.__dict__.get("_hook")
    refuses = getattr(hook, "_is_yarn_cluster_mode", False) and not getattr(hook, "_yarn_track_via_rm_api", True)
    if refuses:
        _log.info(
            "%s does not keep its job over retries: on YARN in cluster mode that takes yarn_track_via_rm_api=True",
            operator.task_id, extra={"action": "airflow_not_durable"},
        )  # fmt: skip
    return bool(refuses)
