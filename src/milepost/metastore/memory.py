"""The metastore in memory, for tests and for state that need not outlive the process.

It is the SQLite metastore on a private database in memory rather than a second implementation, so it cannot drift:
whatever is true of one is true of the other, but that nothing is kept and that a fork has no access.
"""

from __future__ import annotations

from milepost.abc import Policy
from milepost.clock import Clock
from milepost.metastore.sql import SqliteMetastore

__all__ = ["MemoryMetastore"]


class MemoryMetastore(SqliteMetastore):
    """Everything in this process, gone when it closes.

    Args:
        clock: The time.
        policy: Settings that operations obey.
        direct: Whether to use the direct paths of `SqliteMetastore`.

    .. versionadded:: 0.1
    """

    def __init__(self, *, clock: Clock, policy: Policy, direct: bool = True) -> None:
        super().__init__(None, clock=clock, policy=policy, direct=direct)
