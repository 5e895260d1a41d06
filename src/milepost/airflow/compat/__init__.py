"""What differs between the versions of Airflow: all of it is here."""

from __future__ import annotations

from milepost.airflow.compat.attempts import (
    Identity,
    cleared_in_run,
    has_a_past,
    identity,
    in_process,
    is_incarnation,
    leave_if_superseded,
    state_after,
)
from milepost.airflow.compat.records import (
    alias_rows,
    dag_is_active,
    native_asset_accessors,
    native_retention,
    triggerer_classes,
    watched_assets,
)
from milepost.airflow.compat.running import (
    let_coroutines_run,
    run_tasks_in,
    takes_default_args,
)

__all__ = [
    "Identity",
    "alias_rows",
    "cleared_in_run",
    "dag_is_active",
    "has_a_past",
    "identity",
    "in_process",
    "is_incarnation",
    "leave_if_superseded",
    "let_coroutines_run",
    "native_asset_accessors",
    "native_retention",
    "run_tasks_in",
    "state_after",
    "takes_default_args",
    "triggerer_classes",
    "watched_assets",
]
