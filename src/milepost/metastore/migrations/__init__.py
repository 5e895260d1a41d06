"""Numbered plain-SQL migrations per dialect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["Migration", "migrations"]


class Migration(NamedTuple):
    """One step of the schema.

    Args:
        version: Its number, counted from 1.
        name: What it does.
        sql: The statements, separated by semicolons at line ends.
    """

    version: int
    name: str
    sql: str

    @property
    def statements(self) -> list[str]:
        """The single statements, without comments."""
        bare = re.sub(r"^\s*--.*$", "", self.sql, flags=re.MULTILINE)
        return [part.strip() for part in re.split(r";\s*$", bare, flags=re.MULTILINE) if part.strip()]


def migrations(dialect: str) -> list[Migration]:
    """Read the migrations of a dialect.

    Returns:
        In order; their numbers are 1, 2, 3, ….

    Raises:
        ValueError: A number is missing or there twice.
    """
    found = []
    for path in sorted((Path(__file__).parent / dialect).glob("*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    if [step.version for step in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {dialect} are not numbered 1, 2, 3, …")
    return found
