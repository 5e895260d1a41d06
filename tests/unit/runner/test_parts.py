"""Small parts of the runner: the holder's name, progress as text, lines out of a pipe."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from milepost.runner.holder import own_name, surely_dead
from milepost.runner.process import Lines
from milepost.runner.progress import Display, Row


def test_own_process_lives():
    """The process that asks is not dead, and two runners in it have two names."""
    assert surely_dead(own_name()) is False
    assert own_name() != own_name()


def test_ended_process_is_dead():
    """A runner whose process has ended is known to be dead."""
    code = "from milepost.runner.holder import own_name; print(own_name())"
    name = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert surely_dead(name) is True


def test_reused_process_number_is_dead():
    """A process that has the number but started at another time is another one."""
    host, pid, _ = own_name().rsplit("/", 2)
    assert surely_dead(f"{host}/{pid}/12345-abcd") is True


@pytest.mark.parametrize("name", ["elsewhere.example/1/2-3", "", "x", "a/b/c"])
def test_unknown_process_is_not_surely_dead(name):
    """Nothing is known of a process on another host, or of a name that is not ours."""
    assert surely_dead(name) is False


def test_lines_are_cut_wherever_the_pipe_is():
    """Lines come out whole however they were written, the last one without an end too."""
    shown: list[str] = []
    reading, writing = os.pipe()
    lines = Lines(reading, shown.append)
    assert lines.pump() is True
    for part in (b"one\ntw", b"o\n\nth", b"ree \xff"):
        os.write(writing, part)
        lines.pump()
    assert shown == ["one", "two", ""]
    os.close(writing)
    assert lines.pump() is False
    lines.close()
    assert shown == ["one", "two", "", "three \ufffd"]


def test_attempt_starts_light():
    """The process of an attempt loads nothing on its way to the task that it may not need."""
    heavy = {"asyncio", "subprocess", "selectors", "rich", "typer", "traceback", "decimal", "uuid", "zoneinfo"}
    code = f"import sys, milepost.runner.attempt; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_summary_of_a_wide_task(capsys):
    """Of a widely mapped task the summary lists failures one by one, and counts the others."""
    rows = [Row("w", index, "failed" if index == 7 else "success", 1, 0.5, None) for index in range(30)]
    head = {"dag_id": "d", "run_id": "r", "state": "failed"}
    Display(as_json=False).summary(head, [*rows, Row("z", -1, "upstream_failed", 0, None, None)])
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "task state attempts duration",
        "w: 29 instances success",
        "w[7] failed 1 0.50 s",
        "z upstream_failed 0",
        "run r of DAG d: failed",
    ]


def test_summary_without_rows(capsys):
    """Where nothing is recorded of any task instance, the summary is one line, and no empty table."""
    Display(as_json=False).summary({"dag_id": "d", "run_id": "r", "state": "success"}, [])
    assert capsys.readouterr().out == "run r of DAG d: success\n"
