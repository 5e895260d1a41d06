"""The error tree."""

from __future__ import annotations

import builtins
import pickle
import re
from typing import Any

import pytest

from milepost import errors

CLASSES = {name: getattr(errors, name) for name in errors.__all__}


def drawn() -> list[tuple[str, str | None, str | None]]:
    """Return (name, parent, builtin parent) of every class in the drawing of the module's docstring."""
    found: list[tuple[str, str | None, str | None]] = []
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+Error)(?: \((\w+)\))?(?:  |$)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        del above[depth:]
        found.append((match[2], above[-1] if above else None, match[3]))
        above.append(match[2])
    return found


def test_the_tree_is_as_drawn() -> None:
    """The docstring draws every class under its parent, with the built-in that it also is."""
    tree = drawn()
    assert sorted(name for name, _, _ in tree) == sorted(errors.__all__)
    for name, parent, builtin in tree:
        bases = [base for base in CLASSES[name].__bases__ if base is not Exception]
        expected = [CLASSES[parent]] if parent else []
        expected += [getattr(builtins, builtin)] if builtin else []
        assert bases == expected, name


def example(cls: type[Exception]) -> Exception:
    """Return an instance of an error class."""
    arguments: dict[str, tuple[Any, ...]] = {"ValueTooLargeError": (70_000, 65_536), "DamagedEntryError": ("k", "why")}
    return cls(*arguments.get(cls.__name__, ("a 'plain' message\nof two lines",)))


@pytest.mark.parametrize("name", errors.__all__)
def test_errors_are_picklable_and_plain(name: str) -> None:
    """Every error survives pickling with type, message and attributes, and its text is the message, not a repr of it."""
    error = example(CLASSES[name])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
    if name not in ("ValueTooLargeError", "DamagedEntryError"):
        assert str(error) == "a 'plain' message\nof two lines"
    assert issubclass(CLASSES[name], errors.MilepostError)
    assert CLASSES[name].__doc__


def test_messages_are_built_from_their_parts() -> None:
    """The errors with parts name them, and the way out."""
    assert str(errors.ValueTooLargeError(70_000, 65_536)).startswith(
        "the value has 70,000 bytes as JSON and the limit is 65,536"
    )
    assert "'k'" in str(errors.DamagedEntryError("k", "cut off"))
    assert "cut off" in str(errors.DamagedEntryError("k", "cut off"))
    assert str(errors.NotFoundError()) == ""


def test_names_are_sorted_and_complete() -> None:
    """`__all__` is sorted and has every class of the module."""
    assert errors.__all__ == sorted(errors.__all__)
    own = [name for name, thing in vars(errors).items() if isinstance(thing, type) and thing.__module__ == errors.__name__]
    assert sorted(own) == errors.__all__


def test_a_value_that_is_too_large_tells_what_works_today() -> None:
    """The message has the way out that is planned, and those that there are."""
    text = str(errors.ValueTooLargeError(70_000, 65_536))
    assert "[workers] state_backend" in text
    assert text.endswith(
        "until there is one: raise max_value_bytes, or keep the payload elsewhere and store its path or URL"
    )
