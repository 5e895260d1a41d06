"""`BackendContract` finds what is wrong with a backend."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from milepost import BaseStateBackend, TaskScope
from milepost.testing import BackendContract
from tests.support.file_backend import CollectingFileBackend, FileBackend, _hash

# pytest would collect it here as this module's own.
_CONTRACT: Any = BackendContract
TESTS = sorted(name for name in vars(_CONTRACT) if name.startswith("test_"))


class Folding(FileBackend):
    """Takes keys without their case."""

    def get(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        """Look under the folded key."""
        return super().get(scope, key.lower())

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        """Write under the folded key."""
        super().set(scope, key.lower(), value)


class Leaking(FileBackend):
    """Joins the parts of a scope with slashes."""

    def _task(self, scope: TaskScope) -> Path:
        return self.root / _hash("/".join((scope.dag_id, scope.run_id, scope.task_id)))


class Greedy(FileBackend):
    """Clears every map index, asked or not."""

    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        """Clear too much."""
        super().clear(scope, all_map_indices=True)


class Timid(FileBackend):
    """Clears one map index only."""

    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        """Clear too little."""
        super().clear(scope)


class Stubborn(FileBackend):
    """Complains of an absent key."""

    def delete(self, scope: Any, key: str, *, session: Any = None) -> None:
        """Raise for what is not there."""
        (self._folder(scope) / _hash(key)).unlink()


class First(FileBackend):
    """Keeps the first text."""

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        """Write only if absent."""
        if self.get(scope, key) is None:
            super().set(scope, key, value)


class Truthy(FileBackend):
    """Takes a falsy text for nothing."""

    def get(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        """Lose zero."""
        text = super().get(scope, key)
        return None if text in ("0", "false", "[]") else text


class Naive(FileBackend):
    """Compares the expiry with a naive time."""

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        """Fail for every aware datetime."""
        assert expires_at is None or expires_at > datetime.now(), "expired"  # noqa: DTZ005  (that is the fault)
        super().set(scope, key, value)


class Sessionless(FileBackend):
    """Does not take the session."""

    def get(self, scope: Any, key: str) -> str | None:  # type: ignore[override]
        """Take no session."""
        return super().get(scope, key)


class Half(FileBackend):
    """Takes never_expires in one of the two."""

    def set(  # type: ignore[override]
        self, scope: Any, key: str, value: str, *, expires_at: Any = None, never_expires: bool = False, session: Any = None
    ) -> None:
        """Take one keyword more."""
        super().set(scope, key, value, expires_at=expires_at)


class Blocking(FileBackend):
    """Has a twin that is no coroutine function."""

    def aget(self, scope: Any, key: str, *, session: Any = None) -> Any:
        """Return a coroutine by hand."""
        return super().aget(scope, key)


class Torn(FileBackend):
    """Writes in place, in two steps."""

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        """Leave half a value for others to see."""
        super().set(scope, key, value[: len(value) // 2])
        time.sleep(0.001)  # slow as a disk, as is a look at it: some do see half
        super().set(scope, key, value)

    def get(self, scope: Any, key: str, *, session: Any = None) -> Any:
        """Look a moment later."""
        time.sleep(0.001)
        return super().get(scope, key)


class Forgetful(CollectingFileBackend):
    """Lists without the last key, and never collects."""

    def list(self, scope: Any) -> Any:
        """Lose one."""
        return sorted(super().list(scope))[:-1]

    def cleanup(self) -> None:
        """Do nothing."""


class Sweeping(CollectingFileBackend):
    """Collects everything."""

    def cleanup(self) -> None:
        """Remove all files."""
        for file in self.root.rglob("*"):
            if file.is_file():
                file.unlink()


FAULTS = [
    (Folding, "test_keys_are_told_apart"),
    (Leaking, "test_scopes_are_told_apart"),
    (Leaking, "test_clear_drops_one_scope"),
    (Greedy, "test_clear_drops_one_scope"),
    (Timid, "test_clear_of_all_map_indices"),
    (Stubborn, "test_delete_drops_one_key"),
    (First, "test_a_set_overwrites"),
    (Truthy, "test_what_was_set_is_returned"),
    (Naive, "test_expiry_is_taken"),
    (Sessionless, "test_an_absent_key_is_none"),
    (Half, "test_never_expires_is_taken_by_both_or_neither"),
    (Blocking, "test_the_twins_are_coroutines"),
    (Torn, "test_writers_at_once"),
    (Forgetful, "test_list_names_the_keys"),
    (Forgetful, "test_cleanup_removes_what_has_expired"),
    (Sweeping, "test_cleanup_removes_what_has_expired"),
]


@pytest.mark.parametrize(("kind", "test"), FAULTS, ids=[f"{kind.__name__}-{test[5:]}" for kind, test in FAULTS])
def test_each_fault_is_found(kind: type[FileBackend], test: str, tmp_path: Path) -> None:
    """The contract's test for a rule fails for a backend that breaks it."""
    with pytest.raises((AssertionError, TypeError, OSError)):
        getattr(_CONTRACT(), test)(kind(tmp_path))


@pytest.mark.parametrize("test", TESTS)
def test_a_sound_backend_passes(test: str, tmp_path: Path) -> None:
    """Each test of the contract passes for a sound backend, so that a failure means something."""
    getattr(_CONTRACT(), test)(CollectingFileBackend(tmp_path))


def test_each_rule_of_the_contract_can_fail() -> None:
    """For every test of the contract there is a backend here that it fails."""
    assert {test for _, test in FAULTS} == set(TESTS)


def test_the_contract_speaks_of_every_abstract_method(tmp_path: Path) -> None:
    """The contract calls all eight abstract methods of the interface, and both optional ones."""
    seen: set[str] = set()
    eight = BaseStateBackend.__abstractmethods__

    class Noting(CollectingFileBackend):
        def __getattribute__(self, name: str) -> Any:
            seen.add(name)
            return super().__getattribute__(name)

    for test in TESTS:
        getattr(_CONTRACT(), test)(Noting(tmp_path / test))
    assert seen >= eight | {"list", "cleanup"}
