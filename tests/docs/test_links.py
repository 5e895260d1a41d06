"""Links between files lead somewhere. The build of the pages checks the rest (`make docs`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT

FILES = [*PAGES, *sorted(ROOT.glob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", FILES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """A relative link names a file that is there, and a heading in it."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_contents() -> None:
    """A page that no table of contents names cannot be found."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    listed = {line for tree in trees for line in tree.split("\n") if line and not line.startswith(":")}
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in [*PAGES, *DOCS.rglob("*.rst")]}
    assert listed == pages - {"index", "README"}
