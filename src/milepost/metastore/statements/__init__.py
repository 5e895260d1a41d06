"""SQL as data: named statements in files, one folder per dialect.

A statement begins with a line ``-- name(parameters)``; its answer is rows. That of ``-- name!(parameters)`` is the number
of rows that it changed or found as they should be, that of ``-- name+(parameters)`` the number of the row it inserted. The
comment lines that follow say what it is for. Parameters are written ``:name``; ``:now`` needs no declaration, the engine
supplies the time.

A statement for many rows marks the part to repeat, ``VALUES {(…)}``, and declares what differs from row to row before a
bar: ``-- name!(key, text | owner)``.

``-- name!(parameters) > other`` runs the statement ``other`` for each row that this one finds; the answer is how many rows
it changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["BATCH", "Statement", "Statements"]

Placeholder = Callable[[int, str], str]

BATCH = 20
"""Rows in one step of a statement for many rows. It halves the time per row; more than that gains little."""

_HEAD = re.compile(r"^-- (\w+)([!+]?)\(([^)]*)\)(?: > (\w+))?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_REPEATED = re.compile(r"\{(.*)\}", re.DOTALL)


class Statement(NamedTuple):
    """One statement of one dialect.

    Args:
        name: What operations call it.
        text: The SQL with the dialect's placeholders.
        many: The same for `BATCH` rows: the parameters of each row one after the other, then those that rows share.
            Empty where no part repeats.
        parameters: Names of the parameters, in the order in which operations give them.
        used: Positions of the parameters (the time behind the declared ones) in the order in which ``text`` uses them, for
            drivers that know no numbers in placeholders.
        many_used: The same for ``many``.
        answer: ``rows``, ``count`` or ``number``.
        timed: Whether it needs the time as one parameter more.
        each: The statement to run for each row that this one finds, if any.
    """

    name: str
    text: str
    many: str
    parameters: tuple[str, ...]
    used: tuple[int, ...]
    many_used: tuple[int, ...]
    answer: str
    timed: bool
    each: str | None = None


class Statements(Mapping[str, Statement]):
    """The statements of one dialect by name. Each is parsed when it is first asked for: a process needs a few of them.

    Args:
        dialect: The name of the folder.
        placeholder: Gives the text for a parameter from its position, counted from 0, and its name; the position of
            ``now`` is behind the declared ones.

    Raises:
        ValueError: A file is malformed: two statements of one name; or, where it is asked for, an undeclared parameter.
    """

    def __init__(self, dialect: str, placeholder: Placeholder) -> None:
        self._placeholder = placeholder
        self._sources: dict[str, tuple[str, ...]] = {}
        self._parsed: dict[str, Statement] = {}
        for path in sorted((Path(__file__).parent / dialect).glob("*.sql")):
            # What stands before the first statement, and then for each its name, mark, parameters, other, and lines.
            _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
            for source in zip(*[iter(parts)] * 5, strict=True):
                if source[0] in self._sources:
                    raise ValueError(f"{path.name}: statement {source[0]} is there twice")
                self._sources[source[0]] = source

    def __getitem__(self, name: str) -> Statement:
        found = self._parsed.get(name)
        if found is None:
            found = self._parsed[name] = _parse(self._sources[name], self._placeholder)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def _parse(source: tuple[str, ...], placeholder: Placeholder) -> Statement:
    name, mark, declared, other, lines = source
    sql = "\n".join(line for line in lines.splitlines() if line and not line.startswith("--"))
    answer = {"": "rows", "!": "count", "+": "number"}[mark]
    each, shared = (tuple(re.findall(r"\w+", part)) for part in declared.rpartition("|")[::2])
    used: set[str] = set()
    order: list[int] = []

    def fill(part: str, row: int, rows: int) -> str:
        positions = {parameter: row * len(each) + index for index, parameter in enumerate(each)}
        positions |= {parameter: rows * len(each) + index for index, parameter in enumerate((*shared, "now"))}

        def replace(match: re.Match[str]) -> str:
            used.add(match[1])
            if match[1] not in positions:
                raise ValueError(f"statement {name} uses :{match[1]} without declaring it")
            order.append(positions[match[1]])
            return placeholder(positions[match[1]], match[1])

        return _PARAMETER.sub(replace, part)

    def text(rows: int) -> str:
        order.clear()
        before, *repeated = _REPEATED.split(sql)
        if not repeated:
            return fill(before, 0, rows)
        values = ",\n".join(fill(repeated[0], row, rows) for row in range(rows))
        return fill(before, 0, rows) + values + fill(repeated[1], 0, rows)

    one, one_order = text(1), tuple(order)
    if unused := {*each, *shared} - used:
        raise ValueError(f"statement {name} declares {sorted(unused)} and does not use it")
    many, many_order = (text(BATCH), tuple(order)) if each else ("", ())
    timed = "now" in used
    return Statement(name, one, many, (*each, *shared), one_order, many_order, answer=answer, timed=timed, each=other)
