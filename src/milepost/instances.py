"""The life of task instances: the one place where they start, finish, are cleared and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from milepost import calls
from milepost.abc import Metastore
from milepost.accessors import AssetStoreAccessor, AssetStoreAccessors, TaskStoreAccessor
from milepost.calls import Handle
from milepost.checks import (
    INSTANCE_STATES,
    check_attempt,
    check_flag,
    check_incarnation,
    check_number,
    check_run,
    check_scope,
    check_state,
)
from milepost.entry import FINISH_STATES, InstanceState, TaskOptions, Writer, one_line
from milepost.errors import InvalidValueError, UnsupportedTypeError
from milepost.program import Program, arun, run
from milepost.references import asset_scope, is_alias
from milepost.scopes import MAX_ID_CHARS, MAX_MAP_INDEX, AssetScope, Scope, TaskScope, check_text
from milepost.values import canonical

if TYPE_CHECKING:
    from builtins import list as List  # noqa: N812  (the class has a method named list)

    from milepost.run_records import Archive, InstanceRecord

__all__ = ["Instances"]

_NO_OPTIONS = TaskOptions()


class Instances:
    """Starts, finishes, clears and deletes task instances. In Python: ``store.instances``.

    Every method has a twin whose name starts with ``a``, which does not block the event loop.

    Args:
        metastore: Where the state is kept.
        writer: Who acts, where it is not an attempt.
        limit: The most bytes of a value that accessors take.

    .. versionadded:: 0.1
    """

    def __init__(self, metastore: Metastore, writer: Writer, limit: int) -> None:
        self._metastore = metastore
        self._writer = writer.encode()
        self._limit = limit
        self._unguarded: set[tuple[str, str]] = set()

    # -- open and finish ------------------------------------------------------------------------------------------

    def open(
        self,
        scope: TaskScope,
        attempt: int | None = None,
        *,
        incarnation: str | None = None,
        item: Mapping[str, Any] | None = None,
        item_name: str | None = None,
        inlets: Iterable[Any] = (),
        outlets: Iterable[Any] = (),
        options: TaskOptions = _NO_OPTIONS,
        max_tries: int | None = None,
        run_clears: int | None = None,
    ) -> dict[str, Any]:
        """Begin or resume an attempt. All earlier attempts are stale from now on.

        Args:
            scope: The task instance.
            attempt: 1 or more. The same number again resumes it (a deferral, a message delivered twice); a higher one
                supersedes. `None`: the next one. Two callers never get the same.
            incarnation: An opaque text that tells this run from an earlier one of the same id; `None`: the recorded one.
            item: The mapped arguments, `None` if not mapped. If a clear came between and they are no longer the same, the
                instance starts empty and its old keys are archived, with a warning.
            item_name: A name of the item, for people.
            inlets: Assets that the task reads; an alias brings those it stands for (`Assets.attach`). An `Asset` that
                is not known yet is recorded. A reference to one that nothing has declared is an `AssetNotFoundError`
                where it is used, not here.
            outlets: Assets that the task writes; as for inlets.
            options: Options of the task, recorded with the instance.
            max_tries: How many tries the host's scheduler grants the instance by now. If others than at the attempt before,
                a person has cleared the instance there: it starts over first, as after `clear`.
            run_clears: How often the host has cleared the run, for a host that may then show it under another incarnation:
                one with more clears than recorded is the recorded run. So is the first one that comes with clears at all:
                the host has been upgraded.

        Returns:
            ``{"task_store": TaskStoreAccessor, "asset_store": AssetStoreAccessors, "attempt": int}``: the stores of this
            attempt, and its number.

        Raises:
            StaleAttemptError: A higher attempt was opened, this one was cleared, or the incarnation was replaced.
            TypeError: ``attempt`` is no `int`, or an inlet or outlet no asset.
            ValueError: ``attempt`` is below 1.
        """
        call = self._open(scope, attempt, incarnation, item, item_name, inlets, outlets, options, max_tries, run_clears)
        return self._context(call, self._metastore.call(call))

    async def aopen(
        self,
        scope: TaskScope,
        attempt: int | None = None,
        *,
        incarnation: str | None = None,
        item: Mapping[str, Any] | None = None,
        item_name: str | None = None,
        inlets: Iterable[Any] = (),
        outlets: Iterable[Any] = (),
        options: TaskOptions = _NO_OPTIONS,
        max_tries: int | None = None,
        run_clears: int | None = None,
    ) -> dict[str, Any]:
        """As `open`."""
        call = self._open(scope, attempt, incarnation, item, item_name, inlets, outlets, options, max_tries, run_clears)
        return self._context(call, await self._metastore.acall(call))

    def _open(
        self,
        scope: TaskScope,
        attempt: int | None,
        incarnation: str | None,
        item: Mapping[str, Any] | None,
        item_name: str | None,
        inlets: Iterable[Any],
        outlets: Iterable[Any],
        options: TaskOptions,
        max_tries: int | None,
        run_clears: int | None,
    ) -> calls.Open:
        return calls.Open(
            check_scope(scope),
            None if attempt is None else check_attempt(attempt),
            incarnation=check_incarnation(incarnation),
            item=self._fingerprint(scope, item),
            item_name=None if item_name is None else check_text(item_name, "item_name", 1_500),
            inlets=_concrete(inlets := _listed(inlets, "inlets")),
            outlets=_concrete(_listed(outlets, "outlets")),
            inlet_aliases=[alias.name for alias in inlets if is_alias(alias)],
            options=_options(options),
            max_tries=_count(max_tries, "max_tries"),
            run_clears=_count(run_clears, "run_clears"),
        )

    def _fingerprint(self, scope: TaskScope, item: Mapping[str, Any] | None) -> str | None:
        if item is None:
            return None
        if not isinstance(item, Mapping):
            raise UnsupportedTypeError(f"item must be a mapping of mapped arguments by name, not {type(item).__name__}")
        try:
            return blake2b(canonical(dict(item)).encode(), digest_size=16).hexdigest()
        except (InvalidValueError, UnsupportedTypeError) as error:
            task = (scope.dag_id, scope.task_id)
            if task not in self._unguarded:
                self._unguarded.add(task)
                _warn(
                    "mapped items of %s/%s are not JSON (%s), so a changed list cannot be noticed; name a map_key",
                    *task,
                    error,
                    action="item_unguarded",
                )
            return None

    def _context(self, call: calls.Open, opened: calls.Opened) -> dict[str, Any]:
        if opened.warning:
            _warn("%s", opened.warning, action="set_aside")

        def handle(of: Scope, writer: str, owner_id: int) -> Handle:
            return Handle(
                of,
                writer,
                instance_id=opened.instance_id,
                fence=opened.fence,
                attempt=opened.attempt,
                owner_id=owner_id,
                warns=True,
            )

        writer = Writer.of_task(call.scope, opened.attempt)
        found = {number: (name, uri) for number, name, uri in (*opened.inlets, *opened.outlets)}
        accessors = {
            number: AssetStoreAccessor(
                self._metastore,
                handle(AssetScope(number, *names), writer.encode(), number),
                self._limit,
            )
            for number, names in found.items()
        }
        return {
            "task_store": TaskStoreAccessor(
                self._metastore, handle(call.scope, writer.encode(call.scope), opened.instance_id), self._limit
            ),
            # The inlets as they were given, and those that aliases stand for.
            "asset_store": AssetStoreAccessors(
                accessors, found, [*call.inlets, *(AssetScope(*row) for row in opened.inlets)], call.outlets
            ),
            "attempt": opened.attempt,
        }

    def finish(
        self,
        scope: TaskScope,
        attempt: int,
        state: InstanceState,
        *,
        incarnation: str | None = None,
        error: str | None = None,
    ) -> None:
        """Record how an attempt ended, in one transaction with what depends on it.

        That is ``clear_on_success``, and what the attempt has staged (`AssetStoreAccessor.stage`): success writes it, any
        other end but ``deferred`` drops it. Where it cannot be written, success is refused and the attempt goes on: end it
        as failed.

        Args:
            scope: The task instance.
            attempt: The attempt that ended.
            state: ``success``, ``failed``, ``skipped``, ``up_for_retry`` or ``deferred``. The same state again: nothing.
            incarnation: As in `open`.
            error: Why it failed, for people: kept beside ``failed`` and ``up_for_retry``, as one line of at most 1,000
                characters, until the run is deleted (`Runs.outcomes`).

        Raises:
            ValueError: Another state.
            InstanceNotFoundError: The instance is not recorded.
            StaleAttemptError: The attempt is not the current one.
            InstanceStateError: It has already ended in another state.
            AssetNotActiveError: A value is staged for an asset that was deactivated meanwhile.
            AssetNotFoundError: A value is staged for an asset that is gone.
            TypeError: A value is staged to advance, and cannot be compared with what is stored by now.
        """
        self._metastore.call(_finish(scope, attempt, state, incarnation, error))

    async def afinish(
        self,
        scope: TaskScope,
        attempt: int,
        state: InstanceState,
        *,
        incarnation: str | None = None,
        error: str | None = None,
    ) -> None:
        """As `finish`."""
        await self._metastore.acall(_finish(scope, attempt, state, incarnation, error))

    def expand(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *,
        expansion: str,
        length: int,
        item: Callable[[int], Mapping[str, Any] | None],
    ) -> List[TaskScope]:
        """Tell of which items a mapped task has instances, before any of them is opened.

        For the same expansion as before, this does nothing: retries are never compared. For another one, instances that were
        opened for another item than the one at their position now, and instances past the end, are started over in one
        transaction: their attempts become stale, their keys are archived, with a warning.

        Args:
            dag_id: The DAG.
            run_id: The run.
            task_id: The mapped task.
            expansion: A text that tells one computation of the list from another; at most 250 characters.
            length: The number of items.
            item: Returns the mapped arguments at a position, as for `open`. Asked only where they are needed.

        Returns:
            The instances that start over.

        Raises:
            RunNotFoundError: The run is not recorded.
        """
        return run(self._metastore, self._expand(dag_id, run_id, task_id, expansion, length, item))

    async def aexpand(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *,
        expansion: str,
        length: int,
        item: Callable[[int], Mapping[str, Any] | None],
    ) -> List[TaskScope]:
        """As `expand`; ``item`` is a plain function."""
        return await arun(self._metastore, self._expand(dag_id, run_id, task_id, expansion, length, item))

    def _expand(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        expansion: str,
        length: int,
        item: Callable[[int], Mapping[str, Any] | None],
    ) -> Program[List[TaskScope]]:
        scope = TaskScope(dag_id, run_id, task_id)
        check_text(expansion, "expansion", MAX_ID_CHARS)
        check_number(length, "length", 0, MAX_MAP_INDEX)
        if not callable(item):
            raise UnsupportedTypeError(f"item must be a function from a position to arguments, not {type(item).__name__}")
        answer = yield calls.Expand(dag_id, run_id, task_id, expansion, length, None, self._writer)
        if answer.compare:
            items = {index: self._fingerprint(scope, item(index)) for index in answer.compare}
            answer = yield calls.Expand(dag_id, run_id, task_id, expansion, length, items, self._writer)
        for warning in answer.warnings:
            _warn("%s", warning, action="set_aside")
        return answer.discarded  # type: ignore[no-any-return]

    # -- clear and restore ----------------------------------------------------------------------------------------

    def clear(self, scope: TaskScope, *, keep: bool | None = None, attempt: int | None = None) -> None:
        """Start an instance over: its attempts become stale, its keys are archived for ``archive_days``.

        Args:
            scope: The task instance.
            keep: `True` keeps the keys; `None`: as the task's options or the configuration say (``on_clear``).
            attempt: The attempt that a host's scheduler ended because a person cleared it there. If it is no longer the
                current one, nothing is cleared. `None`: whichever there is.

        Raises:
            InstanceNotFoundError: The instance is not recorded.
            StaleAttemptError: ``attempt`` is not the current one.
        """
        self._metastore.call(self._clear(scope, keep, attempt))

    async def aclear(self, scope: TaskScope, *, keep: bool | None = None, attempt: int | None = None) -> None:
        """As `clear`."""
        await self._metastore.acall(self._clear(scope, keep, attempt))

    def _clear(self, scope: TaskScope, keep: bool | None, attempt: int | None) -> calls.ClearInstances:
        check_scope(scope)
        writer = self._writer
        if attempt is not None:
            writer = Writer.of_task(scope, check_attempt(attempt)).encode(scope)
        return calls.ClearInstances(scope.dag_id, scope.run_id, scope, _keep(keep), writer, attempt)

    def clear_run(self, dag_id: str, run_id: str, *, keep: bool | None = None) -> int:
        """Start all instances of a run over, as `clear` does, in one transaction.

        Returns:
            The number of instances.

        Raises:
            RunNotFoundError: The run is not recorded.
        """
        return self._metastore.call(self._clear_run(dag_id, run_id, keep)).instances

    async def aclear_run(self, dag_id: str, run_id: str, *, keep: bool | None = None) -> int:
        """As `clear_run`."""
        return (await self._metastore.acall(self._clear_run(dag_id, run_id, keep))).instances

    def _clear_run(self, dag_id: str, run_id: str, keep: bool | None) -> calls.ClearInstances:
        return calls.ClearInstances(*check_run(dag_id, run_id), None, _keep(keep), self._writer)

    def archives(self, scope: TaskScope) -> List[Archive]:
        """Return what was set aside for an instance, newest first.

        Raises:
            InstanceNotFoundError: The instance is not recorded.
        """
        return self._metastore.call(calls.Archives(check_scope(scope)))

    async def aarchives(self, scope: TaskScope) -> List[Archive]:
        """As `archives`."""
        return await self._metastore.acall(calls.Archives(check_scope(scope)))

    def restore(self, scope: TaskScope, *, archive: int | None = None, force: bool = False) -> int:
        """Bring back what was set aside.

        Args:
            scope: The task instance.
            archive: An `Archive.id`; by default the newest.
            force: Set live keys that are in the way aside first. In the way of a whole state are all live keys, in the way
                of single deleted keys only these. It also restores under an attempt that is recorded as running although
                its runner no longer holds the run.

        Returns:
            The number of keys that came back; those expired meanwhile do not.

        Raises:
            InstanceNotFoundError: The instance is not recorded.
            ArchiveNotFoundError: There is no such archive.
            InstanceStateError: An attempt is running, or live keys are in the way.
        """
        return self._metastore.call(self._restore(scope, archive, force))

    async def arestore(self, scope: TaskScope, *, archive: int | None = None, force: bool = False) -> int:
        """As `restore`."""
        return await self._metastore.acall(self._restore(scope, archive, force))

    def _restore(self, scope: TaskScope, archive: int | None, force: bool) -> calls.Restore:
        number = None if archive is None else check_number(archive, "archive", -(2**63), 2**63 - 1)
        return calls.Restore(check_scope(scope), number, check_flag(force, "force"), self._writer)

    # -- delete and look ------------------------------------------------------------------------------------------

    def delete_run(self, dag_id: str, run_id: str, *, incarnation: str | None = None) -> int:
        """Remove a run with all its task rows; asset state stays, and what its tasks wrote there.

        Args:
            dag_id: The DAG.
            run_id: The run.
            incarnation: Only if this is the recorded one: a run that was made anew meanwhile stays.

        Returns:
            The number of instances removed.

        Raises:
            RunNotFoundError: The run is not recorded.
            StaleAttemptError: It has another incarnation; nothing was removed.
        """
        return len(self._metastore.call(self._delete_run(dag_id, run_id, incarnation)))

    async def adelete_run(self, dag_id: str, run_id: str, *, incarnation: str | None = None) -> int:
        """As `delete_run`."""
        return len(await self._metastore.acall(self._delete_run(dag_id, run_id, incarnation)))

    def _delete_run(self, dag_id: str, run_id: str, incarnation: str | None) -> calls.DeleteRun:
        return calls.DeleteRun(*check_run(dag_id, run_id), self._writer, check_incarnation(incarnation))

    def get(self, scope: TaskScope) -> InstanceRecord | None:
        """Return the record of an instance, or `None` if there is none."""
        return next(iter(self._metastore.call(_one(scope))), None)

    async def aget(self, scope: TaskScope) -> InstanceRecord | None:
        """As `get`."""
        return next(iter(await self._metastore.acall(_one(scope))), None)

    def list(
        self,
        dag_id: str | None = None,
        run_id: str | None = None,
        task_id: str | None = None,
        *,
        state: InstanceState | None = None,
    ) -> List[InstanceRecord]:
        """Return records in the order of runs, tasks and map indices; `None` selects all."""
        return self._metastore.call(_selection(dag_id, run_id, task_id, state))

    async def alist(
        self,
        dag_id: str | None = None,
        run_id: str | None = None,
        task_id: str | None = None,
        *,
        state: InstanceState | None = None,
    ) -> List[InstanceRecord]:
        """As `list`."""
        return await self._metastore.acall(_selection(dag_id, run_id, task_id, state))


def _warn(message: str, *arguments: object, action: str) -> None:
    import logging  # rarely needed, and not cheap to load

    logging.getLogger("milepost").warning(message, *arguments, extra={"action": action})


def _listed(assets: Any, what: str) -> list[Any]:
    if isinstance(assets, str | bytes) or not hasattr(assets, "__iter__"):
        raise UnsupportedTypeError(f"{what} must be a list of assets, not {type(assets).__name__}")
    return list(assets)


def _concrete(assets: Iterable[Any]) -> list[AssetScope]:
    return [asset_scope(asset) for asset in assets if not is_alias(asset)]


def _options(options: TaskOptions) -> TaskOptions:
    if not isinstance(options, TaskOptions):
        raise UnsupportedTypeError(f"options must be TaskOptions, not {type(options).__name__}")
    return options


def _count(number: int | None, name: str) -> int | None:
    return None if number is None else check_number(number, name, 0, MAX_MAP_INDEX)


def _keep(keep: bool | None) -> bool | None:
    return None if keep is None else check_flag(keep, "keep")


def _finish(scope: TaskScope, attempt: int, state: Any, incarnation: str | None, error: str | None) -> calls.Finish:
    if not isinstance(state, str) or state not in FINISH_STATES:
        raise InvalidValueError(f"an attempt ends as one of {', '.join(sorted(FINISH_STATES))}, not {state!r}")
    reason = None if error is None else one_line(error)
    return calls.Finish(check_scope(scope), check_attempt(attempt), state, check_incarnation(incarnation), reason)


def _selection(dag_id: str | None, run_id: str | None, task_id: str | None, state: str | None) -> calls.ListInstances:
    for name, text in (("dag_id", dag_id), ("run_id", run_id), ("task_id", task_id)):
        if text is not None:
            check_text(text, name, MAX_ID_CHARS)
    if state is not None:
        check_state(state, INSTANCE_STATES)
    return calls.ListInstances(dag_id, run_id, task_id, None, state)


def _one(scope: TaskScope) -> calls.ListInstances:
    check_scope(scope)
    return calls.ListInstances(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
