"""The tests that every backend of the simple interface has to pass."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from milepost.abc import BaseStateBackend
from milepost.scopes import AssetScope, Scope, TaskScope

__all__ = ["BackendContract"]

KEYS = (
    "k", "k ", " k", "k\t", "K", "a/b", "a%2Fb", "a_b", "a b", "a+b", "a", "/lead", "trail/", "a//b", ".", "..", "..\\x",
    "../../evil", "/etc/passwd", "C:x", "[x]*?", "%", "_", "#?&;", "e", "é", "e\u0301", "ss", "ß", "👍", "🎉", "con", "~",
    "line1\nline2", "$HOME", "k.json", "-k", "'\"", "漢" * 512, "K" * 512,
)  # fmt: skip
"""Keys that some stores mix up, cut short or cannot hold."""

TEXTS = (
    "0",
    "false",
    '""',
    "[]",
    "{}",
    "-0.0",
    "1180591620717411303424",
    r'"\u0000"',
    '"é漢👍"',
    '"line1\\nline2"',
    '" pad "',
)
"""JSON texts that are easily taken for nothing, or changed."""

SCOPES: tuple[Scope, ...] = (
    TaskScope("a", "b", "c"),
    TaskScope("a", "b", "c", 0),
    TaskScope("a", "b", "c", 1),
    TaskScope("a", "b", "c", 11),
    TaskScope("a/b", "c", "c"),
    TaskScope("a", "b/c", "c"),
    TaskScope("a", "b", "b/c"),
    TaskScope("a.b", "c", "d"),
    TaskScope("A", "b", "c"),
    TaskScope("a ", "b", "c"),
    TaskScope("..", "..", ".."),
    TaskScope("a_", "b%", "*"),
    AssetScope(1, "a", "s3://a"),
    AssetScope(11, "a/b", "s3://a/b"),
    AssetScope(2, "a", "a"),
)
"""Owners that look alike."""


class _Way:
    """The four calls of a backend, made through the blocking methods or through the others."""

    def __init__(self, backend: BaseStateBackend, prefix: str) -> None:
        self._backend = backend
        self.prefix = prefix

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        answer = getattr(self._backend, self.prefix + method)(*args, session=None, **options)
        return asyncio.run(_wait(answer)) if self.prefix else answer

    def get(self, scope: Scope, key: str) -> Any:
        return self._call("get", scope, key)

    def set(self, scope: Scope, key: str, text: str, **options: Any) -> None:
        assert self._call("set", scope, key, text, **options) is None, f"{self.prefix}set() returns None"

    def delete(self, scope: Scope, key: str) -> None:
        assert self._call("delete", scope, key) is None, f"{self.prefix}delete() returns None"

    def clear(self, scope: Scope, **options: Any) -> None:
        assert self._call("clear", scope, **options) is None, f"{self.prefix}clear() returns None"


async def _wait(awaitable: Any) -> Any:
    return await awaitable


def _ways(backend: BaseStateBackend) -> list[_Way]:
    return [_Way(backend, ""), _Way(backend, "a")]


def _same(found: Any, expected: Any, what: str) -> None:
    assert found == expected, f"{what}: expected {expected!r}, got {found!r}"


class BackendContract:
    """Tests of a `BaseStateBackend` of your own, to be inherited.

    Subclass it in a test file, and give it a fixture ``backend`` that returns an empty backend::

        class TestMyBackend(BackendContract):
            @pytest.fixture
            def backend(self, tmp_path):
                return MyBackend(tmp_path)

    Each test works through the blocking and through the asynchronous methods. ``list`` and ``cleanup`` are tested where
    the backend has them.

    .. versionadded:: 0.1
    """

    def test_what_was_set_is_returned(self, backend: BaseStateBackend) -> None:
        """What ``get`` returns is the text that ``set`` was given, character for character."""
        for writer in _ways(backend):
            for reader in _ways(backend):
                for text in (*TEXTS, '"' + "x" * 65_534 + '"'):
                    writer.set(SCOPES[0], "k", text)
                    _same(reader.get(SCOPES[0], "k"), text, f"{writer.prefix}set, {reader.prefix}get")

    def test_an_absent_key_is_none(self, backend: BaseStateBackend) -> None:
        """``get`` of a key that is not there, or not there any more, is `None`."""
        for way in _ways(backend):
            for scope in SCOPES:
                _same(way.get(scope, "k"), None, f"an absent key of {scope}")
            way.set(SCOPES[0], "k", "1")
            _same(way.get(SCOPES[0], "other"), None, "another key")
            way.delete(SCOPES[0], "k")
            _same(way.get(SCOPES[0], "k"), None, "a deleted key")

    def test_a_set_overwrites(self, backend: BaseStateBackend) -> None:
        """``set`` replaces the text under a key, by a longer and by a shorter one."""
        for way in _ways(backend):
            for text in ("1", '"longer"', "2"):
                way.set(SCOPES[0], "k", text)
                _same(way.get(SCOPES[0], "k"), text, "the last text")

    def test_delete_drops_one_key(self, backend: BaseStateBackend) -> None:
        """``delete`` drops its key and no other, and is content where there is none."""
        for way in _ways(backend):
            way.set(SCOPES[0], "k", "1")
            way.set(SCOPES[0], "kk", "2")
            way.delete(SCOPES[0], "k")
            way.delete(SCOPES[0], "k")
            way.delete(TaskScope("never", "seen", "before"), "k")
            _same([way.get(SCOPES[0], key) for key in ("k", "kk")], [None, "2"], "after the delete")

    def test_keys_are_told_apart(self, backend: BaseStateBackend) -> None:
        """Keys are compared code point by code point, whatever is in them, and each has a value of its own."""
        for way in _ways(backend):
            for number, key in enumerate(KEYS):
                way.set(SCOPES[0], key, str(number))
            for number, key in enumerate(KEYS):
                _same(way.get(SCOPES[0], key), str(number), f"key {key[:20]!r}")
            way.delete(SCOPES[0], KEYS[0])
            for number, key in enumerate(KEYS[1:], 1):
                _same(way.get(SCOPES[0], key), str(number), f"key {key[:20]!r} after a delete of {KEYS[0]!r}")

    def test_scopes_are_told_apart(self, backend: BaseStateBackend) -> None:
        """Scopes never leak into each other, whatever their text looks like."""
        for way in _ways(backend):
            for number, scope in enumerate(SCOPES):
                way.set(scope, "k", str(number))
            for number, scope in enumerate(SCOPES):
                _same(way.get(scope, "k"), str(number), f"scope {scope!r}")

    def test_clear_drops_one_scope(self, backend: BaseStateBackend) -> None:
        """``clear`` drops all keys of its scope, none of any other, and is content where there are none."""
        for way in _ways(backend):
            for cleared in SCOPES:
                for scope in SCOPES:
                    way.set(scope, "k", "1")
                    way.set(scope, "../k", "2")
                way.clear(cleared)
                way.clear(cleared)
                for scope in SCOPES:
                    expected = [None, None] if scope == cleared else ["1", "2"]
                    _same(
                        [way.get(scope, key) for key in ("k", "../k")], expected, f"{scope!r} after a clear of {cleared!r}"
                    )

    def test_clear_of_all_map_indices(self, backend: BaseStateBackend) -> None:
        """``clear(all_map_indices=True)`` drops the keys of every index of the same task and run, and no others."""
        of_task = [scope for scope in SCOPES if isinstance(scope, TaskScope) and str(scope).startswith("a/b/c")]
        of_task = [scope for scope in of_task if (scope.dag_id, scope.run_id, scope.task_id) == ("a", "b", "c")]
        for way in _ways(backend):
            for asked in (of_task[0], of_task[-1]):
                for scope in SCOPES:
                    way.set(scope, "k", "1")
                way.clear(asked, all_map_indices=True)
                for scope in SCOPES:
                    _same(way.get(scope, "k"), None if scope in of_task else "1", f"{scope!r} after a clear of {asked!r}")

    def test_expiry_is_taken(self, backend: BaseStateBackend) -> None:
        """``set`` takes ``expires_at`` as an aware UTC datetime or `None`; before that instant the key is there."""
        later = datetime.now(timezone.utc) + timedelta(days=1)
        for way in _ways(backend):
            for options in ({"expires_at": later}, {"expires_at": None}, {}):
                way.set(SCOPES[0], "k", "1", **options)
                _same(way.get(SCOPES[0], "k"), "1", f"set with {options}")

    def test_never_expires_is_taken_by_both_or_neither(self, backend: BaseStateBackend) -> None:
        """If ``set`` takes ``never_expires``, so does ``aset``, and both take `True` and `False`."""
        takes = ["never_expires" in inspect.signature(method).parameters for method in (backend.set, backend.aset)]
        _same(takes[0], takes[1], "never_expires in the signatures of set and aset")
        for way in _ways(backend) if takes[0] else ():
            for never in (True, False):
                way.set(SCOPES[0], "k", "1", expires_at=None, never_expires=never)
                _same(way.get(SCOPES[0], "k"), "1", f"set with never_expires={never}")

    def test_the_twins_are_coroutines(self, backend: BaseStateBackend) -> None:
        """``aget``, ``aset``, ``adelete`` and ``aclear`` are ``async def``."""
        for name in ("aget", "aset", "adelete", "aclear"):
            assert inspect.iscoroutinefunction(getattr(backend, name)), f"{name} must be `async def`"

    def test_writers_at_once(self, backend: BaseStateBackend) -> None:
        """Threads that write at once lose nothing, and a key that all of them write holds one of their texts."""
        texts = [f'"{str(number) * 2_000}"' for number in range(8)]
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for _ in range(10):
                    backend.set(SCOPES[0], f"own{number}", texts[number])
                    backend.set(SCOPES[0], "shared", texts[number])
                    assert backend.get(SCOPES[0], "shared") in texts, "a torn value was read"
            except BaseException as error:  # noqa: BLE001  (handed on to the test below)
                errors.append(error)

        _together([lambda number=number: work(number) for number in range(8)])  # type: ignore[misc]
        if errors:
            raise errors[0]
        _same([backend.get(SCOPES[0], f"own{number}") for number in range(8)], texts, "the keys of the threads")
        assert backend.get(SCOPES[0], "shared") in texts

    def test_list_names_the_keys(self, backend: BaseStateBackend) -> None:
        """``list``, if there is one, names exactly the keys of its scope."""
        if type(backend).list is BaseStateBackend.list:
            return
        _same(sorted(backend.list(SCOPES[0])), [], "the keys of an empty scope")
        for key in KEYS:
            backend.set(SCOPES[0], key, "1")
        backend.set(SCOPES[1], "other", "1")
        _same(sorted(backend.list(SCOPES[0])), sorted(KEYS), "the keys")
        backend.clear(SCOPES[0])
        _same(sorted(backend.list(SCOPES[0])), [], "the keys of a cleared scope")

    def test_cleanup_removes_what_has_expired(self, backend: BaseStateBackend) -> None:
        """``cleanup``, if there is one, removes keys past their ``expires_at`` and nothing else."""
        if type(backend).cleanup is BaseStateBackend.cleanup:
            return
        now = datetime.now(timezone.utc)
        backend.set(SCOPES[0], "gone", "1", expires_at=now - timedelta(seconds=1))
        backend.set(SCOPES[0], "later", "2", expires_at=now + timedelta(days=1))
        backend.set(SCOPES[0], "default", "3")
        backend.set(SCOPES[0], "renewed", "4", expires_at=now - timedelta(seconds=1))
        backend.set(SCOPES[0], "renewed", "5")
        backend.cleanup()
        found = [backend.get(SCOPES[0], key) for key in ("gone", "later", "default", "renewed")]
        _same(found, [None, "2", "3", "5"], "after cleanup()")


def _together(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
