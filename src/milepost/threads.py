"""Waiting, in an event loop, for work in a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["outcome"]

R = TypeVar("R")


async def outcome(job: Future[R]) -> R:
    """Wait for work in a thread; when cancelled, end no sooner than the work, unless it has not begun.

    Work that has begun cannot be stopped. If its end were not awaited, it could take effect after a later call.

    Args:
        job: The work.

    Returns:
        What the work returned.
    """
    done = asyncio.wrap_future(job)
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            if job.cancel():
                raise
            cancelled = error
    if cancelled is not None:
        if not done.cancelled():
            done.exception()  # else the loop complains that nobody looked at it
        raise cancelled
    return done.result()
