"""Loading a DAG file is what declares its assets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from milepost.assets import is_alias
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.runner.errors import DagLoadError
from milepost.scopes import activate_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from milepost.scopes import AssetScope
    from milepost.sdk.dag import DAG
    from milepost.store import Store

__all__ = ["declare_assets"]


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
    """Tell of new assets whose name another one has: where just the URI was changed, the state is with the other one."""
    if not added:
        return
    known = store.assets.list()
    for asset in added:
        for other in known:
            if other.name == asset.name and other.uri != asset.uri:
                sys.stderr.write(
                    f"milepost: the new asset {asset.name} with the URI {asset.uri} starts without state; another asset of "
                    f"that name has the URI {other.uri} (`milepost asset-store copy` takes its state over)\n"
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
