"""Edits of people, pages of lists, tokens: what the REST API asks of every metastore."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from milepost import (
    Asset,
    AssetNotActiveError,
    AssetScope,
    ConflictError,
    InstanceNotFoundError,
    InvalidValueError,
    ManualClock,
    NotFoundError,
    TaskScope,
    VersionConflictError,
    calls,
)
from milepost.calls import PLAIN, Handle, Item, new_version
from milepost.clock import from_micros, to_micros
from milepost.tokens import PREFIX, digest_of
from tests.contract.conftest import SCOPE, real

HOUR = 3_600_000_000


def handle(scope: TaskScope = SCOPE) -> Handle:
    """Return the handle of a person."""
    return Handle(scope, "api:anna", logged=True)


def item(text: str, key: str = "k") -> Item:
    """Return a value to write."""
    return Item(key, text, PLAIN, new_version())


def run(store: Any, call: Any) -> Any:
    """Run a call on the store's metastore."""
    return real(store).metastore.call(call)


def keys(page: calls.Page) -> list[tuple[int, str]]:
    """Return map indices and keys of a page."""
    return [(index, row.key) for index, row in page.rows]


def page(store: Any, scope: Any, **options: Any) -> calls.Page:
    """Ask for a page."""
    given: dict[str, Any] = {
        "map_indices": None,
        "prefix": "",
        "after_index": -1,
        "after": None,
        "offset": 0,
        "limit": 3,
        "counted": True,
        **options,
    }
    return run(store, calls.EntryPage(scope, **given))


# -- edits ----------------------------------------------------------------------------------------------------------------


def test_an_edit_records_no_instance(store: Any) -> None:
    """What is not recorded cannot be edited, and is not recorded by it."""
    with pytest.raises(InstanceNotFoundError):
        run(store, calls.Edit(handle(), item("1")))
    assert store.instances.get(SCOPE) is None


def test_an_edit_sets_the_very_instant_of_expiry(store: Any, task: Any, clock: ManualClock) -> None:
    """An instant is kept to the microsecond, over a create and over a live key; one that passed is refused."""
    task.set("old", 1)
    at = clock.now() + HOUR + 1
    for key in ("old", "new"):
        run(store, calls.Edit(handle(), item("2", key), expires_at=at))
        entry = task.entry(key)
        assert (to_micros(entry.expires_at), entry.never_expires, entry.value) == (at, False, 2)
    with pytest.raises(InvalidValueError, match="has passed"):
        run(store, calls.Edit(handle(), item("3"), expires_at=clock.now()))
    clock.advance(timedelta(hours=2))
    assert task.keys() == []


def test_an_edit_can_leave_the_expiry(store: Any, task: Any) -> None:
    """With keep_expiry the instant stays, and so does never."""
    task.set("k", 1, retention=timedelta(hours=1))
    before = task.entry("k").expires_at
    run(store, calls.Edit(handle(), item("2"), keep_expiry=True, present=True))
    assert (task.get("k"), task.entry("k").expires_at) == (2, before)


def test_an_edit_says_what_it_expects(store: Any, task: Any) -> None:
    """An edit over another version, over a key that must be absent, or over none, changes nothing."""
    task.set("k", 1)
    for options in ({"expected": "other"}, {"present": False}):
        with pytest.raises(VersionConflictError):
            run(store, calls.Edit(handle(), item("2"), **options))
    with pytest.raises(VersionConflictError):
        run(store, calls.Edit(handle(), item("2", "absent"), expected="other"))
    with pytest.raises(NotFoundError):
        run(store, calls.Edit(handle(), item("2", "absent"), present=True))
    assert task.items() == [("k", 1)]
    run(store, calls.Edit(handle(), item("2"), expected=task.entry("k").version))
    run(store, calls.Edit(handle(), item("3", "new"), present=False))
    assert task.items() == [("k", 2), ("new", 3)]


def test_an_edit_sent_twice_is_one(store: Any, task: Any) -> None:
    """An edit that is sent again finds its own version and does nothing, whatever it expects."""
    task.set("k", 1)
    call = calls.Edit(handle(), item("2"), expected=task.entry("k").version)
    run(store, call)
    run(store, call)
    assert [archive.keys for archive in store.instances.archives(SCOPE)] == []
    assert task.get("k") == 2


def test_edits_name_their_user(store: Any, task: Any, asset: Any) -> None:
    """The writer of an edit is the user, in the entry and in the history."""
    task.set("k", 1)
    run(store, calls.Edit(handle(), item("2")))
    assert str(task.entry("k").writer) == "api (anna)"
    asset.set("k", 1)
    own = Handle(asset.scope, "api:anna", owner_id=asset.scope.asset_id)
    run(store, calls.Edit(own, item("2")))
    assert (str(asset.entry("k").writer), str(asset.history("k")[0].replaced_by)) == ("api (anna)", "api (anna)")
    store.assets.deactivate(asset.scope)
    with pytest.raises(AssetNotActiveError):
        run(store, calls.Edit(own, item("3")))


def test_a_delete_that_expects_a_version(store: Any, task: Any) -> None:
    """A key goes if it has that version; the delete is logged and can be undone."""
    task.set("k", 1)
    for key in ("k", "absent"):
        with pytest.raises(VersionConflictError):
            run(store, calls.DeleteIf(handle(), key, "other"))
    run(store, calls.DeleteIf(handle(), "k", task.entry("k").version))
    assert task.keys() == []
    assert store.instances.restore(SCOPE) == 1
    assert task.items() == [("k", 1)]


# -- pages ----------------------------------------------------------------------------------------------------------------

NAMES = ["a", "a\x01", "a/b", "aé", "b", "é", "漢", "👍"]


def test_pages_by_place_and_by_offset_are_one_list(store: Any, task: Any) -> None:
    """Whether one goes on after the last key or leaves rows out, the pages together are the list, by code point."""
    task.set_many(dict.fromkeys(NAMES, 1))
    expected = [(-1, key) for key in sorted(NAMES)]
    by_offset = [one for start in range(0, 12, 3) for one in keys(page(store, SCOPE, offset=start))]
    by_place: list[tuple[int, str]] = []
    while len(found := keys(page(store, SCOPE, after=by_place[-1][1] if by_place else None, counted=False))) == 3:
        by_place += found
    assert (by_offset, by_place + found) == (expected, expected)


def test_pages_of_a_prefix_are_counted(store: Any, task: Any, clock: ManualClock) -> None:
    """A page holds live keys with the prefix only, and counts all of them."""
    task.set_many(dict.fromkeys(NAMES, 1))
    task.set("a-gone", 1, retention=timedelta(seconds=1))
    clock.advance(timedelta(seconds=2))
    found = page(store, SCOPE, prefix="a", limit=2)
    assert (keys(found), found.total) == ([(-1, "a"), (-1, "a\x01")], 4)
    rest = page(store, SCOPE, prefix="a", after="a\x01", counted=False)
    assert (keys(rest), rest.total) == ([(-1, "a/b"), (-1, "aé")], None)


def test_pages_go_over_several_instances(store: Any) -> None:
    """Of several map indices, pages go by index and key, past instances without keys; unknown ones alone are an error."""
    scopes = [TaskScope("dag", "run", "mapped", index) for index in range(5)]
    for scope in scopes:
        store.task_store(scope).set_many({"a": 1, "b": 2})
    store.task_store(scopes[1]).clear()
    expected = [(index, key) for index in (0, 2, 3, 4) for key in "ab"]
    by_offset = [one for start in range(0, 12, 3) for one in keys(page(store, scopes[0], offset=start))]
    assert by_offset == expected
    place = {"after_index": 2, "after": "a", "counted": False}
    assert keys(page(store, scopes[0], **place)) == expected[3:6]
    some = page(store, scopes[0], map_indices=[4, 0, 9], limit=10)
    assert (keys(some), some.total) == ([(0, "a"), (0, "b"), (4, "a"), (4, "b")], 4)
    with pytest.raises(InstanceNotFoundError):
        page(store, scopes[0], map_indices=[9])


def test_pages_of_an_asset(store: Any, asset: Any) -> None:
    """Keys of an asset are paged; a deactivated one has none."""
    asset.set_many(dict.fromkeys(NAMES, 1))
    scope = AssetScope(asset.scope.asset_id)
    found = page(store, scope, offset=6)
    assert (keys(found), found.total) == ([(-1, key) for key in sorted(NAMES)[6:]], 8)
    store.assets.deactivate(asset.scope)
    assert page(store, scope) == ([], 0)


def test_pages_of_runs_and_of_their_instances(store: Any) -> None:
    """Runs are paged latest first, by DAG, state and prefix; instances by task and map index."""
    for dag in ("one", "two"):
        for run_id in ("a1", "a2", "b1"):
            store.task_store(TaskScope(dag, run_id, "t")).set("k", 1)
    found = run(store, calls.RunPage(None, None, "a", None, 3))
    assert [(row.record.dag_id, row.record.run_id) for row in found] == [("two", "a2"), ("two", "a1"), ("one", "a2")]
    rest = run(store, calls.RunPage("one", None, "", found[-1].number, 3))
    assert [row.record.run_id for row in rest] == ["a1"]
    assert run(store, calls.RunPage("one", "success", "", None, 3)) == []
    for index in range(3):
        store.task_store(TaskScope("one", "a1", "m", index)).set("k", 1)
    first = run(store, calls.InstancePage("one", "a1", None, None, "", -2, 2))
    rest = run(store, calls.InstancePage("one", "a1", None, "none", "m", 1, 9))
    assert [str(one.scope) for one in (*first, *rest)] == ["one/a1/m[0]", "one/a1/m[1]", "one/a1/m[2]", "one/a1/t"]


# -- tokens ---------------------------------------------------------------------------------------------------------------


def test_tokens_are_made_found_and_revoked(store: Any, clock: ManualClock) -> None:
    """A token is found by its digest until it is revoked; its name is never used again."""
    made = store.tokens.create("grafana", role="viewer")
    assert made.token.startswith(PREFIX)
    assert made.token not in repr(made)
    digest = digest_of(made.token)
    assert run(store, calls.FindToken(digest)) == made.record
    run(store, calls.NoteToken(digest))
    clock.advance(timedelta(seconds=1))
    revoked = store.tokens.revoke("grafana")
    assert (revoked.last_used_at, revoked.revoked_at) == (made.record.created_at, from_micros(clock.now()))
    clock.advance(timedelta(seconds=1))
    assert store.tokens.revoke("grafana") == revoked
    assert run(store, calls.FindToken(digest)) is None
    assert store.tokens.list() == [revoked]
    with pytest.raises(ConflictError, match="names of tokens are not used again"):
        store.tokens.create("grafana", role="admin")
    with pytest.raises(NotFoundError):
        store.tokens.revoke("other")


def test_tokens_have_a_name_and_a_known_role(store: Any) -> None:
    """Another role, and a name that breaks the rules of ids, are refused; names differ by code point."""
    with pytest.raises(InvalidValueError, match="a role is one of viewer, editor, admin"):
        store.tokens.create("x", role="root")
    for name in ("", "x" * 251, "a\0b"):
        with pytest.raises(ValueError, match="the name of a token"):
            store.tokens.create(name, role="viewer")
    for name in ("A", "a", "é", "e", "a "):
        store.tokens.create(name, role="viewer")
    assert [record.name for record in store.tokens.list()] == sorted(["A", "a", "é", "e", "a "])


def test_an_asset_known_by_one_name(store: Any) -> None:
    """An edit of an asset with one name is one of its store."""
    accessor = store.asset_store(Asset("only"))
    run(store, calls.Edit(Handle(accessor.scope, "api:anna", owner_id=accessor.scope.asset_id), item("[1]")))
    assert accessor.items() == [("k", [1])]
