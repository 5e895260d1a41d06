"""The cases of SPEC section 12's list that need HTTP, at the REST door."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from milepost import AssetStoreAccessor, Store, TaskScope, TaskStoreAccessor, connect
from milepost.values import decode, encode
from tests.integration.rest.conftest import Ask, Cli, Site, path_of
from tests.support.serving import SECRET

# -- S-01, S-02, S-08, S-10: values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0", "0.0", "false", '""', "[]", "{}", "-0.0", "1.0", str(2**70), '{"b":1,"a":null}'])
def test_s01_s08_values_keep_their_type(ask: Ask, task: TaskStoreAccessor, text: str) -> None:
    """S-01, S-08: a value comes back, from the key and from the list, as the text that it is; falsy ones are values."""
    assert ask("PUT", path_of(task, "k"), f'{{"value": {text}}}'.encode()).status == 204
    assert f'"value":{text},' in ask("GET", path_of(task, "k")).text
    assert f'"value":{text},' in ask("GET", path_of(task)).text
    assert encode(task.get("k")) == text


def test_s02_one_value_at_every_door(site: Site, ask: Ask, cli: Cli, task: TaskStoreAccessor) -> None:
    """S-02: what one of SDK, execution API, PUT, PATCH and CLI writes, each of the others reads, type included."""
    values = [42, "42", "hello", '"quoted"', {"a": "1"}, True]
    scope = task.scope
    assert isinstance(scope, TaskScope)
    with connect(site.url, secret=SECRET) as remote:
        behind = remote.task_store(scope)

        def by_cli(key: str, value: Any) -> None:
            cli("task-store", "set", scope.dag_id, scope.run_id, scope.task_id, key, json.dumps(value))

        def by_patch(key: str, value: Any) -> None:
            task.set(key, "before")
            assert ask("PATCH", path_of(task, key), {"value": value}).status == 200

        def by_put(key: str, value: Any) -> None:
            assert ask("PUT", path_of(task, key), {"value": value}).status == 204

        writers: dict[str, Callable[[str, Any], None]] = {
            "sdk": task.set,
            "execution": behind.set,
            "put": by_put,
            "patch": by_patch,
            "cli": by_cli,
        }
        for (name, write), (number, value) in itertools.product(writers.items(), enumerate(values)):
            write(f"{name}-{number}", value)
        seen = {
            "sdk": dict(task.items()),
            "execution": dict(behind.items()),
            "list": {one["key"]: one["value"] for one in ask("GET", path_of(task)).body["task_state_store"]},
            "get": {key: ask("GET", path_of(task, key)).body["value"] for key, _ in task.items()},
            "cli": {
                one["key"]: one["value"]
                for one in json.loads(cli("task-store", "list", scope.dag_id, scope.run_id, scope.task_id, "--json"))
            },
        }
    expected = {key: values[int(key.rpartition("-")[2])] for key, _ in task.items()}
    assert len(expected) == 30
    for found in seen.values():
        assert {key: repr(value) for key, value in found.items()} == {key: repr(one) for key, one in expected.items()}


@pytest.mark.parametrize(
    "body",
    [
        b'{"value": NaN}',
        b'{"value": {"a": NaN}}',
        b'{"value": [1, Infinity]}',
        b'{"value": -1e400}',
        b'{"value": null}',
        b'{"value": 1, "value": 2}',
        b'{"value": {"a": 1, "a": 2}}',
        b'\xef\xbb\xbf{"value": 1}',
        b'{"value": "\xff"}',
        b'{"value": "\\ud83d"}',
        b'{"value": ' + b"[" * 201 + b"]" * 201 + b"}",
        b'{"value": ' + b"1" * 5000 + b"}",
        b'{"value": "' + b"x" * 65535 + b'"}',
        b'{"value": 1, "more": 2}',
        b"{}",
        b"[]",
        b"",
        b"{",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_s06_s07_s10_bad_bodies(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor, body: bytes) -> None:
    """S-06, S-07, S-10: a body that is no JSON, or a value that cannot be stored, is 422 at every verb; nothing changes."""
    task.set("k", "old")
    asset.set("k", "old")
    for owner, method in itertools.product((task, asset), ("PUT", "PATCH")):
        answer = ask(method, path_of(owner, "k"), body)
        assert answer.status == 422, answer
        assert {"error", "message", "detail"} == answer.body.keys()
        assert [sorted(one) for one in answer.body["detail"]] == [["loc", "msg", "type"]]
    assert (task.get("k"), asset.get("k")) == ("old", "old")


def test_s10_the_largest_value(ask: Ask, task: TaskStoreAccessor) -> None:
    """S-10: 65,536 bytes are taken and come back whole; what counts is UTF-8, unescaped."""
    assert ask("PUT", path_of(task, "k"), {"value": "x" * 65534}).status == 204
    assert ask("GET", path_of(task, "k")).body["value"] == "x" * 65534
    assert ask("PUT", path_of(task, "k"), {"value": "漢" * 21844}).status == 204
    assert ask("PUT", path_of(task, "k"), {"value": "漢" * 21845}).status == 422


def test_s07_nul_in_values(ask: Ask, task: TaskStoreAccessor) -> None:
    """S-07: U+0000 in a value comes back; in a key it is refused."""
    assert ask("PUT", path_of(task, "k"), {"value": "a\0b"}).status == 204
    assert ask("GET", path_of(task, "k")).body["value"] == "a\0b"
    assert ask("PUT", path_of(task, "a\0b"), {"value": 1}).status == 422


# -- S-04, S-05: keys, ids ------------------------------------------------------------------------------------------------

KEYS = [
    "a", "a/b", "/lead", "trail/", "a//b", "a%2Fb", "d#draft", "d#final", "d?x=1", "a&b=c", "50%", "a b", "a+b", ";", "é",
    "e\u0301", "k", "k ", "k\t", "line\nbreak", "👍", "a\\b", "state-store", "%2e", "...", "../x", "./x",
]  # fmt: skip


def test_s04_s05_keys_in_paths(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor) -> None:
    """S-04, S-05: every key is itself, decoded once; none meets another, deleting one leaves the rest."""
    for owner in (task, asset):
        for number, key in enumerate(KEYS):
            assert ask("PUT", path_of(owner, key), {"value": number}).status == 204, key
        assert dict(owner.items()) == {key: number for number, key in enumerate(KEYS)}
        for number, key in enumerate(KEYS):
            got = ask("GET", path_of(owner, key))
            assert (got.status, got.body["key"], got.body["value"]) == (200, key, number)
            assert ask("PATCH", path_of(owner, key), {"value": -number}).status == 200
        listed = ask("GET", f"{path_of(owner)}?limit=100").body
        entries = listed["task_state_store" if owner is task else "asset_state_store"]
        assert {one["key"]: one["value"] for one in entries} == {key: -number for number, key in enumerate(KEYS)}
        left = dict(owner.items())
        for key in KEYS:
            assert ask("DELETE", path_of(owner, key)).status == 204
            del left[key]
            assert dict(owner.items()) == left


@pytest.mark.parametrize("run_id", ["manual__2026-01-01T00:00:00.123456+00:00", "in/2026 01#1", "50%2F", "~", "é"])
def test_s05_ids_in_paths(ask: Ask, store: Store, scope: TaskScope, run_id: str) -> None:
    """S-05: ids are decoded once, and a slash in one does not part it."""
    one = TaskScope(scope.dag_id, run_id, "group.task/%")
    store.task_store(one).set("k", run_id)
    assert ask("GET", path_of(one, "k")).body["value"] == run_id
    runs = ask("GET", f"/dags/{one.dag_id}/dagRuns").body["dag_runs"]
    assert [run["run_id"] for run in runs] == [run_id]


def test_a_plus_in_a_path_is_a_plus(ask: Ask, task: TaskStoreAccessor) -> None:
    """In a path + and %2B are one, and %20 is the space; in the query + is a space."""
    task.set_many({"a+b": 1, "a b": 2})
    base = path_of(task)
    paths = ["/a+b", "/a%2Bb", "/a%20b", "?key=a+b", "?key=a%2Bb"]
    assert [ask("GET", base + path).body["value"] for path in paths] == [1, 1, 2, 2, 1]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST"])
def test_what_clients_make_of_dots_addresses_nothing(
    ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor, method: str
) -> None:
    """The paths that . and .. become are 404 for every verb, never redirected; nothing is deleted."""
    task.set("k", 1)
    asset.set("k", 1)
    for owner in (task, asset):
        base = path_of(owner)
        for path in (f"{base}/", base.removesuffix("state-store"), base.replace("/state-store", "//state-store")):
            answer = ask(method, path, None if method in ("GET", "DELETE") else {"value": 2}, token="admin")
            assert (answer.status, "location" in answer.headers) == (
                404,
                False,
            )
    assert (task.items(), asset.items()) == ([("k", 1)], [("k", 1)])


@pytest.mark.parametrize("key", [".", "..", "a/b", "%2e", " "])
def test_any_key_by_query(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor, key: str) -> None:
    """?key= addresses any key, for every verb, and only that one."""
    from urllib.parse import quote

    for owner in (task, asset):
        owner.set("other", 1)
        path = f"{path_of(owner)}?key={quote(key, safe='')}"
        assert ask("PUT", path, {"value": 1}).status == 204
        assert ask("PATCH", path, {"value": 2}).status == 200
        assert ask("GET", path).body["value"] == 2
        assert dict(owner.items()) == {key: 2, "other": 1}
        assert ask("DELETE", path).status == 204
        assert owner.items() == [("other", 1)]


@pytest.mark.parametrize(
    "query",
    ["?key=", "?kye=k", "?key", "?key=k&key=l", "?map_index=0&map_index=1", "?all_map_indices=maybe", "?key=%ff",
     "?map_index=1_0", "?map_index=%2B1", "?map_index=-1+"],
)  # fmt: skip
def test_a_query_that_is_not_understood_deletes_nothing(ask: Ask, task: TaskStoreAccessor, query: str) -> None:
    """An empty, unknown or repeated parameter is refused: a mistyped one must not make a delete a clear."""
    task.set_many({"k": 1, "l": 2})
    assert ask("DELETE", path_of(task) + query).status == 422
    assert len(task) == 2


# -- S-16: two writers ----------------------------------------------------------------------------------------------------


def test_s16c_a_request_sent_twice(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor) -> None:
    """S-16 (c): the same PUT or DELETE sent twice, because the first answer was lost, succeeds both times; one row."""
    for owner in (task, asset):
        assert [ask("PUT", path_of(owner, "k"), {"value": 1}).status for _ in range(2)] == [204, 204]
        assert owner.items() == [("k", 1)]
        assert [ask("DELETE", path_of(owner, "k")).status for _ in range(2)] == [204, 204]


# -- S-18, S-20: expiry ---------------------------------------------------------------------------------------------------


def test_s18_an_edit_keeps_the_expiry(ask: Ask, task: TaskStoreAccessor) -> None:
    """S-18: PATCH leaves the instant, never and the default as they are, and moves updated_at; an absent key is 404."""
    at = "2031-02-03T04:05:06.000789Z"
    for key, body in (("at", {"expires_at": at}), ("never", {"expires_at": None}), ("default", {})):
        ask("PUT", path_of(task, key), {"value": 1, **body})
        before = ask("GET", path_of(task, key)).body
        ask("PATCH", path_of(task, key), {"value": 2})
        after = ask("GET", path_of(task, key)).body
        kept = {"expires_at": at if key == "at" else None, "never_expires": key == "never"}
        assert after == {**before, **kept, "value": 2, "version": after["version"], "updated_at": after["updated_at"]}
        assert after["updated_at"] > before["updated_at"]
    assert ask("PATCH", path_of(task, "absent"), {"value": 2}).status == 404
    assert "absent" not in task


def test_s20_one_instant_in_three_zones(ask: Ask, task: TaskStoreAccessor) -> None:
    """S-20: instants with any offset are one, at a server far from UTC; one without is refused."""
    texts = ["2030-01-01T05:30:00+05:30", "2030-01-01T00:00:00Z", "2029-12-31T16:00:00-08:00"]
    for number, text in enumerate(texts):
        assert ask("PUT", path_of(task, str(number)), {"value": 1, "expires_at": text}).status == 204
    listed = ask("GET", path_of(task)).body["task_state_store"]
    assert [one["expires_at"] for one in listed] == ["2030-01-01T00:00:00Z"] * 3
    entries = [task.entry(str(number)) for number in range(3)]
    assert {entry.expires_at for entry in entries if entry} == {datetime(2030, 1, 1, tzinfo=timezone.utc)}


@pytest.mark.parametrize(
    "expires_at",
    ["2030-01-01T00:00:00", "2030-01-01", 1893456000, "1893456000", "never", "", [], True, "2020-01-01T00:00:00Z",
     "9999-12-31T23:59:59-08:00", "2030-13-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "2030-01-01T00:00:00+99:00"],
)  # fmt: skip
def test_s20_what_is_no_instant(ask: Ask, task: TaskStoreAccessor, expires_at: Any) -> None:
    """S-20: anything but an instant with an offset that lies ahead, null and "default" is refused."""
    task.set("k", "old")
    answer = ask("PUT", path_of(task, "k"), {"value": 1, "expires_at": expires_at})
    assert (answer.status, "expires_at" in answer.body["message"]) == (422, True)
    assert task.get("k") == "old"


def test_assets_have_no_expiry(ask: Ask, asset: AssetStoreAccessor) -> None:
    """Asset state has no time-based expiry, so the field is refused."""
    soon = (datetime.now(timezone.utc) + timedelta(hours=1)).isoformat()
    assert ask("PUT", path_of(asset, "k"), {"value": 1, "expires_at": soon}).status == 422


# -- S-23: instances ------------------------------------------------------------------------------------------------------


def test_s23_mapped_instances(ask: Ask, store: Store, scope: TaskScope) -> None:
    """S-23: an index is that instance only; a clear of -1 is 404 where only indices are; all of them are cleared at once."""
    scopes = [TaskScope(scope.dag_id, scope.run_id, scope.task_id, index) for index in range(12)]
    for one in scopes:
        store.task_store(one).set("k", 1)
    base = path_of(scope)
    assert ask("DELETE", f"{base}/k?map_index=1").status == 204
    assert [one.map_index for one in scopes if not len(store.task_store(one))] == [1]
    assert ask("DELETE", base).status == 404
    assert sum(len(store.task_store(one)) for one in scopes) == 11
    assert ask("DELETE", f"{base}?all_map_indices=true").status == 204
    assert sum(len(store.task_store(one)) for one in scopes) == 0


@pytest.mark.parametrize(
    ("method", "body"), [("GET", None), ("PUT", {"value": 1}), ("PATCH", {"value": 1}), ("DELETE", None)]
)
def test_s23_unknown_instances_and_silly_indices(
    ask: Ask, store: Store, task: TaskStoreAccessor, method: str, body: Any
) -> None:
    """S-23: an unknown task instance is 404 for every verb, nothing is recorded; an index that is none is 422."""
    scope = task.scope
    assert isinstance(scope, TaskScope)
    typo = TaskScope(scope.dag_id, scope.run_id, "typo")
    assert ask(method, path_of(typo, "k"), body).status == 404
    assert ask(method, f"{path_of(typo)}?key=k", body).status == 404
    assert ask(method, f"{path_of(scope, 'k')}?map_index=7", body).status == 404
    for index in ("-2", str(2**31), str(2**63), "x", "", "1.5"):
        assert ask(method, f"{path_of(scope, 'k')}?map_index={index}", body).status == 422
    assert [one.scope for one in store.instances.list(scope.dag_id)] == [scope]


def test_what_is_stored_is_what_is_sent(ask: Ask, task: TaskStoreAccessor) -> None:
    """An answer carries the text of the row; it is not parsed and written anew."""
    text = '{"z":[1.0,-0.0,1e-07,' + str(10**400) + '],"a":"\\u0000 é"}'
    assert ask("PUT", path_of(task, "k"), f'{{"value": {text}}}'.encode()).status == 204
    assert encode(decode(text)) in ask("GET", path_of(task, "k")).text
