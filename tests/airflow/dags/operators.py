"""Operators of a user's own that submit a job, with the mixin from every place that has it. On all versions of Airflow."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import milepost
from milepost.sdk import ResumableJobMixin

try:
    from airflow import sdk
    from airflow.sdk import DAG, BaseOperator
except ImportError:
    sdk = None
    from airflow import DAG
    from airflow.models.baseoperator import BaseOperator

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
FROM_SDK = getattr(sdk, "ResumableJobMixin", ResumableJobMixin)


class Job:
    """A service whose jobs are done at once."""

    def submit_job(self, context: Any) -> str:
        """Submit."""
        return f"job of {context['ti'].task_id}"

    def get_job_status(self, external_id: str, context: Any) -> str:
        """Done."""
        return "done"

    def is_job_active(self, status: str) -> bool:
        """No."""
        return False

    def is_job_succeeded(self, status: str) -> bool:
        """Yes."""
        return True

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        """Nothing."""

    def get_job_result(self, external_id: str, context: Any) -> Any:
        """Say whether the job was to be remembered, and by what the operator was told."""
        return f"{external_id}, {self.durable}, {getattr(self, 'given', None)}"


class Plain(Job, ResumableJobMixin, BaseOperator):
    """Has no `__init__`."""

    def execute(self, context: Any) -> Any:
        """Submit, wait, fetch."""
        return self.execute_resumable(context)


class FromMilepost(Job, milepost.ResumableJobMixin, BaseOperator):
    """The same by another name."""

    def execute(self, context: Any) -> Any:
        """Submit, wait, fetch."""
        return self.execute_resumable(context)


class FromSdk(Job, FROM_SDK, BaseOperator):
    """That of `airflow.sdk`, where there is one."""

    def execute(self, context: Any) -> Any:
        """Submit, wait, fetch."""
        return self.execute_resumable(context)


class Inherits(Plain):
    """Has none either."""


class Given(Job, ResumableJobMixin, BaseOperator):
    """Has an `__init__` and templates of its own."""

    template_fields = ("given",)

    def __init__(self, *, given: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.given = given

    def execute(self, context: Any) -> Any:
        """Submit, wait, fetch."""
        return self.execute_resumable(context)


class Refused(BaseOperator):
    """Says why the mixin cannot come last."""

    def execute(self, context: Any) -> None:
        """Say it."""
        for mixin in (ResumableJobMixin, milepost.ResumableJobMixin):
            try:
                type("Reversed", (BaseOperator, mixin), {})
            except TypeError as error:
                context["task_store"].set("why", str(error))


with DAG("operators", start_date=START, schedule=None, default_args={"durable": False}) as operators:
    Plain(task_id="plain")
    Plain(task_id="durable", durable=True)
    FromMilepost(task_id="from_milepost", durable=True)
    FromSdk(task_id="from_sdk")
    Inherits(task_id="inherits", default_args={"durable": True})
    Given(task_id="given", given="{{ 1 + 1 }}", durable=True)
    Given.partial(task_id="mapped").expand(given=["a"])
    Plain.partial(task_id="mapped_plain").expand(durable=[True])
    Refused(task_id="refused")
