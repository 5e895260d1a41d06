"""The life of a task instance: open, finish, clear, restore, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from milepost import calls
from milepost.calls import new_version
from milepost.entry import Writer
from milepost.errors import ArchiveNotFoundError, InstanceStateError, InvalidValueError, RunNotFoundError, StaleAttemptError
from milepost.metastore.operations.assets import alias_hash, find_all
from milepost.metastore.operations.base import (
    Environment,
    Operation,
    new_instance,
    readable_scope,
    scope_text,
    unknown_instance,
)
from milepost.metastore.operations.staging import commit
from milepost.scopes import TaskScope, key_text, restore_command, run_hash

__all__ = ["clear", "delete_run", "expand", "finish", "open_attempt", "restore"]

_OPEN = ("running", "up_for_retry", "deferred")
_MAX_ATTEMPT = 2**31 - 1
_BY_KEY = ("clear_keys", "delete", "restore_keys")
"""Causes of archives that hold single keys rather than the whole state of an instance."""


class _Instance(NamedTuple):
    id: int
    run: int
    fence: int
    attempt: int
    cleared_attempt: int
    generation: int
    state: str
    item: str | None
    clear_on_success: int | None
    on_clear: str | None
    incarnation: str | None


def _load(scope: TaskScope) -> Operation[_Instance | None]:
    rows = yield "instance_load", (scope.hash,)
    return _Instance(*rows[0]) if rows else None


def set_aside(owner: int, scope: TaskScope, cause: str, writer: str, *, keep: bool = False) -> Operation[int]:
    """Write an event to the change log; archive and drop the owner's keys unless ``keep``. How many were live."""
    event = yield "change_event", ("task", cause, owner, scope_text(scope), writer)
    if keep:
        return 0
    count = yield "change_all_keys", (event, "task", cause, owner, writer)
    yield "entry_clear", (owner,)
    yield "intent_drop_all", (owner,)
    return int(count)


def open_attempt(call: calls.Open, environment: Environment) -> Operation[calls.Opened]:
    """See `milepost.calls.Open`."""
    run, discarded = yield from _settle_run(call)
    instance = yield from _load(call.scope)
    if instance is None:
        yield from new_instance(call.scope, run)
        instance = yield from _load(call.scope)
        assert instance is not None
    attempt = instance.attempt + 1 if call.attempt is None else call.attempt
    if attempt < instance.attempt or attempt <= instance.cleared_attempt:
        raise _stale(call.scope, attempt, instance)
    if attempt > _MAX_ATTEMPT:
        raise InvalidValueError(f"{call.scope} has no next attempt: {instance.attempt} is the last number there is")
    fresh = attempt > instance.attempt
    warning = None
    if fresh and call.max_tries is not None and (yield from _cleared_by_host(instance, call.max_tries)):
        keep = (call.options.on_clear or instance.on_clear or environment.policy.on_clear) == "keep"
        writer = Writer.of_task(call.scope, attempt).encode(call.scope)
        count = yield from _start_over(instance.id, call.scope, "clear", writer, keep=keep)
        yield from _reopen(run)
        if not keep:
            discarded.append(call.scope)
            if count:
                back = f"when this attempt has ended, `{restore_command(call.scope)}` brings back what was there"
                warning = f"{call.scope} was cleared: {_keys(count)} set aside; {back}"
        instance = yield from _load(call.scope)
        assert instance is not None
    fence, item = instance.fence, instance.item
    if fresh:
        fence += 1
        if _item_changed(instance, call.item):
            writer = Writer.of_task(call.scope, attempt).encode(call.scope)
            count = yield from set_aside(instance.id, call.scope, "item_changed", writer)
            discarded.append(call.scope)
            if count:
                warning = f"{call.scope} now stands for another item: {_earlier(count)}"
        item = call.item
        if instance.attempt:
            yield "staged_drop", (instance.id,)
    elif item is None:
        item = call.item
    options = call.options
    yield (
        "instance_open",
        (
            instance.id,
            fence,
            attempt,
            int(fresh),
            item,
            call.item_name,
            None if options.clear_on_success is None else int(options.clear_on_success),
            options.on_clear,
        ),
    )
    found = yield from find_all([*call.inlets, *call.outlets])
    inlets, outlets = ([found[one] for one in scopes if one in found] for scopes in (call.inlets, call.outlets))
    for alias in call.inlet_aliases:
        inlets += yield "assets_of_alias", (alias_hash(alias),)
    return calls.Opened(instance.id, fence, attempt, inlets, outlets, warning, discarded)


def _earlier(count: int) -> str:
    """Say how many keys of an earlier item were set aside."""
    return f"{_keys(count, ' of the earlier one')} set aside"


def _keys(count: int, whose: str = "") -> str:
    return f"{count} key{whose} was" if count == 1 else f"{count} keys{whose} were"


def _cleared_by_host(instance: _Instance, max_tries: int) -> Operation[bool]:
    """Record what the host grants by now; tell whether a person cleared the instance there, and nobody here has."""
    rows = yield "grant_get", (instance.id,)
    if rows and rows[0][0] == max_tries:
        return False
    yield "grant_put", (instance.id, max_tries)
    # Fewer, where the task's own number of retries was lowered between.
    return bool(rows) and instance.attempt > instance.cleared_attempt


def _item_changed(instance: _Instance, item: str | None) -> bool:
    """Tell whether the position holds another item since a clear; retries of one expansion are never compared."""
    cleared = instance.attempt > 0 and instance.cleared_attempt >= instance.attempt
    return cleared and _differ(instance.item, item)


def _differ(old: str | None, new: str | None) -> bool:
    return None not in (old, new) and old != new


def expand(call: calls.Expand, _: Environment) -> Operation[calls.Expanded]:
    """See `milepost.calls.Expand`."""
    answer = calls.Expanded()
    rows = yield "run_load", (run_hash(call.dag_id, call.run_id),)
    if not rows:
        raise RunNotFoundError(f"no run {call.dag_id}/{call.run_id} is recorded")
    run = rows[0][0]
    rows = yield "expansion_get", (run, call.task_id)
    if rows and rows[0][0] == call.expansion:
        return answer
    opened = yield "instances_of_expansion", (run, call.task_id)
    if call.items is None:
        answer.compare = [index for _, index, item, _ in opened if index < call.length and item is not None]
        if answer.compare:
            return answer
    items = call.items or {}
    for number, index, item, state in opened:
        if index < call.length and not _differ(item, items.get(index)):
            continue
        scope = TaskScope(call.dag_id, call.run_id, call.task_id, index)
        count = yield from _start_over(number, scope, "item_changed", call.writer)
        answer.discarded.append(scope)
        if count or state != "cleared":
            now = "stands for another item" if index < call.length else "has no item any more"
            answer.warnings.append(f"{scope} now {now}: it starts over, {_earlier(count)}")
    yield "expansion_put", (run, call.task_id, call.expansion)
    if answer.discarded:
        yield from _reopen(run)
    return answer


def _start_over(owner: int, scope: TaskScope, cause: str, writer: str, *, keep: bool = False) -> Operation[int]:
    """Make an instance's attempts stale, archive its keys unless ``keep``, drop its result. How many keys went."""
    count = yield from set_aside(owner, scope, cause, writer, keep=keep)
    yield "result_delete", (owner,)
    yield "staged_drop", (owner,)
    yield "instance_clear", (owner,)
    return count


def _reopen(run: int) -> Operation[None]:
    """Make a run of which instances start over unfinished."""
    yield "outcome_drop_unstarted", (run,)
    yield "run_reopen", (run,)
    yield "event_run_settle", (run, 1)


def _stale(scope: TaskScope, attempt: int, instance: _Instance) -> StaleAttemptError:
    if attempt <= instance.cleared_attempt:
        reason = "the instance was cleared"
    elif instance.attempt:
        reason = f"the recorded one is {instance.attempt}"
    else:
        reason = "none was opened"
    return StaleAttemptError(f"attempt {attempt} of {scope} is no longer current: {reason}")


def _settle_run(call: calls.Open) -> Operation[tuple[int, list[TaskScope]]]:
    """Record the run if it is new, and let a new incarnation take over.

    Returns:
        The number of the run, and the instances whose keys went.
    """
    discarded: list[TaskScope] = []
    scope, incarnation = call.scope, call.incarnation
    hash_ = run_hash(scope.dag_id, scope.run_id)
    if incarnation is not None and (yield "incarnation_is_replaced", (hash_, incarnation)):
        raise StaleAttemptError(f"run {scope.dag_id}/{scope.run_id} was created anew; {incarnation!r} is an earlier one")
    rows = yield "run_load", (hash_,)
    if not rows:
        run = yield "run_insert", (hash_, scope.dag_id, scope.run_id, incarnation, None, None)
        if call.run_clears is not None:
            yield "run_clears_put", (run, call.run_clears)
        return run, discarded
    run, recorded = rows[0][:2]
    if incarnation in (None, recorded):
        if call.run_clears:  # a host may clear what goes on running
            yield from _more_clears(run, call.run_clears)
        return run, discarded
    if recorded is not None:
        yield "incarnation_replace", (hash_, recorded)
    if call.run_clears is not None:
        if (yield from _more_clears(run, call.run_clears)) and recorded is not None:
            # The same run, cleared since; or its host names runs in another way by now, as Airflow 3 does after Airflow 2.
            yield "run_set_incarnation", (run, incarnation)
            return run, discarded
        yield "run_clears_put", (run, call.run_clears)
    ((opened,),) = yield "run_was_opened", (run,)
    if recorded is not None or opened:
        writer = Writer.of_task(scope, call.attempt or 1)  # attempts count anew
        # Attempts of the earlier run may still be alive: none of its instances keeps its state or its fence.
        for number, task_id, map_index, _ in (yield "instances_of_run", (run,)):
            sibling = readable_scope(scope.dag_id, scope.run_id, task_id, map_index)
            yield from set_aside(number, sibling, "new_incarnation", writer.encode(sibling))
            yield "result_delete", (number,)
            yield "staged_drop", (number,)
            yield "instance_reset", (number,)
            discarded.append(sibling)
        yield "outcome_drop", (run,)
    yield "run_set_incarnation", (run, incarnation)
    return run, discarded


def _more_clears(run: int, clears: int) -> Operation[bool]:
    """Tell whether the host has cleared a run since it was last heard of, or never told of clears; remember that."""
    known = yield "run_clears_get", (run,)
    if known and clears <= known[0][0]:
        return False
    yield "run_clears_put", (run, clears)
    return True


def current(scope: TaskScope, attempt: int, incarnation: str | None = None) -> Operation[_Instance]:
    """Load an instance and check that the attempt is the current one.

    Raises:
        InstanceNotFoundError: Not recorded.
        StaleAttemptError: Another attempt or incarnation is current.
    """
    instance = yield from _load(scope)
    if instance is None:
        raise unknown_instance(scope)
    if incarnation not in (None, instance.incarnation):
        raise _made_anew(scope.dag_id, scope.run_id, incarnation)
    if attempt != instance.attempt or attempt <= instance.cleared_attempt:
        raise _stale(scope, attempt, instance)
    return instance


def _made_anew(dag_id: str, run_id: str, incarnation: str | None) -> StaleAttemptError:
    return StaleAttemptError(f"run {dag_id}/{run_id} has another incarnation than {incarnation!r}")


def finish(call: calls.Finish, environment: Environment) -> Operation[bool]:
    """See `milepost.calls.Finish`."""
    instance = yield from current(call.scope, call.attempt, call.incarnation)
    if instance.state == call.state:
        return False
    if instance.state not in _OPEN:
        raise InstanceStateError(f"attempt {call.attempt} of {call.scope} has already ended: {instance.state}")
    if call.state == "success":
        yield from commit(instance.id, instance.fence, environment)
    elif call.state != "deferred":
        yield "staged_drop", (instance.id,)
    yield "instance_finish", (instance.id, call.state)
    if call.error is not None and call.state in ("failed", "up_for_retry"):
        scope = call.scope
        yield "outcome_put", (instance.run, scope.task_id, scope.map_index, call.attempt, call.state, call.error)
    if call.state == "success":
        drop = instance.clear_on_success
        if environment.policy.clear_on_success if drop is None else drop:
            yield "entry_clear", (instance.id,)
            return True
    return False


def clear(call: calls.ClearInstances, environment: Environment) -> Operation[calls.Cleared]:
    """See `milepost.calls.ClearInstances`."""
    if call.scope is not None:
        instance = yield from _load(call.scope)
        if instance is None:
            raise unknown_instance(call.scope)
        if call.attempt is not None:
            yield from current(call.scope, call.attempt)
        run, targets = (
            instance.run,
            [(instance.id, call.scope.task_id, call.scope.map_index, instance.on_clear)],
        )
    else:
        rows = yield "run_load", (run_hash(call.dag_id, call.run_id),)
        if not rows:
            raise RunNotFoundError(f"no run {call.dag_id}/{call.run_id} is recorded")
        run = rows[0][0]
        targets = yield "instances_of_run", (run,)
    discarded = []
    for number, task_id, map_index, on_clear in targets:
        keep = (on_clear or environment.policy.on_clear) == "keep" if call.keep is None else call.keep
        scope = readable_scope(call.dag_id, call.run_id, task_id, map_index)
        yield from _start_over(number, scope, "clear", call.writer, keep=keep)
        if not keep:
            discarded.append(scope)
    yield from _reopen(run)
    return calls.Cleared(len(targets), discarded)


def restore(call: calls.Restore, _: Environment) -> Operation[int]:
    """See `milepost.calls.Restore`."""
    instance = yield from _load(call.scope)
    if instance is None:
        raise unknown_instance(call.scope)
    if instance.state == "running":
        yield from _refuse_running(call, instance.attempt)
    cause, rows = yield from _chosen_archive(call, instance.id)
    keys = [row[4] for row in rows]
    live = {row[0] for row in (yield "entry_keys", (instance.id, "", None))}
    in_the_way = live.intersection(keys) if cause in _BY_KEY else live
    if in_the_way and not call.force:
        some = ", ".join(sorted(key_text(key) for key in in_the_way)[:5])
        raise InstanceStateError(f"{call.scope} has live keys ({some}); force (--force) sets them aside first")
    again = "restore_keys" if cause in _BY_KEY else "restore"  # so that a restore can be undone by another
    event = yield "change_event", ("task", again, instance.id, scope_text(call.scope), call.writer)
    if cause in _BY_KEY:
        for key in sorted(in_the_way, key=key_text):
            yield "change_key", (event, "task", again, instance.id, key, call.writer, None)
            yield "entry_delete", (instance.id, key)
    else:
        yield "change_all_keys", (event, "task", again, instance.id, call.writer)
        yield "entry_clear", (instance.id,)
        yield "intent_reopen", (instance.id,)
    restored = 0
    for row in rows:
        yield "entry_delete", (instance.id, row[4])  # an expired row may be in the way
        restored += yield "entry_restore", (instance.id, row[5], new_version(), call.writer)
    return restored


def _refuse_running(call: calls.Restore, attempt: int) -> Operation[None]:
    """Refuse to restore under an attempt that may be at work.

    One that a runner started ends with its runner; it is recorded as running where both were killed.
    """
    scope = call.scope
    ((_, _, state, _, held, *_),) = yield "run_load", (run_hash(scope.dag_id, scope.run_id),)
    if state != "running" or held:
        raise InstanceStateError(
            f"attempt {attempt} of {scope} is running; restore when it has ended, or clear the instance first "
            "(`milepost runs clear`): that ends the attempt; one that has ended in Airflow, `milepost airflow sync` ends"
        )
    if not call.force:
        raise InstanceStateError(
            f"attempt {attempt} of {scope} is recorded as running, and no runner holds the run: go on with the run "
            "first, or restore with force (--force)"
        )


def _chosen_archive(call: calls.Restore, owner: int) -> Operation[tuple[str, Sequence[Any]]]:
    rows = yield "change_archives", (owner,)
    number = call.archive if call.archive is not None else (rows[0][0] if rows else None)
    rows = [row for row in rows if row[0] == number]
    if not rows:
        which = "no archive" if call.archive is None else f"no archive {call.archive}"
        raise ArchiveNotFoundError(f"{which} of {call.scope} is there; archives are kept for archive_days")
    return rows[0][1], rows


def delete_run(call: calls.DeleteRun, _: Environment) -> Operation[list[TaskScope]]:
    """See `milepost.calls.DeleteRun`."""
    hash_ = run_hash(call.dag_id, call.run_id)
    rows = yield "run_load", (hash_,)
    if not rows:
        raise RunNotFoundError(f"no run {call.dag_id}/{call.run_id} is recorded")
    run, incarnation = rows[0][:2]
    if call.incarnation not in (None, incarnation):
        raise _made_anew(call.dag_id, call.run_id, call.incarnation)
    if incarnation is not None:  # its attempts may still be alive and must not pass for those of a run made anew
        yield "incarnation_replace", (hash_, incarnation)
    targets = yield "instances_of_run", (run,)
    for number, *_ in targets:
        for statement in (
            "entry_clear",
            "intent_delete",
            "result_delete",
            "staged_drop",
            "grant_forget",
            "change_forget",
            "instance_delete",
            "owner_delete",
        ):
            yield statement, (number,)
    yield "expansion_forget", (run,)
    yield "run_clears_forget", (run,)
    yield "outcome_drop", (run,)
    yield "event_run_delete", (run,)
    yield "run_delete", (run,)
    yield "change_event", ("task", "delete_run", None, f"{call.dag_id}/{call.run_id}", call.writer)
    return [readable_scope(call.dag_id, call.run_id, task_id, map_index) for _, task_id, map_index, _ in targets]
