"""What simulated clients do.

How to add a call: write a function that draws its parameters from the random numbers it is given and returns an `Act` with
the asynchronous call and what it does to the model (`tests.property.model`, which gets a method for it if need be), and
decorate it with `action(weight)`.

* The model returns the answer or raises the error of the contract; where it raises, it must change nothing.
* A call that must not be sent again (``repeatable = False``) has ``once=True``.
* A call that only reads is ``kind="read"``, and its model returns what is there now.
* A call whose effect readers cannot see, or that consists of several transactions, is ``kind="quiet"``: then only the rows
  are checked, which must stay those of the model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container
from datetime import timedelta
from typing import Any, Protocol

from milepost import NEVER_EXPIRE, RunNotFoundError, calls
from milepost.calls import PLAIN, Item
from tests.property.model import run_of
from tests.simulation.parts import ASSET, KEYS, SCOPES, Act, Held, Model, Step

__all__ = ["ACTIONS", "script"]

HOUR = 3_600_000_000


class Client(Protocol):
    """What an action knows of the client that takes it."""

    store: Any
    people: list[tuple[Held, Any]]
    attempts: list[tuple[Held, Any]]
    world: Any


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


def script(rng: random.Random, length: int, only: Container[str] = ACTIONS) -> list[Step]:
    """Draw what one client does."""
    weights = {name: weight for name, weight in _WEIGHTS.items() if name in only}
    names = rng.choices(list(weights), list(weights.values()), k=length)
    return [Step(name, rng.getrandbits(32)) for name in names]


def _someone(client: Client, draw: random.Random) -> tuple[Held, Any]:
    """Choose an accessor: mostly of an attempt, the latest ones rather than old ones."""
    if client.attempts and draw.random() < 0.75:
        return draw.choice(client.attempts[-4:])
    return draw.choice(client.people)


def _name(handle: Held) -> str:
    return f"{handle.owner} by {handle.name}"


def _retention(handle: Held, draw: random.Random) -> tuple[dict[str, Any], int | str | None]:
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
    key, value = draw.choice(KEYS), draw.randrange(1000)
    options, kept = _retention(handle, draw)
    return Act(
        f"set {key}={value} of {_name(handle)}",
        lambda: accessor.aset(key, value, **options),
        lambda model: model.set_many(handle, {key: value}, kept),
        handle,
    )


@action(6)
def put_many(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    values = {key: draw.randrange(1000) for key in draw.sample(KEYS, draw.randint(2, 3))}
    options, kept = _retention(handle, draw)
    return Act(
        f"set_many {values} of {_name(handle)}",
        lambda: accessor.aset_many(values, **options),
        lambda model: model.set_many(handle, values, kept),
        handle,
    )


@action(5)
def put_default(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, value = draw.choice(KEYS), draw.randrange(1000)
    options, kept = _retention(handle, draw)
    return Act(
        f"set_default {key}={value} of {_name(handle)}",
        lambda: accessor.aset_default(key, value, **options),
        lambda model: model.set_default(handle, key, value, kept),
        handle,
    )


@action(10)
def compare_and_set(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key, value = draw.choice(KEYS), draw.randrange(1000)
    options, kept = _retention(handle, draw)
    known = client.world.version_of(handle, key)  # true now; perhaps no longer when the call gets there
    version = draw.choice([known, known, known, None, "bygone"])

    async def call() -> None:  # the new version is compared with the row after the commit
        await accessor.acompare_and_set(key, value, version=version, **options)

    return Act(
        f"compare_and_set {key}={value} over {version} of {_name(handle)}",
        call,
        lambda model: model.compare_and_set(handle, key, value, version, kept),
        handle,
        once=True,
    )


@action(12)
def increment(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key = draw.choice(["n", "n", "a"])
    return Act(
        f"increment {key} of {_name(handle)}",
        lambda: accessor.aincrement(key),
        lambda model: model.increment(handle, key, 1),
        handle,
        once=True,
    )


@action(6)
def update(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key = draw.choice(["n", "b"])
    return Act(
        f"update {key} of {_name(handle)}",
        lambda: accessor.aupdate(key, lambda old: old + 1000, 0),
        lambda model: model.update(handle, key, lambda old: old + 1000, 0),
        handle,
        once=True,
        tries=True,
    )


@action(3)
def touch(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key = draw.choice(KEYS)
    if isinstance(handle.owner, str):
        return put(client, draw)
    options, kept = _retention(handle, draw)
    return Act(
        f"touch {key} of {_name(handle)}",
        lambda: accessor.atouch(key, **options),
        lambda model: model.touch(handle, key, kept),
        handle,
    )


@action(5)
def delete(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key = draw.choice(KEYS)
    return Act(
        f"delete {key} of {_name(handle)}", lambda: accessor.adelete(key), lambda model: model.delete(handle, key), handle
    )


@action(3)
def clear_keys(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    options = {} if isinstance(handle.owner, str) else {"all_map_indices": draw.random() < 0.5}
    return Act(
        f"clear {options} of {_name(handle)}",
        lambda: accessor.aclear(**options),
        lambda model: model.clear(handle, **options),
        handle,
    )


@action(8)
def edit(client: Client, draw: random.Random) -> Act:
    handle, accessor = draw.choice(client.people)
    key, value = draw.choice(KEYS), draw.randrange(1000)
    known = client.world.version_of(handle, key)
    expected = draw.choice([None, None, known, known, "bygone"])
    present, keep = draw.choice([None, None, True, False]), draw.random() < 0.5
    item = Item(key, str(value), PLAIN, f"{draw.getrandbits(96):024x}")
    call = calls.Edit(accessor._handle, item, keep_expiry=keep, expected=expected, present=present)
    return Act(
        f"edit {key}={value} over {expected} present={present} keep={keep} of {_name(handle)}",
        lambda: client.store.metastore.acall(call),
        lambda model: model.edit(handle, key, value, expected, present=present, keep=keep),
        handle,
        once=True,
    )


@action(4)
def delete_if(client: Client, draw: random.Random) -> Act:
    handle, accessor = draw.choice(client.people)
    key = draw.choice(KEYS)
    expected = draw.choice([client.world.version_of(handle, key)] * 3 + ["bygone"]) or "bygone"
    call = calls.DeleteIf(accessor._handle, key, expected)
    return Act(
        f"delete {key} over {expected} of {_name(handle)}",
        lambda: client.store.metastore.acall(call),
        lambda model: model.delete_if(handle, key, expected),
        handle,
        once=True,
    )


def _asset_of(client: Client, draw: random.Random, *, staging: bool = False) -> tuple[Held, Any] | None:
    """Choose an accessor of the asset, for staging by an attempt."""
    some = [one for one in client.attempts[-6:] if isinstance(one[0].owner, str)]
    return draw.choice(some) if some else None if staging else client.people[-1]


@action(5)
def advance(client: Client, draw: random.Random) -> Act:
    handle, accessor = _asset_of(client, draw) or client.people[-1]
    key, value = draw.choice(KEYS), draw.randrange(1000)

    def peek(model: Model) -> Any:
        row = model.live(handle).get(key)
        return row.value if row is not None and value <= row.value else "ABSENT"

    return Act(
        f"advance {key} to {value} of {_name(handle)}",
        lambda: accessor.aadvance(key, value),
        lambda model: model.advance(handle, key, value),
        handle,
        peek=peek,
    )


@action(7)
def stage(client: Client, draw: random.Random) -> Act:
    chosen = _asset_of(client, draw, staging=True)
    if chosen is None:
        return open_attempt(client, draw)
    handle, accessor = chosen
    key, value, only = draw.choice(KEYS), draw.randrange(1000), draw.random() < 0.5
    return Act(
        f"stage {key}={value} advance={only} of {_name(handle)}",
        lambda: accessor.astage(key, value, advance=only),
        lambda model: model.stage(handle, key, value, advance=only),
        handle,
    )


def _task_of(client: Client, draw: random.Random) -> tuple[Held, Any]:
    """Choose an accessor of a task instance."""
    some = [one for one in client.attempts[-6:] if not isinstance(one[0].owner, str)]
    return draw.choice(some) if some and draw.random() < 0.8 else draw.choice(client.people[:-1])


@action(5)
def intend(client: Client, draw: random.Random) -> Act:
    handle, accessor = _task_of(client, draw)
    key, version = draw.choice(KEYS), f"{draw.getrandbits(96):024x}"
    known = client.world.model.intent(handle, key)[1]
    call = calls.Intend(accessor._handle, key, version, draw.choice([known, known, known, None, "bygone"]), new=True)

    async def submission() -> int:
        return (await client.store.metastore.acall(call)).submission  # type: ignore[no-any-return]

    return Act(
        f"intend {key} over {call.expected} of {_name(handle)}",
        submission,
        lambda model: model.intend(handle, key, version, call.expected),
        handle,
    )


@action(5)
def keep_job(client: Client, draw: random.Random) -> Act:
    handle, accessor = _task_of(client, draw)
    key, value = draw.choice(KEYS), draw.randrange(1000)
    known = client.world.model.intent(handle, key)[1]
    item = Item(key, str(value), PLAIN, f"{draw.getrandbits(96):024x}")
    call = calls.KeepJob(accessor._handle, item, "job", draw.choice([known or "none", known or "none", "bygone"]))

    async def submission() -> int:
        return (await client.store.metastore.acall(call)).submission  # type: ignore[no-any-return]

    return Act(
        f"keep job {key}={value} over {call.expected} of {_name(handle)}",
        submission,
        lambda model: model.keep_job(handle, key, value, item.version, call.expected),
        handle,
    )


# -- reads ----------------------------------------------------------------------------------------------------------------


@action(8)
def get(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    key = draw.choice(KEYS)

    def now(model: Model) -> Any:
        row = model.live(handle).get(key)
        return "ABSENT" if row is None else row.value

    return Act(f"get {key} of {_name(handle)}", lambda: accessor.aget(key, "ABSENT"), now, handle, "read")


@action(5)
def items(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    return Act(
        f"items of {_name(handle)}",
        accessor.aitems,
        lambda model: [(key, row.value) for key, row in sorted(model.live(handle).items())],
        handle,
        "read",
    )


@action(2)
def count(client: Client, draw: random.Random) -> Act:
    handle, accessor = _someone(client, draw)
    return Act(f"len of {_name(handle)}", accessor.alen, lambda model: len(model.live(handle)), handle, "read")


# -- the life of instances --------------------------------------------------------------------------------------------------


@action(14)
def open_attempt(client: Client, draw: random.Random) -> Act:
    scope = draw.choice(SCOPES)
    token = draw.getrandbits(64)
    attempt = max(1, client.world.attempt_of(scope) + draw.choice([1, 1, 1, 0, 2, -1]))
    incarnation = draw.choice([None] * 10 + ["x", "y"])

    def opened(model: Model) -> None:
        model.hold(token, model.open(scope, attempt, incarnation))

    async def call() -> None:
        context = await client.store.instances.aopen(scope, attempt, incarnation=incarnation, outlets=[ASSET])
        client.attempts += [
            (Held(scope, token, f"attempt {attempt}"), context["task_store"]),
            (Held(ASSET.name, token, f"attempt {attempt} of {scope}"), context["asset_store"][ASSET]),
        ]

    return Act(f"open {scope} attempt {attempt} incarnation {incarnation}", call, opened)


@action(6)
def finish(client: Client, draw: random.Random) -> Act:
    scope = draw.choice(SCOPES)
    attempt = max(1, client.world.attempt_of(scope) + draw.choice([0, 0, 0, 1]))
    state: Any = draw.choice(["success", "failed", "up_for_retry", "deferred"])
    return Act(
        f"finish {scope} attempt {attempt} {state}",
        lambda: client.store.instances.afinish(scope, attempt, state),
        lambda model: model.finish(scope, attempt, state),
    )


@action(3)
def put_result(client: Client, draw: random.Random) -> Act:
    scope, text = draw.choice(SCOPES), str(draw.randrange(1000))
    attempt = max(1, client.world.attempt_of(scope) + draw.choice([0, 0, 0, -1]))
    return Act(
        f"put result {text} of {scope} attempt {attempt}",
        lambda: client.store.runs.aput_result(scope, attempt, text),
        lambda model: model.put_result(scope, attempt, text),
    )


@action(5)
def clear_instance(client: Client, draw: random.Random) -> Act:
    scope, keep = draw.choice(SCOPES), draw.random() < 0.4
    attempt = draw.choice([None, None, max(1, client.world.attempt_of(scope))])
    return Act(
        f"clear instance {scope} keep={keep} attempt={attempt}",
        lambda: client.store.instances.aclear(scope, keep=keep, attempt=attempt),
        lambda model: model.clear_instance(scope, keep=keep, attempt=attempt),
        once=True,
    )


@action(3)
def clear_run(client: Client, draw: random.Random) -> Act:
    (dag, run), keep = run_of(draw.choice(SCOPES)), draw.random() < 0.4

    def cleared(model: Model) -> int:
        if (dag, run) not in model.incarnations:
            raise RunNotFoundError("unknown")
        inside = [scope for scope in model.instances if run_of(scope) == (dag, run)]
        for scope in inside:
            model.clear_instance(scope, keep=keep)
        return len(inside)

    return Act(
        f"clear run {dag}/{run} keep={keep}",
        lambda: client.store.instances.aclear_run(dag, run, keep=keep),
        cleared,
        once=True,
    )


@action(5)
def restore(client: Client, draw: random.Random) -> Act:
    scope, force = draw.choice(SCOPES), draw.random() < 0.6
    return Act(
        f"restore {scope} force={force}",
        lambda: client.store.instances.arestore(scope, force=force),
        lambda model: model.restore(scope, force=force),
        once=True,
    )


@action(2)
def delete_run(client: Client, draw: random.Random) -> Act:
    dag, run = run_of(draw.choice(SCOPES))
    return Act(
        f"delete run {dag}/{run}",
        lambda: client.store.instances.adelete_run(dag, run),
        lambda model: model.delete_run(dag, run),
        once=True,
    )


@action(2)
def clean(client: Client, draw: random.Random) -> Act:
    batch = draw.choice([None, 1, 2])
    return Act(f"clean by {batch}", lambda: client.store.aclean(batch_size=batch), lambda _: None, kind="quiet")
