"""Recorded histories of concurrent operations on one key, and the check that they are linearizable.

Every write has a version of its own and names the version that it replaces, so the successful writes form a chain, and
the chain is the only possible order. A linearization exists exactly if the real-time order agrees: no operation may
have ended before another one began that stands earlier. (A cycle of "stands earlier" and "ended before it began" would
hold a pair of the two that disagree, as the first is a total order of groups.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Operation", "violations"]


class Operation(NamedTuple):
    """When it began and ended, its kind (``read write conflict``), what it expected and what it saw or wrote."""

    begin: int
    end: int
    kind: str
    expected: Any
    version: Any


def violations(history: list[Operation], first: Any = None) -> list[str]:
    """Return what is wrong with the history of one key whose version was ``first`` before; nothing: linearizable."""
    followers: dict[Any, Operation] = {}
    for operation in history:
        if operation.kind == "write":
            if operation.expected in followers:
                return [f"two writes replaced {operation.expected}: {operation} and {followers[operation.expected]}"]
            followers[operation.expected] = operation
    places: dict[Any, int] = {first: 0}
    chain, last = [], first
    while (write := followers.pop(last, None)) is not None:
        chain.append(write)
        last = write.version
        places[last] = len(chain)
    if followers:
        return [f"writes replaced versions that never were: {list(followers.values())}"]
    # Within a group of one version, the write stands first and the reads after it.
    ordered = [((places[write.version], 0), write) for write in chain]
    for operation in history:
        if operation.kind == "read":
            if operation.version not in places:
                return [f"read a version that was never written: {operation}"]
            ordered.append(((places[operation.version], 1), operation))
    found = _out_of_order(ordered)
    for operation in history:
        if operation.kind == "conflict" and _certain(operation, chain, places):
            found.append(f"met a conflict although its version was there all the time: {operation}")
    return found


def _out_of_order(ordered: list[tuple[tuple[int, int], Operation]]) -> list[str]:
    ordered.sort(key=lambda pair: pair[0])
    found = []
    latest: tuple[tuple[int, int], Operation] | None = None  # of those that stand earlier, the one that began last
    waiting: list[tuple[tuple[int, int], Operation]] = []  # those of the same place
    for place, operation in ordered:
        if waiting and waiting[0][0] != place:
            latest = max([*waiting, *([latest] if latest else [])], key=lambda pair: pair[1].begin)
            waiting = []
        waiting.append((place, operation))
        if latest and operation.end < latest[1].begin:
            found.append(f"{operation} ended before {latest[1]} began, which stands before it")
    return found


def _certain(operation: Operation, chain: list[Operation], places: dict[Any, int]) -> bool:
    """Tell whether the version that an operation expected was the current one during all of it."""
    place = places.get(operation.expected)
    if place is None:
        return False
    written = chain[place - 1].end if place else 0
    replaced = chain[place].begin if place < len(chain) else None
    return written <= operation.begin and (replaced is None or operation.end <= replaced)
