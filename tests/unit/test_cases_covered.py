"""Every case that the library alone decides is covered by a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent.parent
EVERYWHERE = {1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26}
"""Cases that every metastore must pass: the contract suite has them. Those left out need HTTP, Airflow or object storage."""
SOMEWHERE = EVERYWHERE | {13, 14}
"""Also cases that are about processes."""
OVER_HTTP = {2, 4, 5, 6, 7, 10, 16, 18, 20, 23, 26, 27}
"""Cases that are about one of the two APIs of the server."""
STORES = {"store", "make", "task", "asset", "accessor"}
"""Fixtures that run a test on every metastore."""


def named_tests(folder: Path) -> Iterator[tuple[str, set[str]]]:
    """Return name and docstring of each test, and the fixtures it asks for."""
    for path in folder.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{node.name}\n{ast.get_docstring(node)}", {argument.arg for argument in node.args.args}


def cases(text: str) -> set[int]:
    """Return the numbers of the cases that a text names."""
    return {int(number) for number in re.findall(r"(?:\bS-|_s)(\d\d)(?!\d)", text)}


def test_cases_of_every_metastore_are_in_the_contract_suite() -> None:
    """Each case that needs no server, no Airflow and no object storage has a test that runs on every metastore."""
    named: set[int] = set()
    for text, fixtures in named_tests(TESTS / "contract"):
        if fixtures & STORES:
            named |= cases(text)
    assert EVERYWHERE - named == set()


def test_cases_of_processes_have_a_test() -> None:
    """The cases about several processes and kills have a test somewhere."""
    named = set().union(*(cases(text) for text, _ in named_tests(TESTS)))
    assert SOMEWHERE - named == set()


def test_cases_of_the_server_have_a_test_over_http() -> None:
    """The cases about the APIs of the server have a test that makes requests of it."""
    folders = [TESTS / "integration" / "rest", TESTS / "integration" / "server"]
    named = set().union(*(cases(text) for folder in folders for text, _ in named_tests(folder)))
    assert OVER_HTTP - named == set()
