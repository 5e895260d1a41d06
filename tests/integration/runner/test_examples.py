"""The examples of the runner do what they say."""

from __future__ import annotations

import shutil
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_hello(project):
    """The retry of the example greets the rest, and nobody twice."""
    shutil.copy(EXAMPLES / "hello.py", project.folder)
    outcome = project.run(name="hello.py")
    assert outcome.code == 0, outcome.err
    greeted = [line.partition("] ")[2] for line in outcome.out.splitlines() if "Hello" in line]
    assert greeted == ["Hello, Ada!", "Hello, Grace!", "Hello, Katherine!", "Hello, Margaret!"]
    assert "ConnectionError: the line went dead" in outcome.err
