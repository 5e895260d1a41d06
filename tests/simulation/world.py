"""A simulated world: several clients, one SQLite file, one statement at a time, faults where a seed says so.

Clients are coroutines over the asynchronous calls of a store. Each has an engine of its own, the real one of database
servers (retries, doubtful commits and all), whose statements run on a connection to a shared file. The scheduler lets one
client run one statement, then another, as SQLite would let them: there is one writer at a time, and readers see what was
committed. Before and after each statement a client may crash or lose its connection, and it may be the victim of a deadlock.

What a call should have done is known from `tests.property.model`: its effect is applied at the moment of the commit, and
then all rows are compared. So these hold after every statement of every client:

* what was acknowledged, answered or refused is what the model says; a refused call has changed nothing;
* all of a call is there or nothing, whatever crashed;
* versions are unique; fences only rise; an attempt that was cleared is never current; every key has a living owner;
* the change log of an asset is an unbroken chain of versions;
* a read returns what was there at one moment between its begin and its end, and a stale attempt never reads "absent".

How to add a call: see `tests.simulation.actions`.
"""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from milepost import ManualClock, MilepostError, OutcomeUnknownError, StaleAttemptError, Store, TaskScope
from milepost.config import load_settings
from milepost.metastore.network import NetworkMetastore
from tests.simulation.actions import ACTIONS
from tests.simulation.engine import DEAD, Engine, Files, Pending
from tests.simulation.parts import ASSET, SCOPES, Act, Crash, Held, Model, Step, ViolationError, same

__all__ = ["FAULTS", "Client", "World"]

POLICY = load_settings({"url": "memory://"}, {})

FAULTS = {"crash": 2, "crash after": 3, "lost": 3, "answer lost": 4, "deadlock": 4}
"""Kinds and how often one is drawn, compared with the others."""


class Separately(NetworkMetastore):
    """A metastore whose writes never go together: that takes an event loop, and here the seed decides who goes on."""

    acall = NetworkMetastore._acall


@functools.cache
def _line(text: str) -> str:
    return " ".join(text.split())[:70]


class Running:
    """A call under way: what it has done so far, and what it must answer."""

    def __init__(self, world: World, act: Act) -> None:
        self.world, self.act = world, act
        self.expected: tuple[str, Any] | None = None
        self.possible: list[tuple[Any, bool]] = []
        self.doubtful = self.disturbed = False
        self.look()

    def stale(self) -> bool:
        """Tell whether the attempt behind the call was taken over."""
        return self.act.handle is not None and self.world.model.stale(self.act.handle)

    def look(self) -> None:
        """Note, at a moment when something has changed, what a read could see now."""
        look = self.act.model if self.act.kind == "read" else self.act.peek
        if look is not None:
            self.possible.append((look(self.world.model), self.stale()))

    def disturb(self, fault: str, text: str, *, within: bool) -> None:
        """Note that a fault hit the call."""
        self.disturbed = within and fault == "deadlock"
        self.doubtful |= text == "COMMIT"

    def committed(self) -> None:
        """Apply the effect to the model; where the model refuses, the comparison of rows shows whether there was one."""
        if self.act.kind == "write":
            if self.act.once and self.expected and self.expected[0] == "answer":
                raise ViolationError(f"{self.act.text} took effect twice")
            self._ask()

    def _ask(self) -> None:
        try:
            self.expected = ("answer", self.act.model(self.world.model))
        except MilepostError as error:
            self.expected = ("error", type(error))

    def refused(self) -> None:
        """Make sure that the model refuses too."""
        if self.disturbed:
            self.disturbed = False
        elif self.act.kind == "write" and not self.act.tries:
            self._ask()
            if self.expected is None or self.expected[0] != "error":
                raise ViolationError(f"{self.act.text} was refused for no reason")

    def ended(self, answer: Any, error: MilepostError | None) -> None:
        """Compare the end of the call with what it must be."""
        text = f"{self.act.text} ended with {error!r}" if error else f"{self.act.text} answered {answer!r}"
        if isinstance(error, OutcomeUnknownError):
            if not self.doubtful:
                raise ViolationError(f"{text} although no commit was in doubt")
        elif self.act.kind == "read" or (self.act.peek and self.expected is None):
            self._ended_read(answer, error, text)
        elif self.act.kind == "write":
            if error is not None and self.act.tries and isinstance(error, StaleAttemptError) and self.stale():
                return
            kind, expected = self.expected or ("error", None)
            if (kind == "error") != (error is not None) or (error is not None and type(error) is not expected):
                raise ViolationError(f"{text}; expected: {self.expected}")
            if error is None and not same(answer, expected):
                raise ViolationError(f"{text}; expected: {expected!r}")

    def _ended_read(self, answer: Any, error: MilepostError | None, text: str) -> None:
        self.look()
        if error is not None:
            if not isinstance(error, StaleAttemptError) or not self.stale():
                raise ViolationError(text)
        elif not any(same(answer, seen) and (not stale or answer not in ("ABSENT", [], 0)) for seen, stale in self.possible):
            raise ViolationError(f"{text}; possible (value, stale): {self.possible}")


class Client:
    """A process that makes calls one after the other.

    Args:
        world: Where it lives.
        name: How traces name it.
        steps: What it does.
        direct: Whether it uses the paths of one statement.
    """

    def __init__(self, world: World, name: str, steps: list[Step], *, direct: bool) -> None:
        self.world, self.name, self.steps, self.direct = world, name, list(steps), direct
        self.versions: list[str | None] = [None]
        self.start()

    def start(self) -> None:
        """Begin, or begin anew after a crash: with the steps that are left and without a memory."""
        self.dead = False
        engine = Engine(self)
        self.store = Store(Separately(engine, policy=POLICY, direct=self.direct), POLICY)
        self.people = [(Held(scope), self.store.task_store(scope)) for scope in SCOPES]
        number, name, uri = self.world.asset
        # As `Store.aasset_store` makes it, without the look-up.
        self.people.append((Held(ASSET.name), self.store._asset(number, name, uri)))
        self.attempts: list[tuple[Held, Any]] = []
        self.running = Running(self.world, Act("start", None, lambda _: None, kind="quiet"))  # type: ignore[arg-type]
        self.life = self._live()
        self.pending: Pending | None = None

    async def _live(self) -> None:
        while self.steps:
            step = self.steps.pop(0)
            act = ACTIONS[step.action](self, random.Random(step.seed))
            self.world.say(self, act.text)
            self.running = running = Running(self.world, act)
            answer = error = None
            try:
                answer = await act.call()
            except MilepostError as raised:
                error = raised
            self.world.say(self, f"  {act.text} -> {error!r}" if error else f"  {act.text} -> {answer!r}")
            running.ended(answer, error)
            self.world.seen[f"{step.action} {type(error).__name__ if error else 'answered'}"] += 1

    def done(self, text: str, answer: Any, *, inside: bool) -> None:
        """Note that a statement of this client ran."""
        if text == "COMMIT" or (not inside and answer and not text.startswith(("SELECT", "BEGIN", "ROLLBACK"))):
            self.running.committed()
            self.world.changed(self)
        elif text == "ROLLBACK":
            self.running.refused()

    def advance(self, fault: str | None) -> bool:
        """Run until the next statement; whether there is one."""
        try:
            self.pending = self.life.send(None if self.pending is None else fault)
        except StopIteration:
            self.pending = None
            return False
        if self.pending is DEAD:
            self.crash()
        return True

    def crash(self) -> None:
        """End at once, and begin anew."""
        self.end()
        self.world.say(self, "crashed; begins anew")
        self.world.compare()
        self.start()

    def end(self) -> None:
        """End at once; what was not committed is lost."""
        self.dead = True
        if self.life.cr_frame is not None and self.life.cr_await is not None:
            with suppress(Crash):
                self.life.throw(Crash())
        self.life.close()
        idle = self.store.metastore.engine._own_pool.idle  # type: ignore[attr-defined]
        while idle:
            self.world.files.spare.append(idle.pop().raw)


@dataclass(eq=False)
class World:
    """One run: clients, the file, the model, and the scheduler with its seed.

    Args:
        files: The file, which is emptied.
        seed: Decides who runs next and which faults happen.
        scripts: The steps of each client.
        faults: How many statements there are to one fault, on average; 0: none.
    """

    files: Files
    seed: str
    scripts: list[list[Step]]
    faults: int = 0
    trace: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.files.empty()
        self.clock = ManualClock()
        self.model = Model(self.clock.now())
        self.versions: dict[str, object] = {}
        self.fences: dict[int, int] = {}
        self.rng = random.Random(self.seed)
        connection = self.files.observer
        connection.execute("INSERT INTO owners (kind) VALUES ('asset')")
        from milepost.metastore.operations.assets import asset_hash

        now, name = self.clock.now(), ASSET.name
        connection.execute("INSERT INTO assets VALUES (1, ?, ?, ?, 1, ?, ?)", (asset_hash(name, name), name, name, now, now))
        self.asset = (1, name, name)
        self.clients = [
            Client(self, f"client {number}", steps, direct=self.rng.random() < 0.5)
            for number, steps in enumerate(self.scripts)
        ]

    def attempt_of(self, scope: TaskScope) -> int:
        """Return the attempt that is recorded."""
        known = self.model.instances.get(scope)
        return known.attempt if known else 0

    def version_of(self, handle: Held, key: str) -> str | None:
        """Return the version of a live key."""
        row = self.model.live(handle).get(key)  # type: ignore[arg-type]
        return None if row is None else row.version

    def say(self, client: Client, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{client.name}: {text}")

    def run(self) -> None:
        """Run all clients to their end.

        Raises:
            ViolationError: An invariant does not hold.
        """
        alive = list(self.clients)
        try:
            while alive:
                busy = any(one.pending and one.pending.raw and one.pending.raw.in_transaction for one in alive)
                free = [one for one in alive if not (busy and one.pending and one.pending.wants_lock)]
                client = self.rng.choice(free)
                # A statement that is about to run has been given its time already.
                timed = any(one.pending and one.pending.wants_lock and one.pending.text != Engine.begin for one in alive)
                if not busy and not timed and self.rng.random() < 0.01:
                    self._tick()
                self._advance(client, alive)
            self.compare()
            self._check_leftovers()
        finally:
            for client in self.clients:
                client.end()

    def _advance(self, client: Client, alive: list[Client]) -> None:
        fault, pending = None, client.pending
        if pending is not None and pending.raw is not None and self.faults and not self.rng.randrange(self.faults):
            fault = self.rng.choices(list(FAULTS), list(FAULTS.values()))[0]
            if pending.text == "ROLLBACK" and fault != "crash":
                fault = None  # the engine need not tell a refusal whose end it did not see
        if pending is not None and pending.raw is not None:
            self.say(client, f"    {_line(pending.text)}{f'  ** {fault}' if fault else ''}")
        if fault:
            self.seen[fault] += 1
        if fault == "crash":
            client.crash()
        elif not client.advance(fault):
            alive.remove(client)

    def _tick(self) -> None:
        by = self.rng.choice([1, 3_600_000_000])
        self.clock.advance(microseconds=by)
        self.model.now += by
        self.trace.append(f"the clock moves by {by} us")
        self._look()

    def _look(self) -> None:
        for client in self.clients:
            client.running.look()

    def changed(self, client: Client) -> None:
        """Look at everything after a commit."""
        self.compare(client.running)
        self._look()

    # -- invariants -------------------------------------------------------------------------------------------------

    def compare(self, writer: object = None) -> None:
        """Make sure that the rows are the model's and sound in themselves.

        Args:
            writer: The call that committed just now: new versions are its own.
        """
        select = self.files.observer.execute
        owners: dict[int, Any] = {1: ASSET.name}
        found: dict[Any, Any] = {}
        for id_, dag, run, task, index, state, attempt, cleared, fence, updated in select(
            "SELECT i.id, r.dag_id, r.run_id, i.task_id, i.map_index, i.state, i.attempt, i.cleared_attempt, i.fence, "
            "i.updated_at FROM instances AS i JOIN runs AS r ON r.id = i.run"
        ):
            scope = TaskScope(dag, run, task, index)
            owners[id_] = scope
            found[scope] = (state, attempt, cleared, fence, updated)
            if fence < self.fences.get(id_, 0):
                raise ViolationError(f"the fence of {scope} fell from {self.fences[id_]} to {fence}")
            self.fences[id_] = fence
            if state == "running" and attempt <= cleared:
                raise ViolationError(f"attempt {attempt} of {scope} was cleared and is running")
        expected = {
            scope: (one.state, one.attempt, one.cleared, one.fence, one.updated)
            for scope, one in self.model.instances.items()
        }
        if found != expected:
            raise ViolationError(f"instances (state, attempt, cleared, fence, updated): {found}; expected: {expected}")
        self._compare_rows(owners, writer)
        results = {owners.get(owner, owner): text for owner, text in select("SELECT owner_id, value FROM results")}
        if results != self.model.results:
            raise ViolationError(f"results: {results}; expected: {self.model.results}")
        self._check_chain()

    def _check_leftovers(self) -> None:
        select = self.files.observer.execute
        owners = {row[0] for row in select("SELECT id FROM instances")}
        for table, column in (("staged", "instance"), ("intents", "owner_id")):
            for (owner,) in select(f"SELECT {column} FROM {table}"):
                if owner not in owners:
                    raise ViolationError(f"a row of {table} belongs to {owner}, which is gone")

    def _compare_rows(self, owners: dict[int, Any], writer: object) -> None:
        now, model = self.model.now, self.model
        found: dict[Any, Any] = {}
        for owner, key, value, version, created, updated, expires, day in self.files.observer.execute(
            "SELECT owner_id, key, value, version, created_at, updated_at, expires_at, default_day FROM entries"
        ):
            if owner not in owners:
                raise ViolationError(f"the key {key!r} belongs to owner {owner}, which is gone")
            if expires is None or expires > now:
                kept = expires if expires is not None else None if day is not None else "never"
                found[owners[owner], key] = (json.loads(value), created, updated, kept), version
        expected = {}
        for scope, owner in (*model.instances.items(), *model.assets.items()):
            for key, row in owner.rows.items():
                if row.live(now):
                    expected[scope, key] = (row.value, row.created, row.updated, row.expires)
                    self._check_version(row, found.get((scope, key)), writer)
        bare = {key: row for key, (row, _) in found.items()}
        if bare != expected:
            raise ViolationError(f"rows (value, created, updated, expiry): {bare}; expected: {expected}")

    def _check_version(self, row: Any, found: Any, writer: object) -> None:
        version = found[1] if found else None
        if row.version is None and version is not None:
            if self.versions.setdefault(version, writer) is not writer:
                raise ViolationError(f"version {version} was there before")
            row.version = version
        elif version != row.version:
            raise ViolationError(f"version {version} in place of {row.version}: something was written that nobody asked for")

    def _check_chain(self) -> None:
        latest: dict[str, Any] = {}
        for key, before, after in self.files.observer.execute(
            "SELECT key, version, new_version FROM changes WHERE kind = 'asset' ORDER BY id"
        ):
            if before != latest.get(key):
                raise ViolationError(f"the log of {key!r} goes from {latest.get(key)} to a change of {before}")
            latest[key] = after
        for key, version in self.files.observer.execute("SELECT key, version FROM entries WHERE owner_id = 1"):
            if latest.get(key) != version:
                raise ViolationError(f"the log of {key!r} ends with {latest.get(key)}, and stored is {version}")
