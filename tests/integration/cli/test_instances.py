"""Task instances through the command line (SPEC 4.2; S-19, S-22, S-23)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from milepost import Store, TaskScope
from tests.integration.cli.conftest import ONE, Cli

MAPPED = [TaskScope("d", "r", "mapped", index) for index in range(12)]
VERBS = {
    "get": ("get", "{}", "k"),
    "set": ("set", "{}", "k", "1"),
    "delete": ("delete", "{}", "k"),
    "clear": ("clear", "{}"),
    "list": ("list", "{}"),
    "restore": ("restore", "{}"),
    "restore --list": ("restore", "--list", "{}"),
}


def command(verb: str, *scope: str) -> list[str]:
    """Return the arguments of a verb on a task instance."""
    return ["task-store", *(part for word in VERBS[verb] for part in (scope if word == "{}" else (word,)))]


@pytest.fixture
def mapped(store: Store) -> Store:
    """The store with a mapped task of twelve instances that all hold ``k``."""
    for scope in MAPPED:
        store.task_store(scope).set("k", scope.map_index)
    return store


def holders(store: Store) -> list[int]:
    """Return the map indices that still hold ``k``."""
    return [scope.map_index for scope in MAPPED if "k" in store.task_store(scope)]


@pytest.mark.parametrize("verb", VERBS)
def test_s23_every_verb_refuses_an_unknown_instance(cli: Cli, mapped: Store, verb: str) -> None:
    """S-23: an unknown task, run or map index is exit 4 for every verb, names what is there, and records nothing."""
    cli(*command(verb, "d", "r", "maped"), code=4)
    cli(*command(verb, "d", "other", "mapped"), code=4)
    cli(*command(verb, "d", "r", "mapped", "--map-index", "12"), code=4)
    assert len(mapped.instances.list()) == 12
    assert holders(mapped) == list(range(12))


def test_the_message_names_the_indices_that_are_there(cli: Cli, mapped: Store) -> None:
    """Whoever forgets --map-index on a mapped task is told which indices there are."""
    assert "map indices there: 0, 1, 2" in cli("task-store", "get", "d", "r", "mapped", "k", code=4).err


def test_create_records_the_instance(cli: Cli, store: Store) -> None:
    """`set --create` records an unknown instance in state none, which the other verbs then know."""
    cli("task-store", "set", *ONE, "k", "1", code=4)
    cli("task-store", "set", *ONE, "k", "1", "--create")
    record = store.instances.get(TaskScope(*ONE))
    assert record is not None
    assert (record.state, record.attempt) == ("none", 0)
    cli("task-store", "delete", *ONE, "k")


def test_s23_only_the_index_that_is_named(cli: Cli, mapped: Store) -> None:
    """S-23: delete and clear at index 1 leave 10 and 11 alone."""
    cli("task-store", "delete", "d", "r", "mapped", "k", "--map-index", "1")
    cli("task-store", "clear", "d", "r", "mapped", "--map-index", "2")
    assert holders(mapped) == [0, *range(3, 12)]


def test_s23_clear_all_works_on_an_expanded_task(cli: Cli, mapped: Store) -> None:
    """S-23: `clear --all-map-indices` works where index -1 is not recorded, and leaves other tasks and runs alone."""
    others = [TaskScope("d", "r", "mapped2", 1), TaskScope("d", "r2", "mapped", 1)]
    for scope in others:
        mapped.task_store(scope).set("k", 1)
    cli("task-store", "clear", "d", "r", "mapped", code=4)
    cli("task-store", "clear", "d", "r", "mapped", "--all-map-indices")
    assert holders(mapped) == []
    assert all("k" in mapped.task_store(scope) for scope in others)
    cli("task-store", "clear", "d", "r", "unknown", "--all-map-indices", code=4)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "restore --list"])
@pytest.mark.parametrize(("index", "code"), [("-2", 3), (str(2**31), 3), (str(2**63), 3), ("x", 2), ("1.0", 2), ("", 2)])
def test_s23_silly_map_indices_are_refused(cli: Cli, mapped: Store, verb: str, index: str, code: int) -> None:
    """S-23: an index out of range is exit 3, one that is no number exit 2; both messages name it."""
    assert index in cli(*command(verb, "d", "r", "mapped", "--map-index", index), code=code).err
    assert holders(mapped) == list(range(12))


def test_s22_a_clear_starts_over_and_can_be_undone(cli: Cli, store: Store) -> None:
    """S-22: `runs clear` archives the state and makes the attempt stale; `restore` brings the state back."""
    attempt = store.instances.open(TaskScope(*ONE), 1)["task_store"]
    attempt.set("job", "j-1")
    assert cli("runs", "clear", *ONE).out == "1 task instance cleared\n"
    cli("task-store", "get", *ONE, "job", code=4)
    (archive,) = cli("task-store", "restore", *ONE, "--list", "--json").json
    assert (archive["cause"], archive["keys"]) == ("clear", ["job"])
    assert "job" in cli("task-store", "restore", *ONE, "--list").out
    assert cli("task-store", "restore", *ONE).out == "1 key restored\n"
    assert cli("task-store", "get", *ONE, "job").json == "j-1"


def test_s22_a_clear_may_keep_the_state(cli: Cli, mapped: Store) -> None:
    """S-22: `runs clear --keep-state` leaves the keys; without it, at one map index, only that one goes."""
    cli("runs", "clear", "d", "r", "mapped", "--keep-state")
    assert holders(mapped) == list(range(12))
    cli("runs", "clear", "d", "r", "mapped", "--map-index", "3")
    assert holders(mapped) == [index for index in range(12) if index != 3]
    cli("runs", "clear", "d", "r", "mapped", "--map-index", "12", code=4)


def test_s22_another_item_never_sees_the_old_state(cli: Cli, store: Store) -> None:
    """S-22: after a kept clear, a position that holds another item starts empty, and its old keys can be listed."""
    scope = TaskScope("d", "r", "t", 0)
    store.instances.open(scope, 1, item={"x": "a"})["task_store"].set("job", "a-1")
    cli("runs", "clear", "d", "r", "t", "--keep-state")
    store.instances.open(scope, 2, item={"x": "z"})
    assert cli("task-store", "list", *ONE, "--map-index", "0", "--json").json == []
    (archive,) = cli("task-store", "restore", *ONE, "--map-index", "0", "--list", "--json").json
    assert archive["cause"] == "item_changed"


def test_restore_asks_before_it_overwrites(cli: Cli, task: Any) -> None:
    """`restore` over live keys is exit 5 without --force; an archive that is not there is exit 4."""
    task.set("k", "old")
    cli("task-store", "clear", *ONE)
    task.set("k", "new")
    assert "force" in cli("task-store", "restore", *ONE, code=5).err
    assert task.get("k") == "new"
    assert cli("task-store", "restore", *ONE, "--force", "--json").json == {"restored": 1}
    assert task.get("k") == "old"
    cli("task-store", "restore", *ONE, "--archive", "999", code=4)
    assert "'x'" in cli("task-store", "restore", *ONE, "--archive", "x", code=2).err


def test_what_was_deleted_here_can_be_restored(cli: Cli, task: Any) -> None:
    """A delete at the command line is logged and can be undone, beside other live keys."""
    task.set_many({"k": 1, "other": 2})
    cli("task-store", "delete", *ONE, "k")
    cli("task-store", "restore", *ONE)
    assert task.items() == [("k", 1), ("other", 2)]
    cli("task-store", "delete", *ONE, "absent")


@pytest.mark.parametrize("text", ["0s", "-5m", "5", "1.5h", "6 h", "h", "10y", "999999999999d", ""])
def test_a_bad_retention_is_refused(cli: Cli, task: Any, text: str) -> None:
    """A retention that is no positive time up to the year 9999 is exit 3, and nothing is written."""
    cli("task-store", "set", *ONE, "k", "1", f"--retention={text}", code=3)
    assert task.keys() == []


def test_retention_is_as_asked_for(cli: Cli, task: Any) -> None:
    """`--retention` takes a sum of times, never and default; each set decides anew."""
    for text, length in (("90s", 90), ("1d12h", 36 * 3600), ("never", None), ("default", None)):
        cli("task-store", "set", *ONE, "k", "1", "--retention", text)
        entry = task.entry("k")
        lasting = None if entry.expires_at is None else (entry.expires_at - entry.updated_at).total_seconds()
        assert (lasting, entry.never_expires) == (length, text == "never")


def test_s19_an_expired_key_is_absent(cli: Cli, store: Store, task: Any) -> None:
    """S-19: before any collection an expired key is absent for get, list and delete, and set creates it anew."""
    task.set("k", 1, retention=timedelta(microseconds=1))
    cli("task-store", "get", *ONE, "k", code=4)
    cli("task-store", "get", *ONE, "k", "--json", code=4)
    assert cli("task-store", "list", *ONE, "--json").json == []
    cli("task-store", "set", *ONE, "k", "2", "--if-version", "absent")
    cli("clean")
    assert cli("task-store", "get", *ONE, "k").json == 2


def test_a_run_without_a_runner_stands_as_its_instances_do(store: Store, cli: Cli) -> None:
    """`runs show` of a run that plain Python works on counts the states of its instances, also after their end."""
    store.task_store(TaskScope("cron", "r", "load")).set("k", 1)
    assert "cron r: no attempts, recorded" in cli("runs", "show", "cron", "r").out
    for task, state in (("load", "success"), ("check", "success"), ("send", "failed")):
        scope = TaskScope("cron", "r", task)
        store.instances.finish(scope, store.instances.open(scope)["attempt"], state)
    assert "cron r: 2 success, 1 failed, recorded" in cli("runs", "show", "cron", "r").out
    store.instances.open(TaskScope("plain", "r", "t"), 1, incarnation="7")
    listed = [re.split(" {2,}", line)[:3] for line in cli("runs", "list").out.splitlines()[1:]]
    assert listed == [["plain", "r", "kept by Airflow"], ["cron", "r", "-"]]
    store.instances.clear(TaskScope("cron", "r", "send"))
    assert "cron r: cleared, and no runner has taken it since" in cli("runs", "show", "cron", "r").out
