"""What simulations share: actions, the model with attempts that are known by a token, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from milepost import Asset, InstanceStateError, NotFoundError, StaleAttemptError, TaskScope, VersionConflictError
from tests.property import model
from tests.property.model import Instance

__all__ = ["ASSET", "KEYS", "SCOPES", "Act", "Crash", "Held", "Model", "Step", "ViolationError", "same"]

SCOPES = [TaskScope("d", "r", "m", 0), TaskScope("d", "r", "m", 1), TaskScope("d", "q", "t", -1)]
ASSET = Asset("orders")
KEYS = ["a", "b", "n"]


class ViolationError(AssertionError):
    """An invariant does not hold."""


class Crash(BaseException):
    """The end of a process. Whatever its code would do on the way out, it does no more."""


@dataclass(frozen=True, eq=False)
class Held:
    """An accessor as the model knows it: whose keys, and by which attempt."""

    owner: TaskScope | str
    token: int | None = None
    name: str = "people"


class Model(model.Model):
    """The model, in which attempts are found by tokens, so that it can be copied.

    Args:
        now: The time.
    """

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.held: dict[int, tuple[TaskScope, Instance, int]] = {}
        self.results: dict[TaskScope, str] = {}
        self.intents: dict[TaskScope, tuple[Instance, dict[str, tuple[int, str]]]] = {}
        self.staged: dict[TaskScope, tuple[Instance, int, dict[str, tuple[bool, int]]]] = {}

    def hold(self, token: int, instance: Instance) -> None:
        """Remember the fence that an attempt holds."""
        (scope,) = [scope for scope, one in self.instances.items() if one is instance]
        self.held[token] = scope, instance, instance.fence

    def stale(self, handle: Any) -> bool:
        """Tell whether the attempt behind a handle was taken over."""
        if handle.token is None:
            return False
        scope, instance, fence = self.held[handle.token]
        return self.instances.get(scope) is not instance or instance.fence != fence

    def put_result(self, scope: TaskScope, attempt: int, text: str) -> None:
        """Keep what an attempt returned."""
        instance = self._known(scope)
        if attempt != instance.attempt or attempt <= instance.cleared:
            raise StaleAttemptError("not current")
        self.results[scope] = text

    def _settle(self, scope: TaskScope, incarnation: str | None) -> None:
        fences = {other: one.fence for other, one in self.instances.items()}
        super()._settle(scope, incarnation)
        for other, fence in fences.items():
            if self.instances[other].fence != fence:
                self.results.pop(other, None)

    def clear_instance(self, scope: TaskScope, *, keep: bool, attempt: int | None = None) -> None:
        """Start over; what was returned is gone whether state is kept or not."""
        super().clear_instance(scope, keep=keep, attempt=attempt)
        self.results.pop(scope, None)

    def delete_run(self, dag_id: str, run_id: str) -> int:
        """Remove a run."""
        count = super().delete_run(dag_id, run_id)
        self.results = {scope: text for scope, text in self.results.items() if scope in self.instances}
        return count

    def intent(self, handle: Any, key: str) -> tuple[int, str | None]:
        """Return number and version of the latest submission under a key."""
        kept = self.intents.get(handle.owner)
        known: dict[str, Any] = {} if kept is None or kept[0] is not self.instances.get(handle.owner) else kept[1]
        return known.get(key, (0, None))

    def _intent(self, handle: Any, key: str, number: int, version: str) -> None:
        instance = self.owner(handle, create=True)
        kept = self.intents.get(handle.owner)
        if kept is None or kept[0] is not instance:
            kept = self.intents[handle.owner] = (instance, {})  # type: ignore[assignment]
        kept[1][key] = number, version

    def intend(self, handle: Any, key: str, version: str, expected: str | None) -> int:
        """Begin another submission over the one that is expected: the id of the job before it goes."""
        self._guard(handle)
        number, known = self.intent(handle, key)
        if known == version:
            return number
        if known != expected:
            raise VersionConflictError("moved")
        self._intent(handle, key, number + 1, version)
        self.owner(handle).rows.pop(key, None)
        return number + 1

    def keep_job(self, handle: Any, key: str, value: int, version: str, expected: str) -> int:
        """Store the id of a job."""
        self._guard(handle)
        number, known = self.intent(handle, key)
        if known is None or known not in (expected, version):
            raise VersionConflictError("moved")
        if known != version:
            self._write(handle, key, value, "never")
        self._intent(handle, key, number, version)
        return number

    def edit(self, handle: Any, key: str, value: int, expected: str | None, *, present: bool | None, keep: bool) -> None:
        """Write as a person who says what is there; nothing is recorded."""
        if not isinstance(handle.owner, str):
            self._known(handle.owner)
        row = self.live(handle).get(key)
        if expected is not None and (row is None or row.version != expected):
            raise VersionConflictError("another version")
        if row is None and present is True:
            raise NotFoundError("absent")
        if row is not None and present is False:
            raise VersionConflictError("there")
        self._write(handle, key, value, None, keep=keep)

    def delete_if(self, handle: Any, key: str, expected: str) -> None:
        """Drop a key that has a version."""
        row = self.live(handle).get(key)
        if row is None or row.version != expected:
            raise VersionConflictError("another version")
        self.owner(handle).rows.pop(key)

    def advance(self, handle: Any, key: str, value: int) -> int:
        """Write a number that lies beyond the stored one; return what is stored then."""
        self._guard(handle)
        row = self.live(handle).get(key)
        if row is not None and not value > row.value:
            return int(row.value)
        self._write(handle, key, value, None)
        return value

    def stage(self, handle: Any, key: str, value: int, *, advance: bool) -> None:
        """Keep a value until the attempt succeeds."""
        self._guard(handle)
        scope, instance, fence = self.held[handle.token]
        if instance.state not in ("running", "deferred"):
            raise InstanceStateError("ended")
        kept = self.staged.get(scope)
        if kept is None or kept[0] is not instance or kept[1] != fence:
            kept = self.staged[scope] = (instance, fence, {})
        mode, before = kept[2].get(key, (advance, None))
        if advance and before is not None:
            if value <= before:
                return
            advance = mode
        kept[2][key] = advance, value

    def finish(self, scope: TaskScope, attempt: int, state: str) -> None:
        """End an attempt; success writes what it has staged."""
        instance = self.instances.get(scope)
        before = instance.state if instance else None
        super().finish(scope, attempt, state)
        if state in (before, "deferred"):
            return
        kept = self.staged.pop(scope, None)
        if state == "success" and kept and kept[0] is instance and kept[1] == instance.fence:
            asset = Held(ASSET.name)
            for key, (advance, value) in kept[2].items():
                row = self.live(asset).get(key)  # type: ignore[arg-type]
                if not advance or row is None or value > row.value:
                    self._write(asset, key, value, None)  # type: ignore[arg-type]


class Step(NamedTuple):
    """What one client does: the name of an action, and the seed of its parameters."""

    action: str
    seed: int


@dataclass(eq=False)
class Act:
    """One call of a client.

    Args:
        text: How a trace names it.
        call: Makes the call.
        model: What it does to the model: the answer, or the error that it raises.
        handle: Whose fence guards it.
        kind: ``write``; ``read``: no effect; ``quiet``: writes nothing that a reader can see, and its answer is not known.
        once: Whether it may take effect at most once, however often its connection is lost.
        tries: Whether it may be refused inside and then try again.
        peek: What a call that has seen enough without a transaction answers.
    """

    text: str
    call: Callable[[], Coroutine[Any, Any, Any]]
    model: Callable[[Model], Any]
    handle: Held | None = None
    kind: str = "write"
    once: bool = False
    tries: bool = False
    peek: Callable[[Model], Any] | None = None


def same(left: Any, right: Any) -> bool:
    """Tell whether two answers are equal, types included."""
    return type(left) is type(right) and repr(left) == repr(right)
