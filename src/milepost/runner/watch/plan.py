"""What there is to watch in a DAG file: which triggers, for which assets, and what their events start."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from milepost.assets import Asset, AssetAll, AssetAny, AssetRef
from milepost.errors import MilepostError
from milepost.references import is_alias
from milepost.runner.errors import DagLoadError, RunnerUsageError
from milepost.values import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from milepost.sdk.dag import DAG
    from milepost.sdk.triggers import AssetWatcher, BaseEventTrigger

__all__ = ["Plan", "Watched", "make_plan"]

_Names = tuple[str, str]


@dataclass(slots=True)
class Watched:
    """One trigger with all that it watches.

    Args:
        trigger: The trigger.
        where: The line of its first watcher, for messages.
        assets: Its assets by name and URI, each with the name of the watcher.
        dags: DAGs that its events start, each with those of its assets that the DAG is scheduled on.
    """

    trigger: BaseEventTrigger
    where: str
    assets: dict[_Names, str] = field(default_factory=dict)
    dags: dict[str, list[_Names]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How the trigger is called in messages."""
        name = next(iter(self.assets.values()))
        return f"{name} ({type(self.trigger).__name__})"


@dataclass(slots=True)
class Plan:
    """What to watch.

    Args:
        watched: The triggers, in the order of the file.
        dags: The DAGs that are looked at.
        notes: What a reader of the file may not expect.
    """

    watched: list[Watched]
    dags: dict[str, DAG]
    notes: list[str]


def make_plan(dags: Mapping[str, DAG], watchers: Sequence[AssetWatcher], dag_ids: Sequence[str], path: str) -> Plan:
    """Find what there is to watch.

    Args:
        dags: The DAGs of the file.
        watchers: All watchers that the file made.
        dag_ids: The DAGs to look at; empty: all.
        path: The file, for messages.

    Raises:
        RunnerUsageError: The file has no such DAG, or there is nothing to watch.
        DagLoadError: A DAG is scheduled on a watched asset in a way that no event can meet alone, or a trigger cannot run.
    """
    for dag_id in dag_ids:
        if dag_id not in dags:
            raise RunnerUsageError(f"{path} has no DAG {dag_id!r}; it has: {', '.join(dags)}")
    chosen = {dag_id: dag for dag_id, dag in dags.items() if not dag_ids or dag_id in dag_ids}
    assets = [asset for dag in chosen.values() for asset in _assets_of(dag)]
    watched = _triggers(assets)
    attached = {id(watcher) for asset in assets for watcher in asset.watchers}
    notes = [
        f"{watcher.where}: the watcher {watcher.name!r} is of no asset that a DAG of this file uses, so it is not run"
        for watcher in watchers
        if id(watcher) not in attached and not dag_ids
    ]
    if not watched:
        raise RunnerUsageError("\n".join([f"{path} has nothing to watch: no asset of its DAGs has watchers", *notes]))
    index = _index(watched)
    for dag in chosen.values():
        _tie(dag, index)
    for one in watched:
        started = {names for on in one.dags.values() for names in on}
        notes += [
            f"{one.where}: no DAG of this file is scheduled on the asset {name!r}; its events are recorded and start no run"
            for name, uri in one.assets
            if (name, uri) not in started
        ]
    named = Counter((names, watcher) for one in watched for names, watcher in one.assets.items())
    notes += [
        f"{count} watchers of the asset {name!r} are called {watcher!r}: give each a name of its own, by which events "
        "without an id are told apart"
        for ((name, _), watcher), count in named.items()
        if count > 1
    ]
    return Plan(watched, chosen, notes)


def _assets_of(dag: DAG) -> Iterator[Asset]:
    """Go through all assets that a DAG declares: its schedule, inlets and outlets."""
    declared = [*_leaves(dag.schedule)]
    for task in dag.tasks:
        declared += [*task.inlets, *task.outlets]
    return (thing for thing in declared if isinstance(thing, Asset))


def _leaves(schedule: Any) -> Iterator[Any]:
    """Go through what stands in a schedule, whatever the condition."""
    if isinstance(schedule, AssetAny | AssetAll):
        for part in schedule.parts:
            yield from _leaves(part)
    elif isinstance(schedule, list | tuple | set | frozenset):
        for part in schedule:
            yield from _leaves(part)
    elif isinstance(schedule, Asset | AssetRef) or is_alias(schedule):
        yield schedule


def _triggers(assets: Sequence[Asset]) -> list[Watched]:
    """Return the triggers, those that are the same once."""
    found: dict[Any, Watched] = {}
    for asset in assets:
        for watcher in asset.watchers:
            one = found.setdefault(_identity(watcher), Watched(watcher.trigger, str(watcher.where)))
            one.assets.setdefault((asset.name, asset.uri), watcher.name)
    return list(found.values())


def _identity(watcher: AssetWatcher) -> Any:
    """Return what two watchers share if one trigger is to serve both.

    Raises:
        DagLoadError: The trigger cannot run.
    """
    trigger = watcher.trigger
    if not inspect.isasyncgenfunction(trigger.run) and inspect.iscoroutinefunction(trigger.run):
        raise DagLoadError(
            f"{watcher.where}: run() of {type(trigger).__name__} yields nothing: it has to be an async generator, "
            "an `async def` with `yield TriggerEvent(…)` in it"
        )
    try:
        path, arguments = trigger.serialize()
        return path, canonical(arguments)
    except NotImplementedError:
        return id(trigger)
    except (TypeError, MilepostError):
        return id(trigger)  # it returns what Airflow's own encoder takes and JSON does not
    except Exception as error:
        name = type(error).__name__
        raise DagLoadError(f"{watcher.where}: serialize() of {type(trigger).__name__} failed: {name}: {error}") from error


_TOGETHER: Final = (
    "waits for several assets together (a list of several, or a & b): `milepost watch` starts a run for each event, so it "
    "takes one asset or a | b"
)


def _tie(dag: DAG, index: Mapping[tuple[str, str], Sequence[tuple[Watched, _Names]]]) -> None:
    """Note which triggers start runs of a DAG.

    Raises:
        DagLoadError: An event alone cannot meet what the DAG is scheduled on.
    """
    for leaf in _leaves(dag.schedule):
        if is_alias(leaf):
            continue
        how = ("name", leaf.name) if leaf.name is not None else ("uri", leaf.uri)
        for one, names in index.get(how, ()):
            if isinstance(leaf, Asset) and names != (leaf.name, leaf.uri):
                continue
            if not _any(dag.schedule):
                raise DagLoadError(f"{dag.where}: the schedule of DAG {dag.dag_id!r} {_TOGETHER}")
            on = one.dags.setdefault(dag.dag_id, [])
            if names not in on:
                on.append(names)


def _index(watched: Sequence[Watched]) -> dict[tuple[str, str], list[tuple[Watched, _Names]]]:
    """Return the watched assets by name and by URI."""
    index: dict[tuple[str, str], list[tuple[Watched, _Names]]] = {}
    for one in watched:
        for names in one.assets:
            index.setdefault(("name", names[0]), []).append((one, names))
            index.setdefault(("uri", names[1]), []).append((one, names))
    return index


def _any(schedule: Any) -> bool:
    """Tell whether a single event of any asset in a schedule meets it."""
    if isinstance(schedule, AssetAny):
        return all(_any(part) for part in schedule.parts)
    if isinstance(schedule, AssetAll | list | tuple | set | frozenset):
        parts = list(schedule.parts if isinstance(schedule, AssetAll) else schedule)
        return len(parts) == 1 and _any(parts[0])
    return True
