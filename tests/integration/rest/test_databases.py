"""The REST API on PostgreSQL and MySQL, behind nginx: what can differ there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import pytest

from milepost import Asset, TaskScope, connect
from tests.integration.rest.conftest import Answer, Door, path_of
from tests.support.nginx import nginx
from tests.support.servers import Databases
from tests.support.serving import Served

ONE = TaskScope("dag", "manual__2026-01-01T00:00:00+00:00", "group.task/%")
KEYS = sorted(
    ["a", "a/b", "/lead", "trail/", "a//b", "a%2Fb", "d#x", "d?x", "50%", "a b", "a+b", "é", "k", "k ", "K", "😀", "_"]
)


@pytest.fixture(scope="module")
def before(served: Served, require: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an nginx before the server."""
    require("nginx")
    with nginx(tmp_path_factory.mktemp("nginx"), f"http://127.0.0.1:{served.port}") as port:
        yield port


@pytest.fixture(params=["postgres", "mysql"])
def door(request: pytest.FixtureRequest, databases: Databases, served: Served, before: int) -> Iterator[Door]:
    """The REST API of an empty database on a server, by way of nginx."""
    with connect(databases.get(request.param).url) as store:
        yield Door(store, before, "/" + served.add(store).rpartition("/")[2])


def test_keys_lists_and_conditions(door: Door) -> None:
    """Keys arrive decoded once, lists are in the order of code points, and versions decide, on every database."""
    store, ask = door.store, door.ask
    task = store.task_store(ONE)
    task.set("a", 0)
    for number, key in enumerate(KEYS):
        assert ask("PUT", path_of(ONE, key), {"value": number}).status == 204, key
    assert dict(task.items()) == {key: number for number, key in enumerate(KEYS)}
    listed: list[str] = []
    cursor = ""
    while cursor is not None:
        page = ask("GET", f"{path_of(ONE)}?limit=5&count=false&cursor={cursor}".removesuffix("&cursor=")).body
        listed += [one["key"] for one in page["task_state_store"]]
        cursor = page["next_cursor"]
    assert listed == KEYS
    for prefix, found in (("a/", ["a/b", "a//b"]), ("_", ["_"]), ("50%", ["50%"]), ("k", ["k", "k "])):
        page = ask("GET", f"{path_of(ONE)}?prefix={quote(prefix, safe='')}").body
        assert ([one["key"] for one in page["task_state_store"]], page["total_entries"]) == (sorted(found), len(found))
    tag = ask("GET", path_of(ONE, "é")).headers["etag"]
    assert ask("GET", path_of(ONE, "é"), If_None_Match=tag).status == 304
    assert ask("PATCH", path_of(ONE, "é"), {"value": 1}, If_Match='"x"').status == 412
    assert ask("PATCH", path_of(ONE, "é"), {"value": 1}, If_Match=tag).status == 200
    assert ask("DELETE", path_of(ONE, "é"), If_Match=tag).status == 412
    for key in KEYS:
        assert ask("DELETE", path_of(ONE, key)).status == 204
    assert task.items() == []
    (archive, *_) = ask("GET", f"{path_of(ONE)}-archives").body["archives"]
    assert ask("POST", f"{path_of(ONE)}-restore", {"archive": archive["id"]}).status == 200


def test_what_a_proxy_does_to_tags(door: Door) -> None:
    """A proxy makes tags of what it compresses weak; edits that name such a tag are decided by its version all the same."""
    door.store.task_store(ONE).set("k", "x" * 100)
    got = door.ask("GET", path_of(ONE, "k"), Accept_Encoding="gzip")
    tag = got.headers["etag"]
    assert (got.headers["content-encoding"], tag) == ("gzip", f'W/"{got.body["version"]}"')
    assert door.ask("PUT", path_of(ONE, "k"), {"value": 1}, If_Match=tag).status == 204
    assert door.ask("PUT", path_of(ONE, "k"), {"value": 2}, If_Match=tag).status == 412
    assert door.store.task_store(ONE).get("k") == 1


def test_dots_behind_a_proxy(door: Door) -> None:
    """Whatever a proxy makes of the keys . and .. in a path, no other key is deleted; ?key= addresses them."""
    plain = TaskScope("dag", "run", "task")
    task = door.store.task_store(plain)
    own = door.prefix
    for door.prefix in (own, f"/milepost{own}"):  # the second one makes paths plain
        task.set_many({".": 1, "..": 2, "k": 3})
        for dots in (".", "..", "%2e", "%2E%2E", "./", "../", "//"):
            assert door.ask("DELETE", f"{path_of(plain)}/{dots}").status in (204, 404), dots
        assert task.get("k") == 3
        task.set_many({".": 1, "..": 2})
        assert door.ask("PUT", f"{path_of(plain)}?key=..", {"value": 4}).status == 204
        assert door.ask("DELETE", f"{path_of(plain)}?key=.").status == 204
        assert dict(task.items()) == {"..": 4, "k": 3}


def test_instants_history_runs_and_assets(door: Door) -> None:
    """Instants of expiry, the history of an asset, runs and assets are the same on every database."""
    store, ask = door.store, door.ask
    task = store.task_store(ONE)
    task.set("a", 0)
    for key, text in (("k", "2031-01-01T05:30:00.000789+05:30"), ("l", "2030-12-31T16:00:00.000789-08:00")):
        assert ask("PUT", path_of(ONE, key), {"value": 1, "expires_at": text}).status == 204
        assert ask("PATCH", path_of(ONE, key), {"value": 2}).status == 200
        assert task.entry(key).expires_at == datetime(2031, 1, 1, 0, 0, 0, 789, timezone.utc)  # type: ignore[union-attr]
    assert ask("PUT", path_of(ONE, "m"), {"value": 1, "expires_at": "2020-01-01T00:00:00Z"}).status == 422
    asset = store.asset_store(Asset("team/sales", uri="s3://%_"))
    for value in (2**70, 1.0, "😀"):
        assert ask("PUT", path_of(asset, "w"), {"value": value}).status == 204
    past = ask("GET", f"{path_of(asset)}-history?key=w").body["history"]
    assert [repr(one["value"]) for one in past] == ["1.0", repr(2**70)]
    assert ask("POST", f"{path_of(asset)}-rollback", {"key": "w", "version": past[1]["version"]}).status == 200
    assert asset.get("w") == 2**70
    for prefix, count in (("s3://%", 1), ("%", 0), ("team", 1)):
        assert ask("GET", f"/assets?prefix={quote(prefix, safe='')}").body["total_entries"] == count
    assert [one["run_id"] for one in ask("GET", "/dags/~/dagRuns?prefix=manual__").body["dag_runs"]] == [ONE.run_id]
    assert ask("GET", "/dags/~/dagRuns?prefix=manual%25").body["dag_runs"] == []
    assert ask("GET", "/token", token="viewer").body["name"] == "viewer"


def edit_at_once(door: Door, count: int, **headers: str) -> list[int]:
    """Have as many threads edit one key at the same time and return their statuses, sorted."""
    together = threading.Barrier(count)
    answers: list[Answer] = []

    def edit(number: int) -> None:
        together.wait()
        answers.append(door.ask("PUT", path_of(ONE, "k"), {"value": number}, **headers))

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answer.status for answer in answers)


def test_edits_at_the_same_moment(door: Door) -> None:
    """Of edits that expect one version, or absence, one takes effect and the others are 412; without a condition all do."""
    task: Any = door.store.task_store(ONE)
    task.set("first", 0)
    for _ in range(2):
        task.delete("k")
        assert edit_at_once(door, 6, If_None_Match="*") == [204] + [412] * 5
        tag = door.ask("GET", path_of(ONE, "k")).headers["etag"]
        assert edit_at_once(door, 6, If_Match=tag) == [204] + [412] * 5
    assert edit_at_once(door, 6) == [204] * 6
