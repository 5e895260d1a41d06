"""Values through the command line come back as they were (SPEC 3; S-03, S-07, S-08, S-10)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from milepost import connect
from milepost.scopes import TaskScope
from tests.conftest import Require
from tests.integration.cli.conftest import ONE, PROGRAM, Cli

TEXTS = ["1.2.3", "007", "true", "null", "  padded  ", "2025-10-14T00:00:00+00:00", "line1\nline2", "-", '"q"', "é漢👍", ""]
"""Strings that look like something else (S-03)."""


@pytest.mark.parametrize("text", [text for text in TEXTS if text != "-"])
def test_s03_a_string_stays_as_it_is(cli: Cli, task: Any, text: str) -> None:
    """S-03: `--string` stores the text as it is, byte for byte, and `get --string` prints it so, before a line end."""
    cli("task-store", "set", *ONE, "k", "--string", text)
    assert task.get("k") == text
    assert cli("task-store", "get", *ONE, "k", "--string").out == f"{text}\n"
    assert cli("task-store", "get", *ONE, "k").json == text


def test_s03_strings_stay_when_other_keys_go(cli: Cli, task: Any) -> None:
    """S-03: saving a string again unchanged, and deleting another key, leave every string byte-identical."""
    for number, text in enumerate(TEXTS):
        task.set(f"k{number}", text)
    again = cli("task-store", "get", *ONE, "k4", "--string").out.removesuffix("\n")
    cli("task-store", "set", *ONE, "k4", "--string", again)
    cli("task-store", "delete", *ONE, "k0")
    assert [value for _, value in sorted(task.items(), key=lambda pair: int(pair[0][1:]))] == TEXTS[1:]


def test_s03_json_output_can_be_piped(cli: Cli, task: Any) -> None:
    """S-03: what `--json` prints is read by `python -m json.tool`."""
    task.set("k", "2025-10-14T00:00:00+00:00")
    for command in (("task-store", "list", *ONE), ("task-store", "get", *ONE, "k"), ("runs", "list"), ("db", "stats")):
        printed = cli(*command, "--json").out
        subprocess.run([sys.executable, "-m", "json.tool"], input=printed, text=True, check=True, capture_output=True)


def test_s03_a_bare_null_is_refused(cli: Cli, task: Any) -> None:
    """S-03: JSON null is refused with one plain line, and the old value stays."""
    task.set("k", "old")
    assert "None" in cli("task-store", "set", *ONE, "k", "null", code=3).err
    assert task.get("k") == "old"
    cli("task-store", "set", *ONE, "k", "--string", "null")
    assert task.get("k") == "null"


@pytest.mark.parametrize("text", ["1.2.3", "hello", "{'a': 1}", "NaN", "1e400", '{"a": 1, "a": 2}', "", "\ufeff1", "[1,]"])
def test_what_is_not_json_is_refused(cli: Cli, task: Any, text: str) -> None:
    """A VALUE that is not strict JSON is refused with exit 3 and changes nothing; nobody guesses a type."""
    task.set("k", "old")
    cli("task-store", "set", *ONE, "k", text, code=3)
    assert task.get("k") == "old"


def test_values_and_types_survive_the_command_line(cli: Cli, task: Any) -> None:
    """S-01, S-08: falsy values, big integers, 1 and 1.0, -0.0, key order and nested null come back as they were."""
    values = [0, 0.0, -0.0, False, "", [], {}, 2**53 + 1, 2**63, -(2**63) - 1, 2**70, 1.0, {"b": 1, "a": [None]}]
    for value in values:
        cli("task-store", "set", *ONE, "k", json.dumps(value))
        printed = cli("task-store", "get", *ONE, "k").json
        assert repr(task.get("k")) == repr(printed) == repr(value)


@pytest.mark.parametrize("number", ["-5", "-1.5e3", "-0.0"])
def test_a_negative_number_is_a_value(cli: Cli, task: Any, number: str) -> None:
    """A VALUE that starts with a minus is no option, with and without `--`."""
    cli("task-store", "set", *ONE, "k", number)
    assert repr(task.get("k")) == repr(json.loads(number))
    cli("task-store", "set", *ONE, "other", "--", number)
    assert repr(task.get("other")) == repr(json.loads(number))


def test_a_dash_reads_standard_input(cli: Cli, task: Any) -> None:
    """`-` reads the value from standard input: JSON, or with --string the text with its line ends."""
    cli("task-store", "set", *ONE, "k", "-", given='{"a": [1, 2]}\n')
    assert task.get("k") == {"a": [1, 2]}
    cli("task-store", "set", *ONE, "k", "-", "--string", given="line1\nline2\n")
    assert task.get("k") == "line1\nline2\n"
    for bad in (b"\xff", b'"\xff"', b"", b"null"):
        cli("task-store", "set", *ONE, "k", "-", given=bad, code=3)
    cli("task-store", "set", *ONE, "k", "-", "--string", given=b"\xff", code=3)
    assert task.get("k") == "line1\nline2\n"


def test_s07_characters_that_some_databases_refuse(cli: Cli, task: Any) -> None:
    """S-07: an escaped U+0000 round-trips; a lone surrogate, escaped or as a byte that is no UTF-8, is refused."""
    cli("task-store", "set", *ONE, "k", r'{"k\u0000": "a\u0000b"}')
    assert task.get("k") == {"k\0": "a\0b"}
    assert cli("task-store", "get", *ONE, "k").json == {"k\0": "a\0b"}
    for bad in (r'"\ud83d"', r'["\udce9.csv"]', b'"\xe9.csv"'):
        assert "surrogate" in cli("task-store", "set", *ONE, "k", bad, code=3).err
    assert "surrogate" in cli("task-store", "set", *ONE, "k", "--string", b"\xe9.csv", code=3).err
    assert task.get("k") == {"k\0": "a\0b"}


def test_s10_the_size_limit_counts_bytes(cli: Cli, task: Any) -> None:
    """S-10: 65,536 bytes of JSON are stored whole; one more, or 30,000 CJK characters, is refused and named."""
    cli("task-store", "set", *ONE, "k", "-", "--string", given="x" * 65_534)
    assert cli("task-store", "get", *ONE, "k", "--string").out == "x" * 65_534 + "\n"
    said = cli("task-store", "set", *ONE, "k", "-", "--string", given="x" * 65_535, code=3).err
    assert "65,537" in said
    assert "65,536" in said
    assert "90,002" in cli("task-store", "set", *ONE, "k", "-", "--string", given="漢" * 30_000, code=3).err
    assert task.get("k") == "x" * 65_534
    big = "y" * 2**20
    cli("task-store", "set", *ONE, "k", "-", "--string", given=big, env={"MILEPOST__STATE_STORE__MAX_VALUE_BYTES": "0"})
    assert task.get("k") == big


def test_get_string_needs_a_string(cli: Cli, task: Any) -> None:
    """`get --string` of a value that is no string is refused rather than turned into one."""
    task.set("k", 7)
    assert "int" in cli("task-store", "get", *ONE, "k", "--string", code=3).err


def test_a_locale_without_utf8_changes_nothing(cli: Cli, task: Any) -> None:
    """Arguments, input and output are UTF-8 whatever the locale says."""
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for number, env in enumerate(({"LC_ALL": "C"}, plain, {"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1"})):
        cli("task-store", "set", *ONE, f"é{number}", '"漢"', env=env)
        assert task.get(f"é{number}") == "漢"
        assert cli("task-store", "get", *ONE, f"é{number}", env=env).out == '"漢"\n'
        assert f"é{number}" in cli("task-store", "list", *ONE, env=env).out


def test_a_reader_that_leaves_is_no_error_to_shout_about(cli: Cli, task: Any) -> None:
    """`milepost … | head -1` ends without a word on standard error."""
    task.set_many({f"key{number:05}": "x" * 90 for number in range(5_000)})
    done = subprocess.run(
        ["sh", "-c", '"$@" | head -1', "sh", *PROGRAM, "task-store", "list", *ONE],
        capture_output=True,
        env=cli.environment,
        timeout=60,
    )
    assert (done.stdout.split(), done.stderr) == ([b"KEY", b"VALUE"], b"")


def test_output_that_cannot_be_written_is_an_error(cli: Cli, task: Any, require: Require) -> None:
    """A full disk behind standard output gives one line and a code that is not 0."""
    require("/dev/full", Path("/dev/full").exists())
    task.set("k", 1)
    command = ["sh", "-c", '"$@" > /dev/full', "sh", *PROGRAM, "task-store", "list", *ONE]
    done = subprocess.run(command, capture_output=True, env=cli.environment, timeout=60, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith("milepost: ")
    assert done.stderr.count("\n") == 1


def test_the_entry_has_all_that_is_known(cli: Cli) -> None:
    """`get --json` prints value, version, times with offset, expiry and writer."""
    cli("task-store", "set", *ONE, "k", "12", "--create", "--retention", "6h")
    entry = cli("task-store", "get", *ONE, "k", "--json").json
    with connect(cli.url) as store:
        stored = store.task_store(TaskScope(*ONE)).entry("k")
    assert stored is not None
    assert entry["value"] == 12
    assert entry["version"] == stored.version
    assert entry["expires_at"] == stored.expires_at.isoformat()
    assert (entry["never_expires"], entry["writer"]["kind"]) == (False, "cli")
