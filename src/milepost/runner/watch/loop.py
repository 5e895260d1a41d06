"""The event loop of a watch: `sys.exit` somewhere in it does not end it, nor do threads that go on keep it from ending."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["Threads", "run_loop"]

_PREFIX: Final = "milepost-to-thread"
_LOOK_SECONDS: Final = 0.02


def run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine as `asyncio.run` does, with two differences.

    `SystemExit` from a callback or from a task that a trigger made is not raised here: whoever awaits the task gets it. And
    threads of the loop are not waited for; see `Threads`.

    Args:
        main: The coroutine.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        task = loop.create_task(main)
        try:
            while True:
                try:
                    return loop.run_until_complete(task)
                except SystemExit as error:
                    if task.done():
                        raise
                    text = f"SystemExit: {error} in a task or callback of a trigger; the watch goes on"
                    loop.call_exception_handler({"message": text})
        finally:
            left = asyncio.all_tasks(loop)
            for one in left:
                one.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class Threads:
    """The threads in which triggers do what would block the loop: `asyncio.to_thread`.

    Args:
        most: How many there may be at once. A thread in which a trigger waits for long is not free for others, so there have
            to be more than triggers.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=_PREFIX)
        asyncio.get_running_loop().set_default_executor(self._pool)

    async def leave(self, seconds: float) -> int:
        """Take no more work, and wait for what is at work, for a bounded time; how many threads go on.

        What is to be done in threads afterwards, such as closing the store, is done in others.
        """
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="milepost-end"))
        self._pool.shutdown(wait=False, cancel_futures=True)
        for _ in range(round(seconds / _LOOK_SECONDS)):
            if not self._busy():
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return self._busy()

    def _busy(self) -> int:
        return sum(thread.name.startswith(_PREFIX) for thread in threading.enumerate())
