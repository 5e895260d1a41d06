"""What Airflow has on record, and where: its metadata database, its triggerer, its own stores."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from milepost.airflow.configuration import configured

__all__ = [
    "alias_rows",
    "dag_is_active",
    "native_asset_accessors",
    "native_retention",
    "triggerer_classes",
    "watched_assets",
]


def dag_is_active(model: Any) -> Any:
    """Return what says in a query whether a DAG's file has it.

    Args:
        model: Airflow's model of a DAG.
    """
    return ~model.is_stale if hasattr(model, "is_stale") else model.is_active


def native_asset_accessors(stores: Any) -> list[Any]:
    """Return the accessors behind Airflow 3.3's own ``asset_state_store`` of a task.

    Args:
        stores: What stands in the context.
    """
    return [one for name in ("_by_name", "_by_uri") for one in getattr(stores, name, {}).values()]


def native_retention() -> timedelta | None:
    """Return how long Airflow 3.3's own store keeps a key that says nothing of it; `None`: for good."""
    days = int(configured("state_store", "default_retention_days") or 0)
    return timedelta(days=days) if days else None


def alias_rows(session: Any) -> list[tuple[str, str, str]]:
    """Return the assets that aliases stand for: the alias, and name and URI of the asset; there are none before 2.10.

    Args:
        session: A session of Airflow's.
    """
    try:
        from airflow.models.asset import AssetAliasModel as Model
    except ImportError:
        try:
            from airflow.models.dataset import DatasetAliasModel as Model
        except ImportError:
            return []
    return [
        (alias.name, getattr(asset, "name", asset.uri), asset.uri)
        for alias in session.query(Model)
        for asset in (alias.assets if hasattr(alias, "assets") else alias.datasets)
    ]


def triggerer_classes() -> tuple[Any, Any] | None:
    """Return the classes of the triggerer and of the child in which triggers run; `None` on Airflow 2."""
    try:
        from airflow.jobs.triggerer_job_runner import TriggerRunner, TriggerRunnerSupervisor
    except ImportError:
        return None
    return TriggerRunnerSupervisor, TriggerRunner


def watched_assets(triggers: list[int]) -> dict[int, list[tuple[str | None, str, str]]]:
    """Return the assets that triggers watch: the name of the watcher, from 3.2 on, and name and URI of the asset.

    Args:
        triggers: Numbers of triggers.
    """
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session

    found: dict[int, list[tuple[str | None, str, str]]] = {}
    with create_session() as session:
        for trigger in session.query(Trigger).filter(Trigger.id.in_(triggers)):
            if hasattr(trigger, "asset_watchers"):
                rows = [(one.name, one.asset.name, one.asset.uri) for one in trigger.asset_watchers]
            else:
                rows = [(None, asset.name, asset.uri) for asset in trigger.assets]
            if rows:
                found[trigger.id] = rows
    return found
