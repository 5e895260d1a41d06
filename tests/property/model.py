"""What a store should do, in plain dictionaries: the other side of the stateful property test.

Nothing here comes from the store's own code but its error classes. Rows stay in the dictionaries after they expired, as
they do in a database, until something removes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from milepost import (
    ArchiveNotFoundError,
    InstanceNotFoundError,
    InstanceStateError,
    NotFoundError,
    RunNotFoundError,
    StaleAttemptError,
    TaskScope,
    UnsupportedTypeError,
    VersionConflictError,
)

__all__ = ["DAY", "Handle", "Instance", "Model", "Owner", "Row"]

DAY = 86_400_000_000
NEVER = "never"
OPEN = ("running", "up_for_retry", "deferred")


@dataclass
class Row:
    """One stored key. `expires`: microseconds, NEVER, or None where the default governs."""

    value: Any
    created: int
    updated: int
    expires: int | str | None
    version: str | None = None

    def live(self, now: int) -> bool:
        """Tell whether the row is there at that instant."""
        return not isinstance(self.expires, int) or self.expires > now


@dataclass(eq=False)
class Owner:
    """An asset, or the keys of a task instance."""

    rows: dict[str, Row] = field(default_factory=dict)


@dataclass(eq=False)
class Instance(Owner):
    """A recorded task instance."""

    updated: int = 0
    attempt: int = 0
    cleared: int = 0
    fence: int = 0
    state: str = "none"
    archives: list[tuple[int, dict[str, Row]]] = field(default_factory=list)


def run_of(scope: TaskScope) -> tuple[str, str]:
    """Return what names a run."""
    return scope.dag_id, scope.run_id


@dataclass(eq=False)
class Handle:
    """An accessor: of a task or an asset, by an attempt (`instance` and `fence`) or by nobody in particular."""

    owner: TaskScope | str
    scope: TaskScope | None = None
    instance: Instance | None = None
    fence: int = 0


class Model:
    """All state, and what each call does to it."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.instances: dict[TaskScope, Instance] = {}
        self.assets: dict[str, Owner] = {}
        self.incarnations: dict[tuple[str, str], str | None] = {}
        self.replaced: set[tuple[tuple[str, str], str]] = set()

    # -- who may, and whose keys ----------------------------------------------------------------------------------

    def stale(self, handle: Handle) -> bool:
        """Tell whether the attempt behind a handle was taken over."""
        if handle.instance is None or handle.scope is None:
            return False
        return self.instances.get(handle.scope) is not handle.instance or handle.instance.fence != handle.fence

    def owner(self, handle: Handle, *, create: bool = False) -> Owner:
        """Return whose keys a handle means, recording the instance if asked to."""
        if isinstance(handle.owner, str):
            return self.assets.setdefault(handle.owner, Owner())
        if handle.owner not in self.instances:
            if not create:
                return Owner()
            self.instances[handle.owner] = Instance(updated=self.now)
            self.incarnations.setdefault(run_of(handle.owner), None)
        return self.instances[handle.owner]

    def live(self, handle: Handle) -> dict[str, Row]:
        """Return the rows that a reader sees."""
        return {key: row for key, row in self.owner(handle).rows.items() if row.live(self.now)}

    def _guard(self, handle: Handle) -> None:
        if self.stale(handle):
            raise StaleAttemptError("stale")

    # -- writes of keys -------------------------------------------------------------------------------------------

    def _write(self, handle: Handle, key: str, value: Any, retention: int | str | None, *, keep: bool = False) -> None:
        rows = self.owner(handle, create=True).rows
        old = rows.get(key)
        if old is not None and not old.live(self.now):
            old = None
        expires = self.now + retention if isinstance(retention, int) else retention
        if isinstance(handle.owner, str):
            expires = NEVER
        elif keep and old is not None:
            expires = old.expires
        rows[key] = Row(value, self.now if old is None else old.created, self.now, expires)

    def set_many(self, handle: Handle, mapping: dict[str, Any], retention: int | str | None) -> None:
        """Write all."""
        self._guard(handle)
        for key, value in mapping.items():
            self._write(handle, key, value, retention)

    def set_default(self, handle: Handle, key: str, value: Any, retention: int | str | None) -> Any:
        """Write if absent."""
        self._guard(handle)
        old = self.live(handle).get(key)
        if old is not None:
            return old.value
        self._write(handle, key, value, retention)
        return value

    def compare_and_set(
        self, handle: Handle, key: str, value: Any, version: str | None, retention: int | str | None
    ) -> None:
        """Write over that version."""
        self._guard(handle)
        old = self.live(handle).get(key)
        if (None if old is None else old.version) != version:
            raise VersionConflictError("another version")
        self._write(handle, key, value, retention)

    def increment(self, handle: Handle, key: str, by: float) -> Any:
        """Add."""
        self._guard(handle)
        old = self.live(handle).get(key)
        number = 0 if old is None else old.value
        if type(number) not in (int, float):
            raise UnsupportedTypeError("no number")
        self._write(handle, key, number + by, None, keep=True)
        return number + by

    def update(self, handle: Handle, key: str, fn: Callable[[Any], Any], default: Any) -> Any:
        """Read, change, write."""
        self._guard(handle)
        old = self.live(handle).get(key)
        new = fn(default if old is None else old.value)
        self._write(handle, key, new, None, keep=True)
        return new

    def touch(self, handle: Handle, key: str, retention: int | str | None) -> None:
        """Move the expiry."""
        self._guard(handle)
        old = self.live(handle).get(key)
        if old is None:
            raise NotFoundError("absent")
        old.expires = self.now + retention if isinstance(retention, int) else retention
        old.updated = self.now

    def delete(self, handle: Handle, key: str) -> None:
        """Drop."""
        self._guard(handle)
        self.owner(handle).rows.pop(key, None)

    def clear(self, handle: Handle, *, all_map_indices: bool = False) -> None:
        """Drop all."""
        self._guard(handle)
        self.owner(handle).rows.clear()
        if all_map_indices and isinstance(handle.owner, TaskScope):
            for scope, instance in self.instances.items():
                if replace(scope, map_index=-1) == replace(handle.owner, map_index=-1):
                    instance.rows.clear()

    # -- the life of instances ------------------------------------------------------------------------------------

    def open(self, scope: TaskScope, attempt: int, incarnation: str | None) -> Instance:
        """Begin or resume an attempt."""
        self._settle(scope, incarnation)
        known = self.instances.get(scope)
        if known is not None and (attempt < known.attempt or attempt <= known.cleared):
            raise StaleAttemptError("taken over")
        instance = self.instances.setdefault(scope, Instance())
        if attempt > instance.attempt:
            instance.attempt = attempt
            instance.fence += 1
        instance.state = "running"
        instance.updated = self.now
        return instance

    def _settle(self, scope: TaskScope, incarnation: str | None) -> None:
        """Let a new incarnation take the place of the recorded one, whose instances lose state and fence."""
        run = run_of(scope)
        if incarnation is not None and (run, incarnation) in self.replaced:
            raise StaleAttemptError("replaced")
        recorded = self.incarnations.setdefault(run, incarnation)
        if incarnation in (None, recorded):
            return
        siblings = [instance for other, instance in self.instances.items() if run_of(other) == run]
        if recorded is not None:
            self.replaced.add((run, recorded))
        if recorded is not None or any(instance.attempt for instance in siblings):
            for instance in siblings:
                self._set_aside(instance)
                instance.fence += 1
                instance.attempt = instance.cleared = 0
                instance.state = "none"
                instance.updated = self.now
        self.incarnations[run] = incarnation

    def _known(self, scope: TaskScope) -> Instance:
        if scope not in self.instances:
            raise InstanceNotFoundError("unknown")
        return self.instances[scope]

    def finish(self, scope: TaskScope, attempt: int, state: str) -> None:
        """End an attempt."""
        instance = self._known(scope)
        if attempt != instance.attempt or attempt <= instance.cleared:
            raise StaleAttemptError("not current")
        if instance.state == state:
            return
        if instance.state not in OPEN:
            raise InstanceStateError("ended")
        instance.state = state
        instance.updated = self.now

    def _set_aside(self, instance: Instance) -> None:
        live = {key: replace(row) for key, row in instance.rows.items() if row.live(self.now)}
        if live:
            instance.archives.append((self.now, live))
        instance.rows.clear()

    def clear_instance(self, scope: TaskScope, *, keep: bool, attempt: int | None = None) -> None:
        """Start over; with ``attempt``, only while that is the current one."""
        instance = self._known(scope)
        if attempt is not None and (attempt != instance.attempt or attempt <= instance.cleared):
            raise StaleAttemptError("not current")
        if not keep:
            self._set_aside(instance)
        instance.fence += 1
        instance.cleared = instance.attempt
        instance.state = "cleared"
        instance.updated = self.now

    def restore(self, scope: TaskScope, *, force: bool) -> int:
        """Bring the newest archive back."""
        instance = self._known(scope)
        if instance.state == "running":
            raise InstanceStateError("running")
        kept = [{key: row for key, row in rows.items() if row.live(self.now)} for _, rows in instance.archives]
        back = next((rows for rows in reversed(kept) if rows), None)
        if back is None:
            raise ArchiveNotFoundError("none, or all of them expired")
        if any(row.live(self.now) for row in instance.rows.values()) and not force:
            raise InstanceStateError("live keys")
        self._set_aside(instance)
        for key, row in back.items():
            instance.rows[key] = replace(row, updated=self.now, version=None)
        return len(back)

    def delete_run(self, dag_id: str, run_id: str) -> int:
        """Remove a run."""
        run = dag_id, run_id
        if run not in self.incarnations:
            raise RunNotFoundError("unknown")
        incarnation = self.incarnations.pop(run)
        if incarnation is not None:
            self.replaced.add((run, incarnation))
        gone = [scope for scope in self.instances if run_of(scope) == run]
        for scope in gone:
            del self.instances[scope]
        return len(gone)

    def clean(self) -> tuple[int, int]:
        """Collect; how many rows had expired, and how many were retired."""
        expired = retired = 0
        for instance in self.instances.values():
            lively = instance.updated >= self.now - 90 * DAY or any(
                row.live(self.now) and row.updated >= self.now - 90 * DAY for row in instance.rows.values()
            )
            spared = instance.state in OPEN and lively
            for key, row in list(instance.rows.items()):
                if not row.live(self.now):
                    expired += 1
                    del instance.rows[key]
                elif row.expires is None and row.updated < self.now - 30 * DAY and not spared:
                    retired += 1
                    del instance.rows[key]
            instance.archives = [archive for archive in instance.archives if archive[0] >= self.now - 7 * DAY]
        return expired, retired
