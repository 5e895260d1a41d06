"""Services that run jobs, in this process: what they know of tokens differs, and they can lose requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost import NOT_FOUND

__all__ = ["LostError", "Service"]


class LostError(Exception):
    """A request or its answer was lost."""


class Service:
    """Another system that runs jobs.

    Args:
        deduplicates: Whether a token that it has seen leads to the job that it made then.
        ids: Gives the ids of jobs in their order.
    """

    def __init__(self, *, deduplicates: bool = True, ids: Callable[[int], Any] = lambda number: f"j{number}") -> None:
        self.deduplicates = deduplicates
        self.ids = ids
        self.jobs: dict[Any, str] = {}
        self.tokens: list[tuple[str, Any]] = []
        self.lose: list[str] = []
        self.asked = 0

    def submit(self, token: str) -> Any:
        """Run a job; the id that it got."""
        fault = self.lose.pop(0) if self.lose else None
        if fault == "request":
            raise LostError(fault)
        job = self._known(token) if self.deduplicates else NOT_FOUND
        if job is NOT_FOUND:
            job = self.ids(len(self.jobs) + 1)
            self.jobs[job] = "active"
            self.tokens.append((token, job))
        if fault == "answer":
            raise LostError(fault)
        return job

    def _known(self, token: str) -> Any:
        return next((job for known, job in self.tokens if known == token), NOT_FOUND)

    def find(self, token: str) -> Any:
        """Search by token."""
        self.asked += 1
        if "find" in self.lose:
            self.lose.remove("find")
            raise LostError("find")
        return self._known(token)

    def status(self, job: Any) -> str:
        """Tell how a job stands."""
        return self.jobs.get(job, "gone")

    async def asubmit(self, token: str) -> Any:
        """As `submit`."""
        return self.submit(token)

    async def afind(self, token: str) -> Any:
        """As `find`."""
        return self.find(token)

    async def astatus(self, job: Any) -> str:
        """As `status`."""
        return self.status(job)
