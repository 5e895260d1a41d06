"""What the pages show is what happens."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks, pattern

PATIENCE = 60  # seconds
KNOWN_MARKS = re.compile(r"(fragment|file: [\w.]+)?")


class Folder:
    """A folder in which the blocks of one page are run.

    Args:
        path: The folder, empty.
        page: The page.
    """

    def __init__(self, path: Path, page: Path) -> None:
        self.path = path
        self.page = page
        shutil.copytree(ROOT / "examples", path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"MILEPOST_HOME": str(path), "PATH": programs, "COLUMNS": "200", "TZ": "UTC"}

    def run(self, block: Block) -> None:
        """Do with a block what its language and its mark say."""
        if block.mark == "fragment":
            return
        if block.mark.startswith("file: "):
            (self.path / block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            self._python(block)
        elif block.kind == "console":
            self._console(block)

    def _python(self, block: Block) -> None:
        program = self.path / f"line_{block.line}.py"
        program.write_text(block.text, encoding="utf-8")
        self._do([sys.executable, "-W", "error", program.name], block.line, check=True)

    def _console(self, block: Block) -> None:
        for told in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = told.partition("\n")
            printed = self._do(["sh", "-c", command], block.line)
            assert re.fullmatch(pattern(shown), printed), f"{self.page}: $ {command}\nprints\n{printed}\nand not\n{shown}"

    def _do(self, command: list[str], line: int, *, check: bool = False) -> str:
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, f"{self.page}, line {line}:\n{done.stdout}"
        return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_of_a_page_do_what_it_shows(page: Path, tmp_path: Path) -> None:
    """Python blocks run, and commands print what stands below them."""
    folder = Folder(tmp_path, page)
    for block in blocks(page):
        folder.run(block)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_python_of_the_pages_at_the_root_runs(name: str, tmp_path: Path) -> None:
    """Python blocks outside of the docs folder run as well."""
    folder = Folder(tmp_path, ROOT / name)
    for block in blocks(ROOT / name):
        if block.kind == "python":
            folder.run(block)


def test_marks_are_known() -> None:
    """A mistyped mark does not switch a block off unseen."""
    marks = {(page.name, block.mark) for page in PAGES for block in blocks(page) if not KNOWN_MARKS.fullmatch(block.mark)}
    assert marks == set()


def test_wrong_output_is_noticed() -> None:
    """The comparison takes other times and durations, and nothing else."""
    shown = "04:38:06 load: success after 0.16 s\npage  10\n"
    assert re.fullmatch(pattern(shown), "23:00:01 load: success after 12.00 s\npage    10\n")
    assert not re.fullmatch(pattern(shown), "23:00:01 load: failed after 12.00 s\npage    10\n")
    assert not re.fullmatch(pattern(shown), "23:00:01 load: success after 12.00 s\npage    11\n")
    assert not re.fullmatch(pattern(shown), "23:00:01 load: success after 12.00 s\npage    10\nmore\n")
