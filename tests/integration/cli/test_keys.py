"""Keys, ids and asset names through the command line (SPEC 2; S-04, S-05, S-07, S-11, S-12)."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Asset, Store, TaskScope
from tests.integration.cli.conftest import ONE, Cli

ALIKE = [
    "a/b", "/lead", "trail/", "a//b", "a", "d#draft", "d#final", "d?x=1", "a&b=c", "50%", "a%2Fb", "a b", "a+b", ";", "é",
    "e\u0301", ".", "..", "a\nb", "👍", "🎉", "k", "k ", "k\t", "K", "*", "$HOME", "'", '"', "\\",
]  # fmt: skip
RUNS = ["manual__2026-01-01T00:00:00.123456+00:00", "in/2026 01#1"]


def test_s04_s05_keys_never_collide(cli: Cli, task: Any) -> None:
    """S-04, S-05, S-11, S-12: keys with slashes, URL characters, blanks and emoji are ordinary and distinct."""
    for number, key in enumerate(ALIKE):
        task.set(key, number)
    assert {one["key"]: one["value"] for one in cli("task-store", "list", *ONE, "--json").json} == {
        key: number for number, key in enumerate(ALIKE)
    }
    for key in ("a%2Fb", "..", "a\nb", "k ", "👍"):
        cli("task-store", "set", *ONE, key, '"new"')
        assert cli("task-store", "get", *ONE, key).json == "new"
        cli("task-store", "delete", *ONE, key)
        assert key not in task
    assert sorted(task.keys()) == sorted(set(ALIKE) - {"a%2Fb", "..", "a\nb", "k ", "👍"})


def test_a_list_shows_each_key_in_one_line(cli: Cli, task: Any) -> None:
    """The list for people escapes line ends and blanks at the edges, so that one key is one line."""
    for key in ("a\nb", "k ", "plain"):
        task.set(key, 1)
    assert cli("task-store", "list", *ONE).out == 'KEY     VALUE\n"a\\nb"  1\n"k "    1\nplain   1\n'


def test_a_key_may_start_with_a_dash(cli: Cli, task: Any) -> None:
    """Behind `--`, a key that starts with a dash is a key; without it, the message says so."""
    cli("task-store", "set", *ONE, "--", "--key", "1")
    assert task.get("--key") == 1
    assert cli("task-store", "get", *ONE, "--", "--key").json == 1
    said = cli("task-store", "get", *ONE, "--key", code=2).err
    assert "--key" in said
    assert "goes after --" in said
    cli("task-store", "delete", *ONE, "--", "--key")
    assert "--key" not in task


def test_a_job_whose_submission_was_cut_off_is_told(cli: Cli, task: Any) -> None:
    """`get` of a key without an id names the token to look for; once the key was deleted there is nothing to tell."""
    tokens: list[str] = []
    with pytest.raises(AttributeError):
        task.submit_once("job", lambda token: tokens.append(token).id)  # type: ignore[func-returns-value]
    assert f"its token is {tokens[0]}" in cli("task-store", "get", *ONE, "job", code=4).err
    cli("task-store", "delete", *ONE, "job")
    assert "token" not in cli("task-store", "get", *ONE, "job", code=4).err


@pytest.mark.parametrize("run", RUNS)
def test_s05_run_ids_are_taken_as_they_are(cli: Cli, store: Store, run: str) -> None:
    """S-05: run ids with plus, colon, slash, blank and hash address exactly one run."""
    store.task_store(TaskScope("d", run, "t")).set("k", 1)
    store.task_store(TaskScope("d", run.replace("+", " ").replace("#1", ""), "t")).set("other", 1)
    cli("task-store", "set", "d", run, "t", "k", "2")
    assert store.task_store(TaskScope("d", run, "t")).items() == [("k", 2)]
    assert cli("runs", "show", "d", run, "--json").json["run"]["run_id"] == run
    assert cli("task-store", "list", "d", run, "t", "--json").json == [{"key": "k", "value": 2}]


def test_s04_asset_names_may_have_slashes(cli: Cli, store: Store) -> None:
    """S-04: an asset is found by a name with a slash and by its URI, and look-alikes are others."""
    store.asset_store(Asset("team/sales", uri="s3://b/sales")).set("w", 1)
    store.asset_store(Asset("team")).set("w", 2)
    assert cli("asset-store", "get", "team/sales", "w").json == 1
    assert cli("asset-store", "get", "s3://b/sales", "w").json == 1
    cli("asset-store", "get", "team/sale", "w", code=4)


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_s07_bytes_that_are_no_text_are_refused_in_names(cli: Cli, task: Any, where: int) -> None:
    """S-07: a byte that is no UTF-8, in a key or an id, is refused with exit 3 and nothing is recorded."""
    names: list[str | bytes] = [*ONE, "k"]
    names[where] = b"\xff"
    assert "surrogate" in cli("task-store", "set", *names, "1", "--create", code=3).err
    assert "surrogate" in cli("task-store", "get", *names, code=3).err
    assert task.keys() == []


def test_bad_keys_are_refused(cli: Cli, task: Any) -> None:
    """An empty key and one of 513 characters are refused with exit 3; 512 characters are fine."""
    cli("task-store", "set", *ONE, "", "1", code=3)
    assert "513" in cli("task-store", "set", *ONE, "k" * 513, "1", code=3).err
    cli("task-store", "set", *ONE, "👍" * 512, "1")
    assert task.keys() == ["👍" * 512]


def test_list_takes_a_prefix_as_it_is(cli: Cli, task: Any) -> None:
    """`list --prefix` compares characters: % and _ are no patterns."""
    task.set_many({"a%": 1, "a%b": 2, "ab": 3, "a_": 4})
    assert [one["key"] for one in cli("task-store", "list", *ONE, "--prefix", "a%", "--json").json] == ["a%", "a%b"]
