"""The pages of the documentation, taken apart into the blocks that tests run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

__all__ = ["DOCS", "PAGES", "ROOT", "Block", "blocks", "pattern"]

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "build" not in path.parts)

_FENCE = re.compile(r"^(?:<!-- (?P<mark>.*?) -->\n)?```(?P<kind>[a-z]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from run to run, and what stands for it.
_VARYING = (
    (r"\d{4}\\?-\d\d\\?-\d\d\\? \d\d:\d\d:\d\d\\?[+-]\d\d:\d\d", r"\\S+ \\S+"),
    (r"\d\d:\d\d:\d\d", r"\\d\\d:\\d\\d:\\d\\d"),
    (r"\d+\\\.\d\d\\ s", r"\\d+\\.\\d\\d\\ s"),
    (r"job\\ \d+", r"job\\ \\d+"),
)


class Block(NamedTuple):
    """One fenced block.

    Args:
        kind: The language.
        text: What is in it.
        mark: The comment on the line above, or an empty text.
        line: The line where it begins, from 1.
    """

    kind: str
    text: str
    mark: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page that name a language."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["kind"], found["text"], found["mark"] or "", text.count("\n", 0, found.start("kind")) + 1)
        for found in _FENCE.finditer(text)
    ]


def pattern(shown: str) -> str:
    """Return the regular expression for output as a page shows it."""
    lines = []
    for line in shown.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        head, dots, _ = line.partition("...")
        escaped = re.escape(head)
        for found, stands_for in _VARYING:
            escaped = re.sub(found, stands_for, escaped)
        # Columns move with what is in them.
        lines.append(re.sub(r"(?:\\ ){2,}", r"\\ +", escaped) + (".*" if dots else "") + r"\n")
    return "".join(lines)
