"""What the worker secret and tokens open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from milepost import (
    Asset,
    AssetScope,
    AuthenticationError,
    ForbiddenError,
    StaleAttemptError,
    Store,
    TaskScope,
    calls,
    connect,
)
from milepost.calls import Handle
from milepost.remote.incoming import CALLS
from milepost.remote.wire import dump_call
from milepost.server import access
from tests.integration.server.conftest import Ask, Worker

OWN = TaskScope("dag", "run", "task", 0)
FOREIGN = {
    "other task": TaskScope("dag", "run", "other", 0),
    "other run": TaskScope("dag", "run2", "task", 0),
    "other map index": TaskScope("dag", "run", "task", 1),
    "other dag": TaskScope("dag2", "run", "task", 0),
}
MakeWorker = Callable[..., Worker]


def entry_calls(handle: Handle) -> list[calls.Call[Any]]:
    """Return a call of each kind that a token may make on its own state."""
    item = calls.Item("k", '"evil"', 0, calls.new_version())
    return [
        calls.Get(handle, "k"),
        calls.Read(handle, "k"),
        calls.GetMany(handle, ["k"]),
        calls.Keys(handle),
        calls.Items(handle),
        calls.Count(handle),
        calls.Check(handle),
        calls.Put(handle, [item]),
        calls.PutDefault(handle, item),
        calls.PutIf(handle, item, None),
        calls.Increment(handle, "k", 1, calls.new_version()),
        calls.Touch(handle, "k", None),
        calls.Delete(handle, "k"),
        calls.Clear(handle),
        calls.Clear(handle, True),
        calls.PastRun(handle),
    ]


def test_every_call_is_classified() -> None:
    """Each call is opened by a token under stated conditions, or by the worker secret only."""
    special = {calls.Now, calls.Open, calls.Finish, calls.PutResult, calls.GetResults, calls.FindAsset}
    sets = [access.READS, access.WRITES, access.BY_SECRET, special]
    assert sorted(cls.__name__ for kinds in sets for cls in kinds) == sorted(CALLS)


@pytest.mark.parametrize("where", FOREIGN)
@pytest.mark.parametrize("present", [True, False])
def test_s27_a_token_opens_no_other_instance(behind: Store, worker: MakeWorker, ask: Ask, where: str, present: bool) -> None:
    """S-27: calls on another instance are 403 with one answer, whether or not its key exists, and change nothing."""
    other = FOREIGN[where]
    number = 0
    if present:
        theirs = behind.instances.open(other, 1)["task_store"]
        theirs.set("k", "theirs")
        number = theirs._handle.owner_id
    mine = worker(OWN)
    own = mine.open()["task_store"]._handle
    before = behind.task_store(other).items() if present else []
    for owner in {number, own.owner_id, None}:
        forged = Handle(other, own.writer, instance_id=own.instance_id, fence=own.fence, attempt=own.attempt, owner_id=owner)
        for call in [*entry_calls(forged), *entry_calls(Handle(other, "python", owner_id=owner))]:
            answer = ask("/execution/v1/call", dump_call(call), credential=mine.token)
            assert (answer.status, answer.body["error"]) == (403, "ForbiddenError")
            assert (
                answer.body["detail"] == "this token opens attempt 1 of dag/run/task[0] and what it declared, nothing else"
            )
    assert (behind.task_store(other).items() if present else []) == before


def test_s27_own_scope_with_foreign_numbers_stays_own(behind: Store, worker: MakeWorker, ask: Ask) -> None:
    """S-27: a request on its own scope with another's number, fence or writer reads and writes nothing of another's."""
    theirs = behind.instances.open(FOREIGN["other task"], 1)["task_store"]
    theirs.set("k", "theirs")
    mine = worker(OWN)
    own = mine.open()["task_store"]._handle
    for fence, instance in ((own.fence + 1, own.instance_id), (own.fence, theirs._handle.instance_id)):
        forged = Handle(OWN, own.writer, instance_id=instance, fence=fence, attempt=1, owner_id=theirs._handle.owner_id)
        for call in entry_calls(forged):
            assert ask("/execution/v1/call", dump_call(call), credential=mine.token).status == 403
    forged = Handle(OWN, "cli", instance_id=own.instance_id, fence=own.fence, attempt=1, owner_id=theirs._handle.owner_id)
    assert ask("/execution/v1/call", dump_call(calls.Get(forged, "k")), credential=mine.token).body is None
    ask("/execution/v1/call", dump_call(calls.Put(forged, [calls.Item("k", "1", 0, "v")])), credential=mine.token)
    assert theirs.get("k") == "theirs"
    entry = behind.task_store(OWN).entry("k")
    assert entry is not None
    assert entry.writer.kind == "task"


def test_s27_without_a_token(ask: Ask) -> None:
    """S-27: no credential, an unknown one, or a damaged token is 401, whatever is asked for."""
    for credential in (None, "x" * 32, "eyJhbGciOiJub25lIn0.e30.", "a b"):
        for path in ("call", "token", "renew", "verify"):
            answer = ask(f"/execution/v1/{path}", b'["Now"]', credential=credential)
            assert (answer.status, answer.body["error"]) == (401, "AuthenticationError")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_s27_a_finished_task(behind: Store, worker: MakeWorker, ask: Ask) -> None:
    """S-27: the token of a task that has ended opens nothing, is not renewed and cannot open it again."""
    mine = worker(OWN)
    task = mine.open()["task_store"]
    task.set("k", 1)
    mine.store.instances.finish(OWN, 1, "success")
    mine.store.instances.finish(OWN, 1, "success")
    for call in entry_calls(task._handle):
        answer = ask("/execution/v1/call", dump_call(call), credential=mine.token)
        assert (answer.status, answer.body["error"]) == (403, "ForbiddenError")
    for token in (mine.token, mine.first_token):
        assert ask("/execution/v1/renew", credential=token).status == 403
    for token in (mine.token, mine.first_token):
        opening = calls.Open(OWN, 1)
        assert ask("/execution/v1/call", dump_call(opening), credential=token).status == 403
    result = calls.PutResult(OWN, 1, "1")
    assert ask("/execution/v1/call", dump_call(result), credential=mine.token).status == 403
    assert behind.task_store(OWN).items() == [("k", 1)]


def test_s27_declared_assets_only(behind: Store, worker: MakeWorker, ask: Ask) -> None:
    """S-27: a token opens the assets that the task declared, and no others."""
    behind.asset_store(Asset("secret")).set("k", "theirs")
    number = behind.asset_store(Asset("secret")).scope.asset_id
    mine = worker(OWN, inlets=[AssetScope(name="orders", uri="orders")])
    opened = mine.open()
    opened["asset_store"].set("k", 1)
    assert opened["asset_store"].entry("k").writer.task_id == "task"
    own = opened["asset_store"][Asset("orders")]._handle
    for scope, owner in (
        (AssetScope(number, "secret", "secret"), number),
        (AssetScope(number), own.owner_id),
        (AssetScope(own.owner_id, "orders"), number),
    ):
        forged = Handle(scope, own.writer, instance_id=own.instance_id, fence=own.fence, attempt=1, owner_id=owner)
        for call in entry_calls(forged):
            assert ask("/execution/v1/call", dump_call(call), credential=mine.token).status == 403
    declared = AssetScope(name="orders", uri="orders")
    for opening in (
        calls.FindAsset(AssetScope(number)),
        calls.FindAsset(AssetScope(name="secret")),
        calls.FindAsset(AssetScope(own.owner_id), True),
        calls.Open(OWN, 1, inlets=[declared, AssetScope(name="secret")]),
        calls.Open(OWN, 1, inlets=[declared], outlets=[declared]),
        calls.Open(OWN, 1, inlet_aliases=["everything"]),
        calls.Open(OWN, 1, incarnation="other"),
        calls.Open(OWN, 2),
        calls.Open(OWN),
    ):
        assert ask("/execution/v1/call", dump_call(opening), credential=mine.token).status == 403
    assert behind.asset_store(Asset("secret")).items() == [("k", "theirs")]


def test_a_token_opens_siblings_for_clearing_and_earlier_runs_for_reading(
    behind: Store, worker: MakeWorker, ask: Ask
) -> None:
    """A token opens `clear(all_map_indices=True)` of its task and run, and its task in earlier runs for reading only."""
    earlier = behind.instances.open(TaskScope("dag", "run0", "task", 0), 1, item={"x": 1})["task_store"]
    earlier.set("seen", 5)
    sibling = behind.instances.open(TaskScope("dag", "run", "task", 1), 1)["task_store"]
    sibling.set("k", 1)
    mine = worker(OWN)
    task = mine.store.instances.open(OWN, 1, item={"x": 1})["task_store"]
    past = task.past_run()
    assert (past.get("seen"), past.keys(), len(past)) == (5, ["seen"], 1)
    writes = [call for call in entry_calls(past._handle) if type(call) in access.WRITES]
    for call in writes:
        assert ask("/execution/v1/call", dump_call(call), credential=mine.token).status == 403
    past._handle.owner_id = sibling._handle.owner_id
    assert past.get("k") is None
    task.clear(all_map_indices=True)
    assert sibling.items() == []
    assert earlier.items() == [("seen", 5)]


def test_the_secret_is_needed_for_the_rest(worker: MakeWorker, ask: Ask) -> None:
    """Whatever concerns runs, instances and the whole store takes the worker secret."""
    mine = worker(OWN)
    mine.open()
    wanted = [
        calls.ListRuns(),
        calls.ListInstances(),
        calls.DeleteRun("dag", "run", "python"),
        calls.ClearInstances("dag", "run", OWN, None, "python"),
        calls.FindAsset(AssetScope(name="a"), True),
        calls.Stats(),
        calls.Collect("expired", 1),
        calls.GetResults("dag", "run", "other"),
        calls.GetResults("dag", "run2", "task"),
    ]
    for call in wanted:
        assert ask("/execution/v1/call", dump_call(call), credential=mine.token).status == 403
    body = {"scope": ["dag", "run", "task", -1], "attempt": 1}
    assert ask("/execution/v1/token", body, credential=mine.token).status == 403


def test_results_of_declared_tasks(behind: Store, worker: MakeWorker) -> None:
    """A token reads the results of the tasks that it was made for, in its own run."""
    behind.instances.open(TaskScope("dag", "run", "before"), 1)
    behind.runs.put_result(TaskScope("dag", "run", "before"), 1, "7")
    mine = worker(OWN, results=["before"])
    mine.open()
    assert mine.store.runs.get_results("dag", "run", "before") == {-1: "7"}
    mine.store.runs.put_result(OWN, 1, "8")
    assert behind.runs.get_results("dag", "run", "task") == {0: "8"}


def test_s26_the_attempt_that_should_be_dead(behind: Store, worker: MakeWorker) -> None:
    """S-26: a stale attempt's token gets StaleAttemptError at once and changes nothing; a resumed deferral is not stale."""
    first = worker(OWN)
    old = first.open()["task_store"]
    old.set("n", 1)
    first.store.instances.finish(OWN, 1, "deferred")
    again = worker(OWN, 1)
    again.open()["task_store"].set("n", 2)
    new = worker(OWN, 2).open()["task_store"]
    new.set("n", 100)
    for change in (lambda: old.set("n", 7), old.clear, lambda: old.set("new", 1), lambda: old.get("absent")):
        with pytest.raises(StaleAttemptError, match="no longer current"):
            change()
    assert behind.task_store(OWN).items() == [("n", 100)]
    with pytest.raises(StaleAttemptError):
        first.open()


def test_s26_an_attempt_whose_task_is_cleared(behind: Store, worker: MakeWorker, ask: Ask) -> None:
    """S-26: a task that is cleared while it runs writes nothing more, opens nothing more, and its token is not renewed."""
    first = worker(OWN)
    old = first.open()["task_store"]
    old.set("n", 1)
    behind.instances.clear(OWN)
    for change in (lambda: old.set("n", 7), old.clear, lambda: old.get("n"), first.open):
        with pytest.raises(StaleAttemptError):
            change()
    assert ask("/execution/v1/renew", credential=first.token).status == 409
    assert behind.task_store(OWN).items() == []
    worker(OWN, 2).open()["task_store"].set("n", 2)
    assert behind.task_store(OWN).items() == [("n", 2)]


def test_a_token_fits_into_a_header(worker: MakeWorker, ask: Ask) -> None:
    """However long the names of its assets are, a token stays small; one that would not is refused when it is made."""
    assets = [AssetScope(name=f"{number}{'n' * 1400}", uri=f"{number}{'u' * 1400}") for number in range(80)]
    mine = worker(OWN, inlets=assets[:40], outlets=assets[40:])
    assert len(mine.open()["asset_store"]) == 80
    assert len(mine.token) < 4_000
    wanted = {"scope": ["dag", "run", "task", 0], "attempt": 1, "aliases": [f"alias{number}" for number in range(2_000)]}
    answer = ask("/execution/v1/token", wanted)
    assert (answer.status, "more assets" in answer.body["detail"]) == (422, True)


def test_tokens_expire_and_are_renewed(behind: Store, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that has expired is 401; one that is renewed in time goes on."""
    from tests.support.serving import SECRET

    url = served.add(behind, token_seconds=3600)
    now = [1_800_000_000.0]
    monkeypatch.setattr("milepost.server.auth.time.time", lambda: now[0])
    with connect(url, secret=SECRET) as launcher:
        mine = Worker(url, launcher, OWN)
        task = mine.open()["task_store"]
        task.set("k", 1)
        metastore: Any = mine.store.metastore
        old = mine.token
        now[0] += 3000
        metastore._renew()
        assert mine.token != old
        now[0] += 3000
        assert task.get("k") == 1
        now[0] += 3700
        with pytest.raises(
            AuthenticationError, match=r"expired \(http://.*\); it is from the server, when the attempt opened"
        ):
            task.get("k")
        mine.store.close()


def test_a_token_of_an_unopened_attempt_opens_nothing_else(worker: MakeWorker) -> None:
    """Before the attempt has opened, and without its fence, a token opens no entries."""
    mine = worker(OWN)
    with pytest.raises(ForbiddenError, match="opened first"):
        mine.store.task_store(OWN).get("k")
    mine.open()
    with pytest.raises(ForbiddenError, match="opened first"):
        mine.store.task_store(OWN).set("k", 1)
