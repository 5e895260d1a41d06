"""What the REST API has beyond Airflow's: versions, pages, history, archives, runs, assets, roles."""

from __future__ import annotations

import json
from typing import Any

import pytest

from milepost import AssetStoreAccessor, Store, TaskScope, TaskStoreAccessor
from tests.integration.rest.conftest import Ask, Cli, Site, path_of
from tests.support.servers import wait_until
from tests.support.serving import SECRET

# -- versions ------------------------------------------------------------------------------------------------------------


def test_entity_tags_are_versions(ask: Ask, task: TaskStoreAccessor) -> None:
    """GET, PUT and PATCH tell the version; a GET of what one has is 304."""
    put = ask("PUT", path_of(task, "k"), {"value": 1})
    assert put.headers["etag"] == f'"{task.entry("k").version}"'  # type: ignore[union-attr]
    got = ask("GET", path_of(task, "k"))
    assert (got.headers["etag"], got.body["version"]) == (put.headers["etag"], put.headers["etag"].strip('"'))
    assert ask("GET", path_of(task, "k"), If_None_Match=f'"x", W/{put.headers["etag"]}').status == 304
    patch = ask("PATCH", path_of(task, "k"), {"value": 2})
    assert patch.headers["etag"] == ask("GET", path_of(task, "k")).headers["etag"] != put.headers["etag"]


@pytest.mark.parametrize("kind", ["task", "asset"])
def test_conditions(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor, kind: str) -> None:
    """A write whose condition does not hold is 412 and changes nothing; where it holds, it is done."""
    owner = task if kind == "task" else asset
    path = path_of(owner, "k")
    one = {"value": 1}
    assert ask("PUT", path, one, If_Match="*").status == 412
    assert ask("PUT", path, one, If_Match='"x"').status == 412
    assert ask("DELETE", path, If_Match="*").status == 412
    assert ask("PATCH", path, one, If_Match='"x"').status == 412
    assert ask("PUT", path, one, If_None_Match="*").status == 204
    tag = ask("GET", path).headers["etag"]
    for method in ("PUT", "PATCH", "DELETE"):
        body = None if method == "DELETE" else {"value": 2}
        for condition in ({"If_Match": '"x"'}, {"If_Match": 'W/"x", ""'}, {"If_None_Match": "*"}):
            assert ask(method, path, body, **condition).status == 412
    assert owner.get("k") == 1
    assert ask("PUT", path, {"value": 3}, If_Match=f'"x", {tag}').status == 204
    weak = f"W/{ask('GET', path).headers['etag']}"  # as proxies that compress make it
    assert ask("PUT", path, {"value": 3}, If_Match=weak).status == 204
    assert ask("PUT", path, {"value": 3}, If_Match=weak).status == 412
    assert ask("PATCH", path, {"value": 4}, If_Match="*").status == 200
    assert ask("DELETE", path, If_Match=ask("GET", path).headers["etag"]).status == 204
    assert "k" not in owner


@pytest.mark.parametrize(
    "headers", [{"If_Match": "x"}, {"If_None_Match": '"x"'}, {"If_Match": "*", "If_None_Match": "*"}, {"If_Match": ""}]
)
def test_conditions_that_cannot_be_read(ask: Ask, task: TaskStoreAccessor, headers: Any) -> None:
    """A condition that is not understood is refused, and not taken for none."""
    assert ask("PUT", path_of(task, "k"), {"value": 1}, **headers).status == 422
    assert "k" not in task


def test_conditions_are_in_the_document(site: Site) -> None:
    """Clients that are generated from the OpenAPI document can say what they expect to find, at each edit of a key."""
    paths = json.loads(site.server.get("/api/v2/openapi.json")[1])["paths"]
    told = {
        (path.endswith("{key}"), method)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if {"If-Match", "If-None-Match"} <= {one["name"] for one in operation.get("parameters", ())}
    }
    assert told == {(True, "put"), (True, "patch"), (True, "delete"), (False, "put"), (False, "patch")}


def test_a_clear_takes_no_condition(ask: Ask, task: TaskStoreAccessor) -> None:
    """Versions are those of single keys, so a clear that names one is refused."""
    task.set("k", 1)
    assert ask("DELETE", path_of(task), If_Match='"x"').status == 422
    assert task.get("k") == 1


# -- lists ---------------------------------------------------------------------------------------------------------------


def pages(ask: Ask, path: str, name: str) -> list[Any]:
    """Return all rows of a list, page by page."""
    rows: list[Any] = []
    cursor = ""
    while True:
        answer = ask("GET", f"{path}{cursor}")
        assert answer.status == 200, answer
        rows += answer.body[name]
        if answer.body["next_cursor"] is None:
            return rows
        cursor = f"&cursor={answer.body['next_cursor']}"


def test_lists_are_paged(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor) -> None:
    """Cursors lead through all keys, offsets too; prefixes select; a cursor of another list is refused."""
    keys = sorted(f"k{number}" for number in range(12))
    for owner, name in ((task, "task_state_store"), (asset, "asset_state_store")):
        owner.set_many({**dict.fromkeys(keys, 1), "other": 2})
        base = path_of(owner)
        assert [row["key"] for row in pages(ask, f"{base}?limit=4&prefix=k", name)] == keys
        third = ask("GET", f"{base}?limit=4&offset=8").body
        assert ([row["key"] for row in third[name]], third["total_entries"]) == (keys[8:12], 13)
        assert ask("GET", f"{base}?limit=0").body["total_entries"] == 13
        assert "total_entries" not in ask("GET", f"{base}?count=false").body
        for query in ("cursor=x", "cursor=WzFd", "cursor=W10&offset=1", "limit=-1", "offset=-1", f"offset={2**70}"):
            assert ask("GET", f"{base}?{query}").status == 422, query


def test_several_map_indices_in_one_list(ask: Ask, store: Store, scope: TaskScope) -> None:
    """One list has the keys of all instances of a task, or of some, each with its map index."""
    for index in range(4):
        store.task_store(TaskScope(scope.dag_id, scope.run_id, scope.task_id, index)).set_many({"a": index, "b": 0})
    base = path_of(scope)
    rows = pages(ask, f"{base}?all_map_indices=true&limit=3", "task_state_store")
    assert [(row["map_index"], row["key"]) for row in rows] == [(index, key) for index in range(4) for key in "ab"]
    some = ask("GET", f"{base}?map_indices=3&map_indices=1").body["task_state_store"]
    assert [(row["map_index"], row["value"]) for row in some] == [(1, 1), (1, 0), (3, 3), (3, 0)]
    assert ask("GET", f"{base}?map_indices=9").status == 404


def test_a_damaged_row_is_marked(ask: Ask, site: Site, store: Store, task: TaskStoreAccessor) -> None:
    """A list shows the good keys and marks the bad one, whose GET is 409; it can be overwritten."""
    import sqlite3

    task.set_many({"a": 1, "bad": 2, "c": 3})
    scope = task.scope
    assert isinstance(scope, TaskScope)
    connection = sqlite3.connect(site.store_url.removeprefix("sqlite:///"), timeout=30)
    with connection:
        owner = "SELECT id FROM instances WHERE hash = ?"
        connection.execute(f"UPDATE entries SET value = '{{' WHERE key = 'bad' AND owner_id = ({owner})", (scope.hash,))
    connection.close()
    rows = ask("GET", path_of(task)).body["task_state_store"]
    assert [(row["key"], row["value"], row["damaged"] is None) for row in rows] == [
        ("a", 1, True),
        ("bad", None, False),
        ("c", 3, True),
    ]
    answer = ask("GET", path_of(task, "bad"))
    assert (answer.status, answer.body["error"]) == (409, "DamagedEntryError")
    assert ask("PUT", path_of(task, "bad"), {"value": 5}).status == 204
    assert dict(task.items()) == {"a": 1, "bad": 5, "c": 3}


def test_damage_around_the_rows(ask: Ask, site: Site, store: Store, asset: AssetStoreAccessor, cli: Cli) -> None:
    """A damaged version in a history, time in the store, or record of a token: each is marked or refused, nothing is 5xx."""
    import sqlite3

    asset.set("k", 1)
    asset.set("k", 2)
    made = store.tokens.create("damaged", role="viewer").token
    connection = sqlite3.connect(site.store_url.removeprefix("sqlite:///"), timeout=30)
    number = asset.scope.asset_id  # type: ignore[union-attr]
    try:
        with connection:
            connection.execute("UPDATE changes SET version = x'00' WHERE owner_id = ? AND version IS NOT NULL", (number,))
            connection.execute("UPDATE tokens SET role = 'king', created_at = 'x' WHERE name = 'damaged'")
            connection.execute("UPDATE entries SET updated_at = 'x' WHERE owner_id = ?", (number,))
        (past,) = ask("GET", f"{path_of(asset)}-history?key=k").body["history"]
        assert (past["version"], past["value"]["reason"]) == ("", "its version cannot be read")
        assert ask("GET", "/stats").body["newest"] is None
        answer = ask("GET", "/token", token=made)
        assert (answer.status, "is damaged" in answer.body["message"]) == (401, True)
        assert "DAMAGED: role" in cli("tokens", "list")
        assert store.tokens.revoke("damaged").revoked_at is not None
    finally:
        with connection:
            connection.execute("UPDATE entries SET updated_at = 0 WHERE owner_id = ?", (number,))
        connection.close()


# -- history, archives ---------------------------------------------------------------------------------------------------


def test_history_and_rollback(ask: Ask, asset: AssetStoreAccessor) -> None:
    """Who moved a watermark when can be seen, and an earlier value be made current again, by whoever's token it is."""
    for day in ("01", "02", "03"):
        ask("PUT", path_of(asset, "w"), {"value": f"2024-06-{day}"})
    base = path_of(asset)
    found = ask("GET", f"{base}-history?key=w").body["history"]
    assert [(one["value"], one["cause"], one["replaced_by"]["user"]) for one in found] == [
        ("2024-06-02", "set", "editor"),
        ("2024-06-01", "set", "editor"),
    ]
    back = {"key": "w", "version": found[1]["version"]}
    assert ask("POST", f"{base}-rollback", back, token="admin").status == 200
    assert asset.get("w") == "2024-06-01"
    assert str(asset.entry("w").writer) == "api (admin)"  # type: ignore[union-attr]
    assert ask("POST", f"{base}-rollback", {**back, "version": "x"}).status == 404
    assert ask("POST", f"{base}-rollback", {"key": "w"}).status == 422


@pytest.mark.parametrize("kind", ["task", "asset"])
def test_clears_can_be_restored(ask: Ask, task: TaskStoreAccessor, asset: AssetStoreAccessor, kind: str) -> None:
    """What a clear through the API took is archived under the user, and comes back."""
    owner = task if kind == "task" else asset
    base = path_of(owner)
    owner.set_many({"a": 1, "b": 2})
    ask("DELETE", base)
    found = ask("GET", f"{base}-archives").body["archives"]
    assert (found[0]["keys"], found[0]["writer"]["user"]) == (["a", "b"], "editor")
    owner.set("a", 3)
    assert ask("POST", f"{base}-restore", {"archive": found[0]["id"]}).status == 409
    assert ask("POST", f"{base}-restore", {"archive": 10**9}).status == 404
    assert ask("POST", f"{base}-restore", {"archive": "x"}).status == 422
    assert ask("POST", f"{base}-restore", {"archive": found[0]["id"], "force": True}).body == {"restored": 2}
    assert owner.items() == [("a", 1), ("b", 2)]


# -- runs, instances, assets ---------------------------------------------------------------------------------------------


def test_runs_and_instances(ask: Ask, store: Store, scope: TaskScope) -> None:
    """Runs and their instances are listed page by page, shown, cleared and deleted."""
    for run_id in ("a1", "a2", "b1"):
        store.instances.open(TaskScope(scope.dag_id, run_id, "t"), 1)["task_store"].set("k", 1)
    for index in range(3):
        store.task_store(TaskScope(scope.dag_id, "b1", "m", index)).set("k", index)
    runs = f"/dags/{scope.dag_id}/dagRuns"
    assert [run["run_id"] for run in pages(ask, f"{runs}?limit=2", "dag_runs")] == ["b1", "a2", "a1"]
    assert [run["run_id"] for run in ask("GET", f"{runs}?prefix=a").body["dag_runs"]] == ["a2", "a1"]
    assert ask("GET", "/dags/~/dagRuns?limit=1").body["dag_runs"][0]["run_id"] == "b1"
    assert ask("GET", f"{runs}/a1").body["run_id"] == "a1"
    assert ask("GET", f"{runs}/typo").status == 404
    assert ask("GET", f"{runs}/typo/taskInstances").status == 404
    rows = pages(ask, f"{runs}/b1/taskInstances?limit=2", "task_instances")
    assert [(row["scope"]["task_id"], row["scope"]["map_index"], row["state"]) for row in rows] == [
        ("m", 0, "none"),
        ("m", 1, "none"),
        ("m", 2, "none"),
        ("t", -1, "running"),
    ]
    running = ask("GET", f"{runs}/b1/taskInstances?state=running&task_id=t").body["task_instances"]
    assert [row["scope"]["task_id"] for row in running] == ["t"]
    one = f"{runs}/b1/taskInstances/t"
    assert ask("GET", one).body["attempt"] == 1
    assert ask("POST", f"{one}/clear", {}, token="admin").body == {"instances": 1}
    assert ask("GET", one).body["state"] == "cleared"
    assert ask("POST", f"{runs}/b1/clear", {"keep": True}, token="admin").body == {"instances": 4}
    assert store.task_store(TaskScope(scope.dag_id, "b1", "m", 1)).get("k") == 1
    assert ask("DELETE", f"{runs}/b1", token="admin").status == 204
    assert ask("DELETE", f"{runs}/b1", token="admin").status == 404
    assert store.runs.get(scope.dag_id, "b1") is None


def test_states_that_there_are_none_of(ask: Ask, scope: TaskScope, store: Store) -> None:
    """A list filtered by a state that does not exist is 422 and names those that do; none of it is an empty list."""
    store.instances.open(scope, 1)
    runs = f"/dags/{scope.dag_id}/dagRuns"
    for path, known in ((runs, "failed"), (f"{runs}/{scope.run_id}/taskInstances", "cleared")):
        for state in ("Failed", "upstream_failed", ""):
            refused = ask("GET", f"{path}?state={state}")
            assert (refused.status, f"'{known}'" in refused.body["message"]) == (422, True), (path, state)
        assert ask("GET", f"{path}?state=failed").status == 200


def test_parameters_of_a_run(site: Site, ask: Ask, scope: TaskScope, store: Store) -> None:
    """The parameters of a run are JSON in the answer, as they were given, type by type; the document names its fields."""
    params = '{"big":1267650600228229401496703205376,"f":1.0,"z":-0.0,"t":"1","o":{"b":null,"a":[true,{}]},"u":"é\\u0000"}'
    store.runs.begin(scope.dag_id, "with", holder="me", ttl=9, params=params)
    store.runs.begin(scope.dag_id, "without", holder="me", ttl=9)
    runs = f"/dags/{scope.dag_id}/dagRuns"
    assert f'"params":{params},' in ask("GET", f"{runs}/with").text
    listed = ask("GET", runs).body["dag_runs"]
    assert [run["params"] for run in listed] == [None, json.loads(params)]
    paths = json.loads(site.server.get("/api/v2/openapi.json")[1])["paths"]
    schema = paths["/dags/{dag_id}/dagRuns/{dag_run_id}"]["get"]["responses"]["200"]
    assert list(schema["content"]["application/json"]["schema"]["properties"]) == list(listed[0])


def test_assets(ask: Ask, asset: AssetStoreAccessor) -> None:
    """Assets are found, shown, deactivated and activated; a deactivated one reads as empty and takes no writes."""
    name, number = asset.scope.name, asset.scope.asset_id  # type: ignore[union-attr]
    asset.set("k", 1)
    found = ask("GET", f"/assets?prefix={name}").body
    assert ([one["id"] for one in found["assets"]], found["total_entries"]) == ([number], 1)
    assert ask("GET", f"/assets/{number}").body["name"] == name
    every = pages(ask, "/assets?limit=2&count=false", "assets")
    assert [one["id"] for one in every] == sorted(one["id"] for one in every)
    assert number in [one["id"] for one in every]
    for query in ("cursor=x", "cursor=WyJhIl0", "cursor=WzFd&offset=1", "dag_id=", "limit=-1", "prefix=%00"):
        assert ask("GET", f"/assets?{query}").status == 422, query
    assert ask("POST", f"/assets/{number}/deactivate", token="admin").body["active"] is False
    assert number in [one["id"] for one in ask("GET", "/assets?active=false").body["assets"]]
    assert ask("GET", path_of(asset, "k")).status == 404
    assert ask("GET", path_of(asset)).body["asset_state_store"] == []
    assert ask("PUT", path_of(asset, "k"), {"value": 2}).status == 409
    assert ask("POST", f"/assets/{number}/activate?verb=deactivate", token="admin").status == 422
    assert ask("POST", f"/assets/{number}/activate", token="admin").body["active"] is True
    assert asset.get("k") == 1
    for path, status in (("/assets/0", 404), ("/assets/x", 422), (f"/assets/{2**63}", 404), ("/assets/999999", 404)):
        assert ask("GET", path).status == status


def test_numbers_of_the_store(ask: Ask, task: TaskStoreAccessor) -> None:
    """The store tells how much it holds."""
    task.set("k", 1)
    assert ask("GET", "/stats").body["entries"] >= 1


# -- who may do what -----------------------------------------------------------------------------------------------------


def operations(site: Site) -> list[tuple[str, str]]:
    """Return path and method of every route."""
    status, text = site.server.get("/api/v2/openapi.json")
    assert status == 200
    return [(path, method.upper()) for path, methods in json.loads(text)["paths"].items() for method in methods]


def test_every_route_needs_a_token(site: Site, ask: Ask) -> None:
    """Without a token, with another credential, or with one that was never made, every route is 401, loopback or not."""
    found = operations(site)
    assert len(found) > 25
    for path, method in [*found, ("/nothing", "GET")]:
        for token in (None, SECRET, "milepost_x"):
            answer = ask(method, path.replace("{", "").replace("}", ""), None, token=token)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert ask("GET", "/stats", token=None, Authorization="Basic eDp5").status == 401


def test_methods_that_a_path_does_not_have(site: Site, ask: Ask) -> None:
    """A method that a path does not have is 405 and names those that it has; nothing is done."""
    by_path: dict[str, set[str]] = {}
    for path, method in operations(site):
        by_path.setdefault(path, set()).add(method)
    for path, methods in by_path.items():
        for method in {"GET", "PUT", "PATCH", "DELETE", "POST", "HEAD", "OPTIONS", "TRACE"} - methods:
            answer = ask(method, path.replace("{", "").replace("}", ""), None, token="admin")
            assert (answer.status, answer.headers["allow"]) == (405, ", ".join(sorted(methods))), (path, method)


ADMIN = {"DELETE /dags/{dag_id}/dagRuns/{dag_run_id}", "/clear", "/activate", "/deactivate"}


def test_roles(site: Site, ask: Ask) -> None:
    """A viewer reads, an editor edits keys, an admin does the rest; below the role it is 403, whatever the path names."""
    for path, method in operations(site):
        admin = any(f"{method} {path}" == one or path.endswith(one) for one in ADMIN)
        least = 2 if admin else 0 if method == "GET" else 1
        for number, role in enumerate(("viewer", "editor", "admin")):
            answer = ask(method, path.replace("{", "").replace("}", ""), {}, token=role)
            assert (answer.status == 403) == (number < least), (method, path, role, answer)


def test_tokens_on_the_command_line(ask: Ask, cli: Cli) -> None:
    """A token of `tokens create` opens the API at once; revoked, it opens nothing within seconds, in every process."""

    def run(*arguments: str) -> Any:
        return json.loads(cli("tokens", *arguments, "--json"))

    made = run("create", "from the shell", "--role", "viewer")
    assert ask("GET", "/token", token=made["token"]).body["name"] == "from the shell"
    listed = {one["name"]: one for one in run("list")}
    assert listed["from the shell"]["last_used_at"] is not None
    assert made["token"] not in json.dumps(listed)
    assert run("revoke", "from the shell")["revoked_at"] is not None
    wait_until(lambda: ask("GET", "/token", token=made["token"]).status == 401, "the token goes on to open the API")


def test_logs_hold_no_token(site: Site, ask: Ask, task: TaskStoreAccessor) -> None:
    """What the server logs and stores has no token in it."""
    ask("PUT", path_of(task, "k"), {"value": "a-value-of-a-test"})
    ask("PUT", path_of(task, "k"), b"{")
    files = [path.read_bytes() for path in site.folder.glob("store.db*")]
    for token in site.tokens.values():
        assert token not in "".join(site.server.lines)
        assert not any(token.encode() in content for content in files)
    assert "a-value-of-a-test" not in "".join(site.server.lines)
