"""Several clients on a real database server, one statement at a time, in an order that a seed chooses.

Each client is a thread that stops before every statement. The scheduler lets one go on; where that one waits for a lock of
another, it lets another go on. Clients crash where the seed says so, before a statement or right after it.

Servers let transactions overlap, so the order in which calls took effect is not simply that of their commits. Instead a
history is recorded, and it must be linearizable: there must be an order of all calls, in which each stands after those that
had ended when it began, and in which the model gives each the answer that it got and ends with the stored rows. The search
(Wing and Gong's, with Lowe's memory of where it has been) goes through such orders depth first.
"""

from __future__ import annotations

import copy
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from milepost import ManualClock, MilepostError, StaleAttemptError, Store, TaskScope
from milepost.config import load_settings
from milepost.metastore.engines.flow import Run, Sleep
from milepost.metastore.network import NetworkMetastore
from tests.simulation.actions import ACTIONS
from tests.simulation.parts import ASSET, SCOPES, Act, Crash, Held, Model, Step, ViolationError, same
from tests.support.servers import Database, engine_of

__all__ = ["Court", "Race"]

POLICY = load_settings({"url": "memory://"}, {})
PATIENCE = 60.0
BLOCKED_AFTER = {"postgres": 0.004, "mysql": 0.012}
"""Seconds after which a client that does not come back is taken to wait for a lock; PostgreSQL is asked then."""


class Blocking:
    """Has the a… twins of a thing, which run its blocking methods."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name == "_handle":
            return self._real._handle
        if name in ("instances", "runs", "metastore"):
            return Blocking(getattr(self._real, name))
        method: Callable[..., Any] = self._real.__len__ if name == "alen" else getattr(self._real, name[1:])

        async def twin(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            if name != "aopen":
                return answer
            return {
                "task_store": Blocking(answer["task_store"]),
                "asset_store": {ASSET: Blocking(answer["asset_store"][ASSET])},
            }

        return twin


def _outcome(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a blocking call waited for something")


@dataclass(eq=False)
class Done:
    """One call of the history: when it began and ended, and how."""

    text: str
    act: Act
    begin: int
    end: int = 0
    answer: Any = None
    error: Exception | None = None
    crashed: bool = False
    effective: int = 0
    """When it committed last; 0: never."""

    def __str__(self) -> str:
        how = "crashed" if self.crashed else repr(self.error) if self.error else repr(self.answer)
        return f"{self.begin:4} to {self.end:4}, took effect {self.effective:4}: {self.text} -> {how}"


class Client:
    """A thread that makes calls and stops before each statement."""

    def __init__(self, race: Race, name: str, steps: list[Step], engine: Any, *, direct: bool) -> None:
        self.world, self.race, self.name, self.steps, self.engine = race, race, name, list(steps), engine
        self.direct = direct
        self.state = "running"
        self.command: str | None = None
        self.pending = ""
        self.current: Done | None = None
        self.dead = self._open = False
        self._inner = type(engine)._do
        engine._do = self._do
        self.thread = threading.Thread(target=self._main, name=name, daemon=True)

    def _start(self) -> None:
        store = Store(NetworkMetastore(self.engine, policy=POLICY, direct=self.direct), POLICY)
        self.store = Blocking(store)
        self.people = [(Held(scope), Blocking(store.task_store(scope))) for scope in SCOPES]
        self.people.append((Held(ASSET.name), Blocking(store._asset(*self.race.asset))))
        self.attempts: list[tuple[Held, Any]] = []

    def _main(self) -> None:
        try:
            self._start()
            while self.steps:
                self._step(self.steps.pop(0))
        except BaseException as error:  # noqa: BLE001  (handed on to the scheduler)
            self.race.errors.append(error)
        finally:
            with self.race.change:
                self.state = "done"
                self.race.change.notify_all()

    def _step(self, step: Step) -> None:
        act = ACTIONS[step.action](self, random.Random(step.seed))
        done = self.current = Done(f"{self.name}: {act.text}", act, self.race.tick())
        try:
            done.answer = _outcome(act.call())
        except MilepostError as error:
            done.error = error
        except Crash:
            done.crashed = True
            self.dead = self._open = False
            self._start()
        done.end = self.race.tick()
        how = "crashed" if done.crashed else type(done.error).__name__ if done.error else "answered"
        self.race.seen[f"{step.action} {how}"] += 1
        if act.kind != "quiet" and not (done.crashed and (act.kind == "read" or not done.effective)):
            self.race.history.append(done)

    def _do(self, action: Any, held: list[Any]) -> Any:
        if self.dead:
            raise Crash
        if type(action) is Sleep:
            return self._gate("sleep")
        if type(action) is not Run:
            return self._inner(self.engine, action, held)
        command = self._gate(action.text)
        if command == "crash":
            self.dead = True
            raise Crash
        inside = self.inside(action.text)
        answer = self._inner(self.engine, action, held)
        if self.current and (action.text == "COMMIT" or (not inside and action.answer == "count" and answer)):
            self.current.effective = self.race.tick()
        if command == "crash after":
            self.dead = True
            raise Crash
        return answer

    def inside(self, text: str) -> bool:
        """Tell whether a statement is part of a transaction."""
        ends = text in ("COMMIT", "ROLLBACK")
        self._open = not ends and (text == "BEGIN" or self._open)
        return self._open or ends

    def _gate(self, text: str) -> str | None:
        with self.race.change:
            self.pending, self.state, self.command = text, "ready", None
            self.race.change.notify_all()
            while self.state == "ready":
                assert self.race.change.wait(PATIENCE), "nobody lets this client go on"
            return self.command


class Race:
    """One run: clients, the scheduler with its seed, and the history.

    Args:
        database: Without rows.
        engines: One for each client, used in one race after the other.
        seed: Decides who runs next, and who crashes.
        scripts: The steps of each client.
        faults: How many statements there are to one crash; 0: none.
    """

    def __init__(self, database: Database, engines: list[Any], seed: str, scripts: list[list[Step]], faults: int) -> None:
        self.database, self.rng, self.faults = database, random.Random(seed), faults
        self.change = threading.Condition()
        self.history: list[Done] = []
        self.errors: list[BaseException] = []
        self.trace: list[str] = []
        self.seen: Counter[str] = Counter()
        self._ticks = 0
        first = Store(NetworkMetastore(engines[0], policy=POLICY), POLICY).asset_store(ASSET)
        self.asset = (first._handle.owner_id, ASSET.name, ASSET.name)
        self.now = engines[0].clock.now()
        self.clients = [
            Client(self, f"client {number}", steps, engines[number], direct=self.rng.random() < 0.5)
            for number, steps in enumerate(scripts)
        ]

    def tick(self) -> int:
        """Return the next number of a clock that only counts."""
        with self.change:
            self._ticks += 1
            return self._ticks

    def attempt_of(self, scope: TaskScope) -> int:
        """Return the attempt that somebody opened last, as far as clients know."""
        opened = [int(done.text.split(" attempt ")[1].split()[0]) for done in self.history if f"open {scope} " in done.text]
        return opened[-1] if opened else 0

    def version_of(self, handle: Held, key: str) -> None:
        """Versions are drawn by the clients, so nobody else knows them."""

    def run(self) -> None:
        """Let all clients run to their end, and judge what came of it.

        Raises:
            ViolationError: No order of the calls explains their answers and the rows.
        """
        for client in self.clients:
            client.thread.start()
        try:
            while True:
                ready = self._settle()
                if not ready:
                    break
                client = self.rng.choice(ready)
                command = None
                if self.faults and not self.rng.randrange(self.faults) and client.pending not in ("sleep", "ROLLBACK"):
                    command = self.rng.choice(["crash", "crash after"])
                    self.seen[command] += 1
                self.trace.append(
                    f"{client.name}: {' '.join(client.pending.split())[:80]}{f' ** {command}' if command else ''}"
                )
                with self.change:
                    client.command, client.state = command, "running"
                    self.change.notify_all()
        finally:
            for client in self.clients:
                client.thread.join(PATIENCE)
                del client.engine._do
        if self.errors:
            raise self.errors[0]
        Court(self).judge()

    def _settle(self) -> list[Client]:
        """Wait until every client has stopped or waits for a lock; return those that have stopped."""
        began = time.monotonic()
        with self.change:
            while True:
                running = [client for client in self.clients if client.state == "running"]
                ready = [client for client in self.clients if client.state == "ready"]
                if not running or self.errors:
                    return ready
                waited = time.monotonic() - began
                assert waited < PATIENCE, f"stuck: {[(one.name, one.pending) for one in running]}"
                if ready and waited > BLOCKED_AFTER[self.database.dialect] and self._all_wait(len(running)):
                    self.seen["waits for a lock"] += 1
                    return ready
                self.change.wait(0.002)

    def _all_wait(self, number: int) -> bool:
        # MySQL says who waits only every 0.1 s. A client that is merely slow then runs beside another: that does no harm.
        return self.database.dialect == "mysql" or len(self.database.blocked()) >= number


class Court:
    """Looks for an order of calls that explains a history.

    Args:
        race: The race that is over.
    """

    def __init__(self, race: Race) -> None:
        self.race = race
        self.calls = sorted(race.history, key=lambda done: done.effective or done.end)
        self.met: set[tuple[frozenset[int], str]] = set()
        self.furthest: tuple[int, frozenset[int]] = (-1, frozenset())

    def judge(self) -> None:
        """Find an order.

        Raises:
            ViolationError: There is none, or the rows are not sound in themselves.
        """
        self.final = self._stored()
        model = Model(self.race.now)
        model.assets[ASSET.name] = type(model.assets.setdefault(ASSET.name, _owner()))()
        everything = frozenset(range(len(self.calls)))
        if not self._search(model, everything):
            left = [str(self.calls[number]) for number in sorted(self.furthest[1])]
            raise ViolationError(
                "\n".join(
                    [
                        "no order of these calls explains their answers and what is stored:",
                        *map(str, sorted(self.calls, key=lambda done: done.begin)),
                        f"the best order explains {self.furthest[0]} of them and leaves:",
                        *left,
                        f"stored: {self.final}",
                    ]
                )
            )

    def _search(self, model: Model, rest: frozenset[int]) -> bool:
        if not rest:
            return self._as_stored(model)
        held = [(token, fence, model.instances.get(scope) is one) for token, (scope, one, fence) in model.held.items()]
        state = (model.instances, model.assets, model.incarnations, sorted(model.replaced), model.results, model.staged)
        place = rest, repr((state, sorted(held)))
        if place in self.met:
            return False
        self.met.add(place)
        explained = len(self.calls) - len(rest)
        if explained > self.furthest[0]:
            self.furthest = explained, rest
        horizon = min(self.calls[number].end for number in rest)
        for number in sorted(rest):
            if self.calls[number].begin < horizon:
                then = copy.deepcopy(model)
                if self._fits(then, self.calls[number]) and self._search(then, rest - {number}):
                    return True
        return False

    def _fits(self, model: Model, done: Done) -> bool:
        """Tell whether a call could have ended as it did if it took effect now; let it."""
        act = done.act
        if act.kind == "read":
            stale = act.handle is not None and model.stale(act.handle)
            if done.error is not None:
                return stale and isinstance(done.error, StaleAttemptError)
            return same(done.answer, act.model(model)) and not (stale and done.answer in ("ABSENT", [], 0))
        if act.tries and isinstance(done.error, StaleAttemptError):
            return act.handle is not None and model.stale(act.handle)
        try:
            answer = act.model(model)
        except MilepostError as error:
            return done.crashed or type(done.error) is type(error)
        for owner in (*model.instances.values(), *model.assets.values()):
            for row in owner.rows.values():
                row.version = row.version or "some"
        return done.error is None and (done.crashed or same(done.answer, answer))

    def _as_stored(self, model: Model) -> bool:
        instances = {scope: (one.state, one.attempt, one.cleared, one.fence) for scope, one in model.instances.items()}
        rows = {
            (owner, key): row.value
            for owner, one in (*model.instances.items(), *model.assets.items())
            for key, row in one.rows.items()
        }
        return (instances, rows, model.results) == self.final

    def _stored(self) -> tuple[Any, Any, Any]:
        database = self.race.database
        owners: dict[int, Any] = {self.race.asset[0]: ASSET.name}
        instances: dict[Any, Any] = {}
        for id_, dag, run, task, index, *state in database.sql(
            "SELECT i.id, r.dag_id, r.run_id, i.task_id, i.map_index, i.state, i.attempt, i.cleared_attempt, i.fence "
            "FROM instances AS i JOIN runs AS r ON r.id = i.run"
        ):
            owners[id_] = TaskScope(dag, run, task, index)
            instances[owners[id_]] = tuple(state)
        rows, versions = {}, []
        for owner, key, value, version in database.sql("SELECT owner_id, key, value, version FROM entries"):
            if owner not in owners:
                raise ViolationError(f"the key {key!r} belongs to owner {owner}, which is gone: {self._story()}")
            rows[owners[owner], key] = json.loads(value)
            versions.append(version)
        if len(set(versions)) < len(versions):
            raise ViolationError(f"two rows have one version: {self._story()}")
        results = {owners.get(owner, owner): text for owner, text in database.sql("SELECT owner_id, value FROM results")}
        return instances, rows, results

    def _story(self) -> str:
        return "\n".join(["", *map(str, sorted(self.calls, key=lambda done: done.begin))])


def _owner() -> Any:
    from tests.property.model import Owner

    return Owner()


def engines_of(database: Database, number: int) -> list[Any]:
    """Return engines whose clock stands still."""
    clock = ManualClock()
    return [engine_of(database, clock) for _ in range(number)]
