"""What went wrong in calls that are tried again: for whoever does not wait for their end."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["failures", "note"]

failures: ContextVar[list[BaseException] | None] = ContextVar("failures", default=None)
"""Where failures are noted; `None`: nowhere."""


def note(error: BaseException) -> None:
    """Note the failure of a try that is followed by another one."""
    if (noted := failures.get()) is not None:
        noted.append(error)
