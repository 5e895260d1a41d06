"""`ResumableJobMixin` for the operators of Airflow's providers, where Airflow itself has none."""

from __future__ import annotations

import logging
from typing import Any

from milepost.airflow import compat
from milepost.resumable import ResumableJobMixin

__all__ = ["DurableJobMixin"]

_log = logging.getLogger("milepost.airflow")


class DurableJobMixin(ResumableJobMixin):
    """`milepost.ResumableJobMixin` that takes ``durable`` from ``default_args``, too.

    A store that cannot be reached fails the attempt: nothing is submitted that could not be remembered.

    .. versionadded:: 0.1
    """

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
