"""Values that wait for the success of their attempt (SPEC 5, ``stage``; SPEC 4.2, ``finish``)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import (
    Asset,
    AssetAlias,
    AssetNotActiveError,
    AssetNotFoundError,
    InstanceStateError,
    ManualClock,
    StaleAttemptError,
    TaskScope,
    ValueTooLargeError,
    Writer,
)
from tests.contract.conftest import SCOPE, Make, sql

A, B = Asset("a", uri="s3://a"), Asset("b", uri="s3://b")


def opened(store: Any, attempt: int = 1, scope: TaskScope = SCOPE, **options: Any) -> Any:
    """Open an attempt with an asset and return the accessor of the asset."""
    return store.instances.open(scope, attempt, outlets=[A, B], **options)["asset_store"][A]


def staged(store: Any) -> int:
    """Return the number of staged values."""
    return int(sql(store, "SELECT count(*) FROM staged")[0][0])


def test_staged_values_are_seen_with_success(store: Any, clock: ManualClock) -> None:
    """What is staged is seen by nobody before the attempt succeeded, and by everybody after, with writer and history."""
    asset = opened(store)
    asset.set("k", "old")
    asset.stage("k", "new")
    asset.stage("j", [2**70, None])
    asset.stage("j", [1.0])
    for accessor in (asset, store.asset_store(A)):
        assert accessor.items() == [("k", "old")]
    clock.advance(minutes=1)
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).items() == [("j", [1.0]), ("k", "new")]
    entry = store.asset_store(A).entry("k")
    assert entry.writer == Writer.of_task(SCOPE, 1)
    assert (entry.updated_at - entry.created_at).total_seconds() == 60
    (past,) = store.asset_store(A).history("k")
    assert (past.value, past.cause, past.replaced_by) == ("old", "stage", Writer.of_task(SCOPE, 1))
    assert staged(store) == 0
    store.asset_store(A).set("k", "later")
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).get("k") == "later"


@pytest.mark.parametrize("state", ["failed", "skipped", "up_for_retry"])
def test_staged_values_are_dropped_with_any_other_end(store: Any, state: str) -> None:
    """An attempt that ends otherwise drops what it staged, and its successor's success does not bring it back."""
    opened(store).stage("k", 1)
    store.instances.finish(SCOPE, 1, state)
    assert staged(store) == 0
    opened(store, 2)
    store.instances.finish(SCOPE, 2, "success")
    assert store.asset_store(A).keys() == []


def test_staged_values_survive_a_deferral(store: Any) -> None:
    """A deferral and the same attempt resumed keep what is staged."""
    asset = opened(store)
    asset.stage("k", 1)
    store.instances.finish(SCOPE, 1, "deferred")
    asset.stage("j", 2)
    resumed = opened(store)
    assert resumed.keys() == []
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).items() == [("j", 2), ("k", 1)]


@pytest.mark.parametrize("what", ["open", "clear", "clear_run", "keep", "incarnation", "delete_run"])
def test_whatever_makes_an_attempt_stale_drops_what_it_staged(store: Any, what: str) -> None:
    """A newer attempt, a clear, a new incarnation and a deleted run drop it; the stale attempt can stage no more."""
    asset = opened(store, incarnation="one")
    asset.stage("k", 1)
    act = {
        "open": lambda: opened(store, 2),
        "clear": lambda: store.instances.clear(SCOPE),
        "clear_run": lambda: store.instances.clear_run("dag", "run"),
        "keep": lambda: store.instances.clear(SCOPE, keep=True),
        "incarnation": lambda: opened(store, 1, incarnation="two"),
        "delete_run": lambda: store.instances.delete_run("dag", "run"),
    }[what]
    act()
    assert staged(store) == 0
    with pytest.raises(StaleAttemptError):
        asset.stage("k", 2)
    with pytest.raises((StaleAttemptError, KeyError)):
        store.instances.finish(SCOPE, 1, "success", incarnation="one")
    attempt = {"open": 2, "incarnation": 1}.get(what, 2)
    incarnation = "two" if what == "incarnation" else None if what != "delete_run" else "three"
    opened(store, attempt, incarnation=incarnation)
    store.instances.finish(SCOPE, attempt, "success")
    assert store.asset_store(A).keys() == []


def test_an_attempt_that_has_ended_stages_nothing(store: Any) -> None:
    """After its end an attempt cannot stage: nobody would ever see it."""
    asset = opened(store)
    store.instances.finish(SCOPE, 1, "success")
    with pytest.raises(InstanceStateError, match="ended"):
        asset.stage("k", 1)
    assert staged(store) == 0


def test_only_attempts_stage(store: Any) -> None:
    """Outside of an attempt stage is a ValueError that says what to use."""
    with pytest.raises(ValueError, match=r"attempt.*set\(\)"):
        store.asset_store(A).stage("k", 1)


def test_values_are_checked_when_they_are_staged(make: Make) -> None:
    """Bad values, keys and orders are refused at the call, and what was staged before stays."""
    store = make(max_value_bytes=10)
    asset = opened(store)
    asset.stage("k", 1)
    for bad in (None, {1}, float("nan"), (1,)):
        with pytest.raises((ValueError, TypeError)):
            asset.stage("k", bad)
    with pytest.raises(ValueTooLargeError):
        asset.stage("k", "x" * 9)
    with pytest.raises(ValueError, match="key"):
        asset.stage("", 1)
    with pytest.raises(ValueError, match="advance=True"):
        asset.stage("k", 1, order="datetime")
    with pytest.raises(TypeError):
        asset.stage("k", [1], advance=True)
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).items() == [("k", 1)]


def test_staged_to_advance_never_goes_back(store: Any) -> None:
    """Parallel runs that stage with advance=True leave the greatest value, in whichever order they succeed."""
    scopes = [TaskScope("dag", f"run {number}", "task") for number in range(4)]
    values = [3, 5.5, 4, 5]
    for scope, value in zip(scopes, values, strict=True):
        opened(store, scope=scope).stage("n", value, advance=True)
    seen = []
    for scope in scopes:
        store.instances.finish(scope, 1, "success")
        seen.append(store.asset_store(A).get("n"))
    assert seen == [3, 5.5, 5.5, 5.5]
    assert len(store.asset_store(A).history("n")) == 1


def test_staging_several_times(store: Any) -> None:
    """A value staged again replaces the first; to advance, only if it lies beyond it."""
    store.asset_store(A).set_many({"both": 100, "plain": 100, "mixed": 100, "t": "2026-01-01T00:00:00Z"})
    asset = opened(store)
    for value in (101, 105, 103):
        asset.stage("both", value, advance=True)
    for value in (7, 5):
        asset.stage("plain", value)
    asset.stage("mixed", 50)
    asset.stage("mixed", 60, advance=True)
    asset.stage("mixed", 55, advance=True)
    asset.stage("t", "2026-01-01T00:00:00+01:00", advance=True, order="datetime")
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).items() == [("both", 105), ("mixed", 60), ("plain", 5), ("t", "2026-01-01T00:00:00Z")]


def test_what_cannot_advance_is_refused_when_it_is_staged(store: Any) -> None:
    """A value that has no order with what is stored or staged is TypeError at the call."""
    store.asset_store(A).set("k", "text")
    asset = opened(store)
    with pytest.raises(TypeError, match="'k'"):
        asset.stage("k", 1, advance=True)
    asset.stage("j", "text")
    with pytest.raises(TypeError, match="'j'"):
        asset.stage("j", 1, advance=True)
    store.instances.finish(SCOPE, 1, "success")
    assert store.asset_store(A).items() == [("j", "text"), ("k", "text")]


def test_success_is_refused_where_staged_values_cannot_be_written(store: Any) -> None:
    """If an asset was deactivated meanwhile, success is refused as a whole: success seen means staged values seen."""
    assets = store.instances.open(SCOPE, 1, outlets=[A, B])
    assets["asset_store"][A].stage("k", 1)
    assets["asset_store"][B].stage("k", 1)
    assets["task_store"].set("t", 1)
    store.assets.deactivate(B)
    with pytest.raises(AssetNotActiveError, match="b"):
        assets["asset_store"][B].stage("k", 2)
    with pytest.raises(AssetNotActiveError, match="b"):
        store.instances.finish(SCOPE, 1, "success")
    assert store.instances.get(SCOPE).state == "running"
    assert store.asset_store(A).keys() == []
    store.assets.activate(B)
    store.instances.finish(SCOPE, 1, "success")
    assert (store.asset_store(A).get("k"), store.asset_store(B).get("k")) == (1, 1)


def test_success_is_refused_where_what_advances_has_no_order_by_now(store: Any) -> None:
    """If another kind of value was stored meanwhile, success is refused with TypeError; the attempt can end as failed."""
    opened(store).stage("k", 1, advance=True)
    store.asset_store(A).set("k", "text")
    with pytest.raises(TypeError, match="'k'"):
        store.instances.finish(SCOPE, 1, "success")
    assert store.instances.get(SCOPE).state == "running"
    store.instances.finish(SCOPE, 1, "failed")
    assert store.asset_store(A).items() == [("k", "text")]
    assert staged(store) == 0


def test_success_is_refused_where_the_asset_is_gone(make: Make, clock: ManualClock) -> None:
    """A value staged for an asset that was swept meanwhile is not lost unseen."""
    store = make(orphan_grace_hours=1)
    asset = opened(store)
    asset.stage("k", 1)
    store.assets.deactivate(A)
    clock.advance(hours=2)
    assert store.clean().swept == ("a (s3://a)",)
    with pytest.raises(AssetNotFoundError, match="gone"):
        asset.stage("k", 2)
    with pytest.raises(AssetNotFoundError, match="'k' is staged was removed"):
        store.instances.finish(SCOPE, 1, "success")
    store.instances.finish(SCOPE, 1, "failed")
    assert staged(store) == 0


def test_success_that_drops_task_keys_keeps_what_was_staged(make: Make) -> None:
    """clear_on_success is about task state; staged values are asset state."""
    store = make(clear_on_success=True)
    context = store.instances.open(SCOPE, 1, inlets=[AssetAlias("x")], outlets=[A])
    context["task_store"].set("t", 1)
    context["asset_store"].stage("k", 1)
    store.instances.finish(SCOPE, 1, "success")
    assert store.task_store(SCOPE).keys() == []
    assert store.asset_store(A).get("k") == 1


def test_instances_do_not_mix_what_they_stage(store: Any) -> None:
    """Mapped instances that stage the same key each commit their own, and one that fails drops only its own."""
    scopes = [TaskScope("dag", "run", "task", index) for index in range(3)]
    for scope in scopes:
        opened(store, scope=scope, item={"n": scope.map_index}).stage(f"k{scope.map_index}", scope.map_index)
    store.instances.finish(scopes[0], 1, "success")
    store.instances.finish(scopes[1], 1, "failed")
    assert store.asset_store(A).items() == [("k0", 0)]
    store.instances.finish(scopes[2], 1, "success")
    assert store.asset_store(A).items() == [("k0", 0), ("k2", 2)]
