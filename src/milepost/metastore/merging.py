"""Calls of one attempt that wait for one another go together.

Writers of one key take turns in the database, and each turn ends with a sync. On an event loop, writes that arrive while
another write of the attempt is under way are made with a single statement when it is done. Nobody is told that a value is
stored before it is. Of several values for one key the last one is stored, and nobody could have seen the others.

Reads do the same among themselves: each is answered from a moment after it was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

from milepost import calls
from milepost.calls import PLAIN, Call
from milepost.scopes import TaskScope

__all__ = ["Merger", "line_of"]

_MOST: Final = 32
"""Calls that go together at most."""
_MOST_CHARS: Final = 200_000
"""Characters of values that go together at most."""

Line = tuple[Any, ...]


def line_of(call: Call[Any]) -> Line | None:
    """Return what calls have in common that may go together; `None` where a call goes alone.

    A write of what refers to something elsewhere goes alone: the row that it overwrites has to be seen.
    """
    kind = type(call)
    if kind is not calls.Put and kind is not calls.Get:
        return None
    handle: calls.Handle = call.handle  # type: ignore[attr-defined]
    if handle.instance_id is None or handle.logged or type(handle.scope) is not TaskScope:
        return None
    who = (handle.instance_id, handle.fence, handle.running, handle.owner_id)
    if isinstance(call, calls.Put):
        plain = all(item.encoding == PLAIN for item in call.items)
        return (kind, *who, handle.writer, call.retention) if plain else None
    return (kind, *who)


def _join(those: list[Call[Any]]) -> Call[Any]:
    """Return the one call that does what several of one line ask for."""
    first = those[0]
    if isinstance(first, calls.Put):
        last = {item.key: item for one in those for item in one.items}  # type: ignore[attr-defined]
        return calls.Put(first.handle, list(last.values()), first.retention)
    assert isinstance(first, calls.Get)
    keys = {one.key for one in those}  # type: ignore[attr-defined]
    return first if len(keys) == 1 else calls.GetMany(first.handle, list(keys))


def _part(call: Call[Any], joined: Call[Any], answer: Any) -> Any:
    """Return the answer to one call of several that went together."""
    if isinstance(joined, calls.GetMany):
        return next(((text, encoding) for key, text, encoding in answer if key == call.key), None)  # type: ignore[attr-defined]
    return answer


def _chars(call: Call[Any]) -> int:
    return sum(len(item.text) for item in call.items) if isinstance(call, calls.Put) else 0


class _Waiting:
    """A call that waits for its turn."""

    def __init__(self, call: Call[Any]) -> None:
        self.call = call
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.begun = False

    async def outcome(self) -> Any:
        """Wait for the answer; when cancelled, end no sooner than a call that has begun."""
        try:
            return await asyncio.shield(self.done)
        except asyncio.CancelledError:
            if not self.begun:
                self.done.cancel()
            while not self.done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([self.done])
            raise


class Merger:
    """Makes calls of one attempt go together where they would wait for one another.

    Args:
        run: Runs a call.
    """

    def __init__(self, run: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._run = run
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Line, list[_Waiting]]]
        self._loops = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, call: Call[Any], line: Line) -> Any:
        """Run a call at once, or with those that wait for the one that is under way."""
        lines = self._loops.setdefault(asyncio.get_running_loop(), {})
        if (waiting := lines.get(line)) is not None:
            one = _Waiting(call)
            waiting.append(one)
            return await one.outcome()
        lines[line] = []
        try:
            return await self._run(call)
        finally:
            self._next(lines, line)

    def _next(self, lines: dict[Line, list[_Waiting]], line: Line) -> None:
        """Have those that wait run, if there are any."""
        waiting = [one for one in lines.pop(line) if not one.done.done()]
        if not waiting:
            return
        chars = count = 0
        for one in waiting[:_MOST]:
            chars += _chars(one.call)
            if count and chars > _MOST_CHARS:
                break
            count += 1
        lines[line] = waiting[count:]
        for one in waiting[:count]:
            one.begun = True
        # A task of its own: one that asked and is cancelled must not take the others with it.
        task = asyncio.create_task(self._together(lines, line, waiting[:count]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _together(self, lines: dict[Line, list[_Waiting]], line: Line, waiting: list[_Waiting]) -> None:
        joined = _join([one.call for one in waiting])
        try:
            answer = await self._run(joined)
        except asyncio.CancelledError:  # the loop ends
            for one in waiting:
                one.done.cancel()
            raise
        except Exception as error:  # noqa: BLE001  (each of them raises it)
            for one in waiting:
                one.done.set_exception(error)
        else:
            for one in waiting:
                one.done.set_result(_part(one.call, joined, answer))
        finally:
            self._next(lines, line)
