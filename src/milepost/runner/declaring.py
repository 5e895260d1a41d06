"""Loading a DAG file is what declares its assets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.references import is_alias
from milepost.runner.errors import DagLoadError
from milepost.scopes import activate_command, copy_command

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from milepost.scopes import AssetScope
    from milepost.sdk.dag import DAG
    from milepost.store import Store

__all__ = ["declare_assets", "scheduled_elsewhere"]


def declare_assets(store: Store, dags: Mapping[str, DAG]) -> None:
    """Record what the DAGs of a file refer to, in place of what they referred to when it was loaded before.

    What no DAG refers to any more is told on standard error, with what becomes of it and how to keep it.

    Args:
        store: The store.
        dags: All DAGs of the file.

    Raises:
        DagLoadError: An asset of the file leads to two different ones of the store; nothing was changed.
    """
    try:
        changes = store.assets.declare_many({dag_id: _references(dag) for dag_id, dag in dags.items()})
    except (InvalidValueError, UnsupportedTypeError) as error:
        first = next(iter(dags.values()))
        raise DagLoadError(f"{first.where.file}: {error}") from error
    _warn_of_namesakes(store, changes.added)
    for asset in changes.deactivated:
        sys.stderr.write(f"milepost: no DAG refers to the asset {asset} any more; {_fate(store, asset)}\n")


def _fate(store: Store, asset: AssetScope) -> str:
    """Say what becomes of an asset that was just deactivated."""
    record = store.assets.get(asset)
    until = None if record is None else record.kept_until(store.settings.orphan_grace_hours)
    if record is None or until is None:
        return "it is deactivated"  # something refers to it again by now
    shown = until.astimezone().isoformat(sep=" ", timespec="seconds")
    return (
        f"it is deactivated: writes are refused, reads find nothing. Its state is kept until {shown} "
        f"(orphan_grace_hours), then a collection removes it. To have it back: {activate_command(record.scope)}, "
        "or a DAG that refers to it again"
    )


def _warn_of_namesakes(store: Store, added: Sequence[AssetScope]) -> None:
    """Tell of new assets whose name or URI another one has: where just the other was changed, the state is with that one."""
    if not added:
        return
    known = store.assets.list()
    for asset in added:
        for other in known:
            same_name, same_uri = other.name == asset.name, other.uri == asset.uri
            if same_name == same_uri:
                continue
            which = f"name has the URI {other.uri}" if same_name else f"URI has the name {other.name}"
            sys.stderr.write(
                f"milepost: the new asset {asset.name} with the URI {asset.uri} starts without state; another asset of that "
                f"{which} (`{copy_command(other.scope, asset)}` takes its state over)\n"
            )


def scheduled_elsewhere(store: Store, dags: Container[str], watched: Container[tuple[str, str]]) -> Iterator[str]:
    """Tell of DAGs of other files that are scheduled on watched assets: an event starts runs where it is seen first, only.

    Args:
        store: The store.
        dags: The DAGs of the file.
        watched: Names and URIs of the assets that are watched.
    """
    for asset in store.assets.list():
        others = [ref.dag_id for ref in asset.references if ref.direction == "schedule" and ref.dag_id not in dags]
        if others and (asset.name, asset.uri) in watched:
            yield (
                f"the asset {asset.name} also schedules {', '.join(others)}, which this file has not: an event that is seen "
                "here starts no run there, and one that another watch of the asset has seen starts none here; keep DAGs of "
                f"one watched asset in one file, and tell of a DAG that is gone: milepost assets forget {others[0]}"
            )


def _references(dag: DAG) -> dict[str, list[Any]]:
    inlets = [asset for task in dag.task_dict.values() for asset in task.inlets]
    outlets = [asset for task in dag.task_dict.values() for asset in task.outlets]
    schedule = list(_leaves(getattr(dag, "schedule", None)))
    watched = [asset for asset in (*inlets, *outlets, *schedule) if getattr(asset, "watchers", ())]
    return {"inlets": inlets, "outlets": outlets, "schedule": schedule, "watched": watched}


def _leaves(schedule: Any) -> Iterator[Any]:
    """Go through the assets in a schedule, whatever the condition; a schedule by time has none."""
    if isinstance(schedule, list | tuple | set | frozenset):
        for part in schedule:
            yield from _leaves(part)
    elif (parts := getattr(schedule, "parts", None)) is not None:
        yield from _leaves(tuple(parts))
    elif not is_alias(schedule) and (hasattr(schedule, "uri") or hasattr(schedule, "name")):
        yield schedule
