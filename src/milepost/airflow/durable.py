"""`ResumableJobMixin` for the operators of Airflow's providers, where Airflow itself has none."""

from __future__ import annotations

from typing import Any

from milepost.airflow import compat
from milepost.resumable import ResumableJobMixin

__all__ = ["DurableJobMixin"]


class DurableJobMixin(ResumableJobMixin):
    """`milepost.ResumableJobMixin` that takes ``durable`` from ``default_args``, too.

    A store that cannot be reached fails the attempt: nothing is submitted that could not be remembered.

    .. versionadded:: 0.1
    """

    @compat.takes_default_args
    def __init__(self, *, durable: bool = True, **kwargs: Any) -> None:
        super().__init__(durable=durable, **kwargs)
