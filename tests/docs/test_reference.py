"""The reference is complete, and as the code is."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

import milepost
import milepost.runner
import milepost.sdk
from milepost import errors
from milepost.config import SECTIONS
from tests.docs.pages import DOCS, PAGES


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The program that writes the generated pages."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented(module: str) -> set[str]:
    """Return the names of a module that have a place on the page of the Python API."""
    text = (DOCS / "reference/api.rst").read_text(encoding="utf-8")
    automatic = re.findall(rf"^\.\. auto\w+:: {re.escape(module)}\.(\w+)$", text, re.MULTILINE)
    prefix = "" if module == "milepost.sdk" else re.escape(f"{module}.")
    own = re.findall(rf"^\.\. py:data:: {prefix}(\w+)$", text, re.MULTILINE)
    assert len(automatic) == len(set(automatic))
    return {*automatic, *own}


def test_generated_pages_are_up_to_date(generate: ModuleType) -> None:
    """`python docs/generate.py` would change nothing."""
    written = {path: (DOCS / path).read_text(encoding="utf-8") for path in generate.PAGES}
    assert written == generate.render()


def test_every_option_is_documented() -> None:
    """Each option of the configuration has a row."""
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference/options.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [name for options in SECTIONS.values() for name in options]


def test_every_command_is_documented(generate: ModuleType) -> None:
    """Each command of the command line has a section, and says what it does."""
    heads = re.findall(r"^#+ `(milepost.*)`$", (DOCS / "reference/cli.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads == [name for name, _ in generate.commands()]
    assert [name for name, command in generate.commands() if not command.help] == []


def test_every_public_name_is_documented() -> None:
    """Each name that `milepost` exports is on the page of the Python API, and no other."""
    assert documented("milepost") == set(milepost.__all__)


def test_every_name_for_dag_files_is_documented() -> None:
    """Each name that `milepost.sdk` exports is on the page; what it shares with `milepost` is there once."""
    shared = {"NEVER_EXPIRE", "NOT_FOUND", "Asset", "AssetAlias", "JobDecision", "ResumableJobMixin"}
    assert documented("milepost.sdk") | shared == set(milepost.sdk.__all__)


def test_every_name_of_the_runner_is_documented() -> None:
    """Each name that `milepost.runner` exports is on the page."""
    assert documented("milepost.runner") == set(milepost.runner.__all__)


def test_every_error_is_exported() -> None:
    """Each error class is public and has a row with its exit code."""
    rows = re.findall(r"^\| `(\w+Error)` \|", (DOCS / "reference/errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == errors.__all__
    assert set(errors.__all__) <= set(milepost.__all__)


def test_commands_in_prose_exist(generate: ModuleType) -> None:
    """Every `milepost …` command that a page names is one that there is."""
    names = {name for name, _ in generate.commands()}
    planned = {"milepost watch"}
    for page in PAGES:
        for words in re.findall(r"(?:`|^\$ )(milepost(?: [a-z][a-z-]*)+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            parts = words.split()
            known = any(" ".join(parts[:count]) in names for count in range(len(parts), 1, -1))
            assert known or words in planned, f"{page.name} names {words!r}"
            groups = {name for name in names if any(other.startswith(f"{name} ") for other in names)}
            longest = next((part for n in range(len(parts), 1, -1) if (part := " ".join(parts[:n])) in names), words)
            assert longest not in groups or longest == words, f"{page.name} names {words!r}"


def test_every_example_is_shown() -> None:
    """Each example has a place in the documentation."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"\{literalinclude\} \S*/examples/(\w+\.py)", text))
    # `make demo` runs these two, and the README shows it.
    assert {path.name for path in (DOCS.parent / "examples").glob("*.py")} - shown <= {"demo.py", "flights.py", "hello.py"}
