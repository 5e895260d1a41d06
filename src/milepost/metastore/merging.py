"""Writes of one attempt that wait for one another go together.

Writers of one key take turns in the database, and each turn ends with a sync. On an event loop, those that arrive while
another write of the attempt is under way are written with a single statement when it is done. Nobody is told that a value is
stored before it is. Of several values for one key the last one is stored, and nobody could have seen the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

from milepost import calls
from milepost.calls import PLAIN
from milepost.scopes import TaskScope

__all__ = ["Merger", "line_of"]

_MOST: Final = 100
"""Writes that go together at most."""
_MOST_CHARS: Final = 200_000
"""Characters of values that go together at most."""

Line = tuple[Any, ...]


def line_of(call: calls.Put) -> Line | None:
    """Return what writes have in common that may go together; `None` where a write goes alone.

    What refers to something elsewhere goes alone: the row that it overwrites has to be seen.
    """
    handle = call.handle
    if handle.instance_id is None or handle.logged or type(handle.scope) is not TaskScope:
        return None
    if any(item.encoding != PLAIN for item in call.items):
        return None
    return handle.instance_id, handle.fence, handle.running, handle.writer, call.retention


class _Waiting:
    """A write that waits for its turn."""

    def __init__(self, call: calls.Put) -> None:
        self.call = call
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.begun = False

    async def outcome(self) -> None:
        """Wait for the end of the write; when cancelled, end no sooner than a write that has begun."""
        try:
            await asyncio.shield(self.done)
        except asyncio.CancelledError:
            if not self.begun:
                self.done.cancel()
            while not self.done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([self.done])
            raise


class Merger:
    """Makes writes of one attempt go together where they would wait for one another.

    Args:
        write: Makes one write.
    """

    def __init__(self, write: Callable[[calls.Put], Awaitable[None]]) -> None:
        self._write = write
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Line, list[_Waiting]]]
        self._loops = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    async def put(self, call: calls.Put, line: Line) -> None:
        """Write at once, or with those that wait for the write that is under way."""
        lines = self._loops.setdefault(asyncio.get_running_loop(), {})
        if (waiting := lines.get(line)) is not None:
            one = _Waiting(call)
            waiting.append(one)
            await one.outcome()
            return
        lines[line] = []
        try:
            await self._write(call)
        finally:
            self._next(lines, line)

    def _next(self, lines: dict[Line, list[_Waiting]], line: Line) -> None:
        """Have those that wait written, if there are any."""
        waiting = [one for one in lines.pop(line) if not one.done.done()]
        if not waiting:
            return
        chars = count = 0
        for one in waiting[:_MOST]:
            chars += sum(len(item.text) for item in one.call.items)
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
        first = waiting[0].call
        last = {item.key: item for one in waiting for item in one.call.items}
        try:
            await self._write(calls.Put(first.handle, list(last.values()), first.retention))
        except asyncio.CancelledError:  # the loop ends
            for one in waiting:
                one.done.cancel()
            raise
        except Exception as error:  # noqa: BLE001  (each of them raises it)
            for one in waiting:
                one.done.set_exception(error)
        else:
            for one in waiting:
                one.done.set_result(None)
        finally:
            self._next(lines, line)
