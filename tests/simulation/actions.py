"""What simulated clients do.

How to add a call: write a function that draws its parameters from the random numbers it is given and returns an `Act` with the
asynchronous call and what the call does to the model (`tests.property.model`, which gets a method for it if need be), and
decorate it with `action(weight)`. The model says the answer or raises the error of the contract; it must change nothing where it
raises. A call whose effect readers cannot see (or that consists of several transactions) is ``kind="quiet"``: then only the
invariants of the rows are checked. A call that only reads is ``kind="read"``, and its model returns what is there now.
"""

# ruff: noqa: D103  (actions are named after the calls that they make)

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from milepost import NEVER_EXPIRE, RunNotFoundError
from tests.property.model import Handle, run_of
from tests.simulation.world import ASSET, KEYS, SCOPES, Act, Client, Step

__all__ = ["ACTIONS", "script"]

HOUR = 3_600_000_000
Make = Callable[[Client, random.Random], Act]
ACTIONS: dict[str, Make] = {}
_WEIGHTS: dict[str, int] = {}


def action(weight: int) -> Callable[[Make], Make]:
    """Register a function that makes an action; the weight says how often it is drawn."""

    def register(make: Make) -> Make:
        ACTIONS[make.__name__] = make
        _WEIGHTS[make.__name__] = weight
        return make

    return register


def script(rng: random.Random, length: int) -> list[Step]:
    """Draw what one client does."""
    names = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=length)
    return [Step(name, rng.getrandbits(32)) for name in names]


def _someone(client: Client, draw: random.Random) -> tuple[Handle, Any]:
    """Choose an accessor: mostly of an attempt, the latest ones rather than old ones."""
    if client.attempts and draw.random() < 0.75:
        return draw.choice(client.attempts[-4:])
    return draw.choice(client.people)


def _name(handle: Handle) -> str:
    owner = handle.owner if isinstance(handle.owner, str) else f"{handle.owner.run_id}[{handle.owner.map_index}]"
    return owner if handle.instance is None else f"{owner} by fence {handle.fence} of {handle.scope}"


def _retention(handle: Handle, draw: random.Random) -> tuple[dict[str, Any], int | str | None]:
    """Draw how long; assets take no retention."""
    if isinstance(handle.owner, str):
        return {}, None
    kept = draw.choice([None, None, HOUR, "never"])
    given = timedelta(microseconds=kept) if isinstance(kept, int) else NEVER_EXPIRE if kept else None
    return {"retention": given}, kept


# -- keys -----------------------------------------------------------------------------------------------------------------


@action(12)
def put(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, value, model = draw.choice(KEYS), draw.randrange(1000), client.world.model
    options, kept = _retention(handle, draw)
    return Act(
        f"set {key}={value} of {_name(handle)}",
        lambda: accessor.aset(key, value, **options),
        lambda: model.set_many(handle, {key: value}, kept),
        handle,
    )


@action(6)
def put_many(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    model, values = client.world.model, {key: draw.randrange(1000) for key in draw.sample(KEYS, draw.randint(2, 3))}
    options, kept = _retention(handle, draw)
    return Act(
        f"set_many {values} of {_name(handle)}",
        lambda: accessor.aset_many(values, **options),
        lambda: model.set_many(handle, values, kept),
        handle,
    )


@action(5)
def put_default(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, value, model = draw.choice(KEYS), draw.randrange(1000), client.world.model
    options, kept = _retention(handle, draw)
    return Act(
        f"set_default {key}={value} of {_name(handle)}",
        lambda: accessor.aset_default(key, value, **options),
        lambda: model.set_default(handle, key, value, kept),
        handle,
    )


@action(10)
def compare_and_set(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, value, model = draw.choice(KEYS), draw.randrange(1000), client.world.model
    options, kept = _retention(handle, draw)
    rows = model.live(handle)
    known = rows[key].version if key in rows else None  # true now; perhaps no longer when the call gets there
    version = draw.choice([known, known, known, None, "bygone"])
    return Act(
        f"compare_and_set {key}={value} over {version} of {_name(handle)}",
        lambda: accessor.acompare_and_set(key, value, version=version, **options),
        lambda: model.compare_and_set(handle, key, value, version, kept),
        handle,
        after=lambda answer, _: None,  # the version is compared with the row after the commit
    )


@action(12)
def increment(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, model = draw.choice(["n", "n", "a"]), client.world.model
    return Act(
        f"increment {key} of {_name(handle)}",
        lambda: accessor.aincrement(key),
        lambda: model.increment(handle, key, 1),
        handle,
    )


@action(6)
def update(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, model = draw.choice(["n", "b"]), client.world.model
    return Act(
        f"update {key} of {_name(handle)}",
        lambda: accessor.aupdate(key, lambda old: old + 1000, 0),
        lambda: model.update(handle, key, lambda old: old + 1000, 0),
        handle,
        tries=True,
    )


@action(3)
def touch(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, model = draw.choice(KEYS), client.world.model
    if isinstance(handle.owner, str):
        return put(client, draw)
    options, kept = _retention(handle, draw)
    return Act(
        f"touch {key} of {_name(handle)}",
        lambda: accessor.atouch(key, **options),
        lambda: model.touch(handle, key, kept),
        handle,
    )


@action(5)
def delete(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, model = draw.choice(KEYS), client.world.model
    return Act(f"delete {key} of {_name(handle)}", lambda: accessor.adelete(key), lambda: model.delete(handle, key), handle)


@action(3)
def clear_keys(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    model = client.world.model
    options = {} if isinstance(handle.owner, str) else {"all_map_indices": draw.random() < 0.5}
    return Act(
        f"clear {options} of {_name(handle)}",
        lambda: accessor.aclear(**options),
        lambda: model.clear(handle, **options),
        handle,
    )


# -- reads ----------------------------------------------------------------------------------------------------------------


@action(8)
def get(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, model = draw.choice(KEYS), client.world.model

    def now() -> Any:
        row = model.live(handle).get(key)
        return "ABSENT" if row is None else row.value

    return Act(f"get {key} of {_name(handle)}", lambda: accessor.aget(key, "ABSENT"), now, handle, "read")


@action(5)
def items(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    model = client.world.model
    return Act(
        f"items of {_name(handle)}",
        accessor.aitems,
        lambda: [(key, row.value) for key, row in sorted(model.live(handle).items())],
        handle,
        "read",
    )


@action(2)
def count(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    model = client.world.model
    return Act(f"len of {_name(handle)}", accessor.alen, lambda: len(model.live(handle)), handle, "read")


# -- the life of instances --------------------------------------------------------------------------------------------------


@action(14)
def open_attempt(client: Client, draw: random.Random) -> Act:
    model, scope = client.world.model, draw.choice(SCOPES)
    known = model.instances.get(scope)
    attempt = max(1, (known.attempt if known else 0) + draw.choice([1, 1, 1, 0, 2, -1]))
    incarnation = draw.choice([None] * 10 + ["x", "y"])

    def opened() -> Any:
        instance = model.open(scope, attempt, incarnation)
        return instance, instance.fence

    def remember(context: Any, held: Any) -> None:
        client.attempts += [
            (Handle(scope, scope, *held), context["task_store"]),
            (Handle(ASSET.name, scope, *held), context["asset_store"][ASSET]),
        ]

    return Act(
        f"open {scope} attempt {attempt} incarnation {incarnation}",
        lambda: client.store.instances.aopen(scope, attempt, incarnation=incarnation, outlets=[ASSET]),
        opened,
        after=remember,
    )


@action(6)
def finish(client: Client, draw: random.Random) -> Act:
    model, scope = client.world.model, draw.choice(SCOPES)
    known = model.instances.get(scope)
    attempt = max(1, (known.attempt if known else 1) + draw.choice([0, 0, 0, 1]))
    state: Any = draw.choice(["success", "failed", "up_for_retry", "deferred"])
    return Act(
        f"finish {scope} attempt {attempt} {state}",
        lambda: client.store.instances.afinish(scope, attempt, state),
        lambda: model.finish(scope, attempt, state),
    )


@action(5)
def clear_instance(client: Client, draw: random.Random) -> Act:
    model, scope, keep = client.world.model, draw.choice(SCOPES), draw.random() < 0.4
    return Act(
        f"clear instance {scope} keep={keep}",
        lambda: client.store.instances.aclear(scope, keep=keep),
        lambda: model.clear_instance(scope, keep=keep),
    )


@action(3)
def clear_run(client: Client, draw: random.Random) -> Act:
    model, (dag, run), keep = client.world.model, run_of(draw.choice(SCOPES)), draw.random() < 0.4

    def cleared() -> int:
        if (dag, run) not in model.incarnations:
            raise RunNotFoundError("unknown")
        inside = [scope for scope in model.instances if run_of(scope) == (dag, run)]
        for scope in inside:
            model.clear_instance(scope, keep=keep)
        return len(inside)

    return Act(
        f"clear run {dag}/{run} keep={keep}", lambda: client.store.instances.aclear_run(dag, run, keep=keep), cleared
    )


@action(5)
def restore(client: Client, draw: random.Random) -> Act:
    model, scope, force = client.world.model, draw.choice(SCOPES), draw.random() < 0.6
    return Act(
        f"restore {scope} force={force}",
        lambda: client.store.instances.arestore(scope, force=force),
        lambda: model.restore(scope, force=force),
    )


@action(2)
def delete_run(client: Client, draw: random.Random) -> Act:
    model, (dag, run) = client.world.model, run_of(draw.choice(SCOPES))
    return Act(
        f"delete run {dag}/{run}",
        lambda: client.store.instances.adelete_run(dag, run),
        lambda: model.delete_run(dag, run),
    )


@action(2)
def clean(client: Client, draw: random.Random) -> Act:
    batch = draw.choice([None, 1, 2])
    return Act(f"clean by {batch}", lambda: client.store.aclean(batch_size=batch), lambda: None, kind="quiet")
