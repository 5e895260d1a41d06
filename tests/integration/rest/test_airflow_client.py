"""The generated client of Airflow 3.3 works unchanged against a running server."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from milepost import Asset, AssetStoreAccessor, Store, TaskScope, TaskStoreAccessor, Writer
from tests.integration.rest.conftest import Site

with warnings.catch_warnings():  # those of the client at import are its own
    warnings.simplefilter("ignore")
    from airflow_client import client as airflow
    from airflow_client.client.models import (
        AssetStateStoreBody,
        ExpiresAt,
        TaskStateStoreBody,
        TaskStateStorePatchBody,
    )

Apis = tuple[Any, Any]


@pytest.fixture
def connect_as(site: Site) -> Iterator[Callable[[str], Apis]]:
    """Make the two APIs of the client with a token."""
    made = []

    def make(token: str) -> Apis:
        configuration = airflow.Configuration(host=site.url, access_token=site.tokens.get(token, token))
        made.append(airflow.ApiClient(configuration))
        return airflow.TaskStateStoreApi(made[-1]), airflow.AssetStateStoreApi(made[-1])

    yield make
    for one in made:
        one.rest_client.pool_manager.clear()


@pytest.fixture
def tasks(connect_as: Callable[[str], Apis]) -> Any:
    """The API of task instances, as an editor."""
    return connect_as("editor")[0]


@pytest.fixture
def assets(connect_as: Callable[[str], Apis]) -> Any:
    """The API of assets, as an editor."""
    return connect_as("editor")[1]


def ids(scope: TaskScope) -> dict[str, str]:
    """Return the arguments that name a task instance."""
    return {"dag_id": scope.dag_id, "dag_run_id": scope.run_id, "task_id": scope.task_id}


def test_set_get_list_patch_delete_and_clear(tasks: Any, scope: TaskScope, task: TaskStoreAccessor) -> None:
    """Each call of the client on task state does what it does with Airflow."""
    where = ids(scope)
    assert tasks.set_task_state_store(key="a/b", task_state_store_body=TaskStateStoreBody(value={"n": 1}), **where) is None
    assert task.get("a/b") == {"n": 1}
    got = tasks.get_task_state_store(key="a/b", **where)
    assert (got.key, got.value, got.expires_at) == ("a/b", {"n": 1}, None)
    assert got.updated_at == task.entry("a/b").updated_at  # type: ignore[union-attr]
    tasks.patch_task_state_store(key="a/b", task_state_store_patch_body=TaskStateStorePatchBody(value=[2]), **where)
    task.set("c", "x")
    listed = tasks.list_task_state_store(limit=1, offset=1, **where)
    assert (listed.total_entries, [(one.key, one.value) for one in listed.task_state_store]) == (2, [("c", "x")])
    assert [one.value for one in tasks.list_task_state_store(**where).task_state_store] == [[2], "x"]
    assert tasks.delete_task_state_store(key="a/b", **where) is None
    assert tasks.delete_task_state_store(key="a/b", **where) is None
    assert task.items() == [("c", "x")]
    assert tasks.clear_task_state_store(**where) is None
    assert task.items() == []


def test_expiry_by_instant_never_and_default(tasks: Any, scope: TaskScope, task: TaskStoreAccessor) -> None:
    """The client's three ways of expiry arrive; PATCH keeps each."""
    at = datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=timezone(timedelta(hours=-8)))
    for key, body in (
        ("at", TaskStateStoreBody(value=1, expires_at=ExpiresAt(at))),
        ("default", TaskStateStoreBody(value=1, expires_at=ExpiresAt("default"))),
        ("omitted", TaskStateStoreBody(value=1)),
    ):
        tasks.set_task_state_store(key=key, task_state_store_body=body, **ids(scope))
        tasks.patch_task_state_store(key=key, task_state_store_patch_body=TaskStateStorePatchBody(value=2), **ids(scope))
    found = {key: task.entry(key) for key in task.keys()}  # noqa: SIM118  (it is no dict)
    assert {key: (one.value, one.expires_at, one.never_expires) for key, one in found.items() if one} == {
        "at": (2, at, False),
        "default": (2, None, False),
        "omitted": (2, None, False),
    }
    assert tasks.get_task_state_store(key="at", **ids(scope)).expires_at == at


def test_map_indices(tasks: Any, store: Store, scope: TaskScope) -> None:
    """One index is one instance; all_map_indices clears every one, where -1 is not recorded."""
    scopes = [TaskScope(scope.dag_id, scope.run_id, scope.task_id, index) for index in range(3)]
    for one in scopes:
        store.task_store(one).set("k", one.map_index)
    assert tasks.get_task_state_store(key="k", map_index=2, **ids(scope)).value == 2
    tasks.delete_task_state_store(key="k", map_index=1, **ids(scope))
    assert [store.task_store(one).get("k") for one in scopes] == [0, None, 2]
    tasks.clear_task_state_store(all_map_indices=True, **ids(scope))
    assert [store.task_store(one).get("k") for one in scopes] == [None, None, None]


def test_every_error(
    connect_as: Callable[[str], Apis], store: Store, scope: TaskScope, task: TaskStoreAccessor, asset: AssetStoreAccessor
) -> None:
    """Errors come as the client's exceptions, with the detail that it looks for."""
    errors = airflow.exceptions
    body = TaskStateStoreBody(value=1)
    tasks, assets = connect_as("editor")
    unknown = {**ids(scope), "task_id": "typo"}
    for call in (
        lambda: tasks.list_task_state_store(**unknown),
        lambda: tasks.get_task_state_store(key="k", **unknown),
        lambda: tasks.set_task_state_store(key="k", task_state_store_body=body, **unknown),
        lambda: tasks.patch_task_state_store(
            key="k", task_state_store_patch_body=TaskStateStorePatchBody(value=1), **unknown
        ),
        lambda: tasks.delete_task_state_store(key="k", **unknown),
        lambda: tasks.clear_task_state_store(**unknown),
        lambda: tasks.clear_task_state_store(all_map_indices=True, **unknown),
        lambda: tasks.get_task_state_store(key="absent", **ids(scope)),
        lambda: tasks.patch_task_state_store(
            key="absent", task_state_store_patch_body=TaskStateStorePatchBody(value=1), **ids(scope)
        ),
        lambda: assets.list_asset_state_store(asset_id=999_999),
        lambda: assets.set_asset_state_store(asset_id=999_999, key="k", asset_state_store_body=AssetStateStoreBody(value=1)),
    ):
        with pytest.raises(errors.NotFoundException) as caught:
            call()
        assert caught.value.data is None or isinstance(caught.value.data.detail.actual_instance, str)
    with pytest.raises(errors.UnprocessableEntityException) as invalid:
        tasks.set_task_state_store(key="k", task_state_store_body=TaskStateStoreBody(value=None), **ids(scope))
    assert "which means absent" in invalid.value.data.detail[0].msg
    for token in ("wrong", "milepost_wrong"):
        with pytest.raises(errors.UnauthorizedException):
            connect_as(token)[0].list_task_state_store(**ids(scope))
    store.assets.deactivate(asset.scope)
    with pytest.raises(errors.ConflictException, match="is deactivated"):
        assets.set_asset_state_store(
            asset_id=asset.scope.asset_id, key="k", asset_state_store_body=AssetStateStoreBody(value=1)
        )
    with pytest.raises(errors.ForbiddenException, match="needs the role editor"):
        connect_as("viewer")[0].set_task_state_store(key="k", task_state_store_body=body, **ids(scope))
    assert task.items() == []


def test_assets_and_the_kinds_of_writers(assets: Any, store: Store, asset: AssetStoreAccessor) -> None:
    """Each call on assets works, and every writer is of a kind that the client knows."""
    number = asset.scope.asset_id
    asset.set("python", 1)
    scope = TaskScope("dag", "run", "writer", 3)
    opened = store.instances.open(scope, 1, outlets=[Asset(asset.scope.name)])  # type: ignore[union-attr]
    opened["asset_store"].set("task", 2)
    for writer in (Writer("cli"), Writer("watcher", user="w")):
        Store(store.metastore, store.settings, writer).asset_store(asset.scope).set(writer.kind, 4)
    assets.set_asset_state_store(asset_id=number, key="api", asset_state_store_body=AssetStateStoreBody(value=[3]))
    listed = assets.list_asset_state_store(asset_id=number)
    assert [(one.key, one.value, one.last_updated_by.kind.value) for one in listed.asset_state_store] == [
        ("api", [3], "api"),
        ("cli", 4, "api"),
        ("python", 1, "api"),
        ("task", 2, "task"),
        ("watcher", 4, "watcher"),
    ]
    by = assets.get_asset_state_store(asset_id=number, key="task").last_updated_by
    assert (by.dag_id, by.run_id, by.task_id, by.map_index) == ("dag", "run", "writer", 3)
    assert str(asset.entry("api").writer) == "api (editor)"  # type: ignore[union-attr]
    assets.delete_asset_state_store(asset_id=number, key="api")
    assert [key for key, _ in asset.items()] == ["cli", "python", "task", "watcher"]
    assets.clear_asset_state_store(asset_id=number)
    assert asset.items() == []


@pytest.mark.parametrize("key", [".", ".."])
def test_dots_delete_nothing(
    tasks: Any, assets: Any, scope: TaskScope, task: TaskStoreAccessor, asset: AssetStoreAccessor, key: str
) -> None:
    """The client folds the keys . and .. out of the path: it gets 404, for every verb, and nothing is deleted."""
    errors = airflow.exceptions
    task.set_many({key: 1, "k": 2})
    asset.set_many({key: 1, "k": 2})
    number = asset.scope.asset_id
    for call in (
        lambda: tasks.get_task_state_store(key=key, **ids(scope)),
        lambda: tasks.delete_task_state_store(key=key, **ids(scope)),
        lambda: tasks.set_task_state_store(key=key, task_state_store_body=TaskStateStoreBody(value=3), **ids(scope)),
        lambda: tasks.patch_task_state_store(
            key=key, task_state_store_patch_body=TaskStateStorePatchBody(value=3), **ids(scope)
        ),
        lambda: assets.get_asset_state_store(asset_id=number, key=key),
        lambda: assets.delete_asset_state_store(asset_id=number, key=key),
        lambda: assets.set_asset_state_store(asset_id=number, key=key, asset_state_store_body=AssetStateStoreBody(value=3)),
    ):
        with pytest.raises(errors.NotFoundException):
            call()
    assert (task.items(), asset.items()) == ([(key, 1), ("k", 2)], [(key, 1), ("k", 2)])
