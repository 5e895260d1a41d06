"""How a task's function gets its arguments and the context."""

from __future__ import annotations

import subprocess
import sys

import pytest

from milepost.sdk import get_current_context
from milepost.sdk.calling import call
from milepost.sdk.context import Context

CONTEXT = Context(ti="the ti", task_store="the store", params={"p": 1})


def test_keyword_catch_all_gets_the_context():
    """A function with **context gets every key that is not an argument of its own."""
    assert call(lambda ti, **context: (ti, sorted(context)), [], {}, CONTEXT) == ("the ti", ["params", "task_store"])


def test_named_arguments_get_their_keys():
    """Arguments named like context keys are filled, with a default or without; others keep their default."""
    assert call(lambda ti, task_store=None, other=5: (ti, task_store, other), [], {}, CONTEXT) == ("the ti", "the store", 5)


def test_given_arguments_win():
    """What the DAG file passes, by place or by name, is not replaced by the context."""
    assert call(lambda ti, params=None: (ti, params), ["mine"], {"params": 3}, CONTEXT) == ("mine", 3)


def test_unknown_context_key_names_the_known_ones():
    """A key that the context has not raises and lists those that it has."""
    with pytest.raises(KeyError, match="no 'ts'; its keys are params, task_store, ti"):
        CONTEXT["ts"]


def test_no_current_context_outside_of_a_task():
    """`get_current_context` works only while a task runs."""
    with pytest.raises(RuntimeError, match="no current context"):
        get_current_context()


def test_import_is_light():
    """Importing the SDK loads neither asyncio nor subprocess nor Rich nor Typer."""
    code = "import sys, milepost.sdk; print(sorted({'asyncio', 'subprocess', 'rich', 'typer'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
