"""Writers as rows hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import TaskScope, Writer

SCOPE = TaskScope("d:[a", 'r",1', "t\n", 3)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    "writer",
    [
        Writer("python"),
        Writer("cli"),
        Writer("cli", user="ada"),
        Writer("api", user="a:b:c"),
        Writer("watcher"),
        Writer.of_task(SCOPE, 7),
        Writer.of_task(TaskScope("d", "r", "t"), 1),
    ],
    ids=str,
)
def test_decode_inverts_encode(writer: Writer) -> None:
    """`decode(encode(w))` is w, with and without the row's own scope."""
    assert Writer.decode(writer.encode()) == writer
    for own in (SCOPE, TaskScope("other", "r", "t")):
        assert Writer.decode(writer.encode(own), own) == writer


@given(TEXT, TEXT, TEXT, st.integers(-1, 2**31 - 1), st.integers(1, 2**31 - 1))
def test_any_scope_round_trips(dag: str, run: str, task: str, index: int, attempt: int) -> None:
    """Whatever the ids look like, the writer of a task comes back."""
    scope = TaskScope(dag, run, task, index)
    writer = Writer.of_task(scope, attempt)
    assert Writer.decode(writer.encode()) == writer
    assert Writer.decode(writer.encode(scope), scope) == writer
    assert writer.encode(scope) == f"task:{attempt}"


@pytest.mark.parametrize("text", ["", "nobody", "task:", "task:x", "task:[1]", "task:{}", "task:5", "task:null", "TASK:1"])
def test_foreign_text_is_a_value_error(text: str) -> None:
    """A text that is none of Milepost's is ValueError."""
    with pytest.raises(ValueError, match=r"."):
        Writer.decode(text)


def test_writers_read_well() -> None:
    """A writer's text for people names kind, user, or task and attempt."""
    assert str(Writer("cli", user="ada")) == "cli (ada)"
    assert str(Writer("python")) == "python"
    assert str(Writer.of_task(TaskScope("d", "r", "t", 2), 3)) == "task d/r/t[2] attempt 3"
