"""Seeded interleavings and crashes of several clients, statement by statement, on PostgreSQL and MySQL/MariaDB.

``MILEPOST_SIM_SERVER_SEEDS`` says how many seeds, ``MILEPOST_SIM_SEED`` names a single one to replay.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Container, Iterator
from typing import Any

import pytest

from tests.fault.server_helpers import DIALECTS
from tests.simulation.actions import ACTIONS, script
from tests.simulation.servers import Race, engines_of
from tests.support.servers import Database, Databases, wait_until

SEEDS = int(os.environ.get("MILEPOST_SIM_SERVER_SEEDS") or 25)
ONE = os.environ.get("MILEPOST_SIM_SEED")
CLIENTS = 3
LENGTH = 7


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Database]:
    """A database on each kind of server; after the test nothing of ours is connected to it."""
    database = databases.get(request.param)
    if database.dialect == "postgres":
        database.execute(f"ALTER DATABASE {database.name} SET deadlock_timeout = '40ms'")
    yield database
    wait_until(lambda: not database.sessions(), "sessions of closed stores")


@pytest.fixture
def engines(database: Database) -> Iterator[list[Any]]:
    """An engine for each client."""
    made = engines_of(database, CLIENTS)
    yield made
    for engine in made:
        engine.close()


HERE = ACTIONS.keys() - {"intend", "keep_job"}
"""Those two first ask the model what is stored, and here it is found out afterwards only."""


def run(database: Database, engines: list[Any], seed: int, seen: Counter[str], only: Container[str] = HERE) -> str | None:
    """Run a seed; return what is wrong with it, or `None`."""
    rng = random.Random(seed)
    scripts = [script(rng, LENGTH, only) for _ in range(CLIENTS)]
    database.empty()
    race = Race(database, engines, f"{seed}/servers", scripts, rng.choice([0, 0, 60, 30]))
    try:
        race.run()
    except AssertionError as error:
        command = f"MILEPOST_SIM_SEED={seed} make test PYTEST_ARGS='{__file__} -k {database.dialect}'"
        return "\n".join([f"seed {seed}: {error}", f"replay: {command}", *race.trace[-200:]])
    seen.update(race.seen)
    return None


@pytest.mark.timeout(120 + SEEDS * 2)
def test_every_order_of_statements_is_explained_by_the_model(database: Database, engines: list[Any]) -> None:
    """However statements of several clients interleave, wait for locks and crash, the history is linearizable."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS) if ONE is None else [int(ONE)]:
        if said := run(database, engines, seed, seen):
            pytest.fail(said, pytrace=False)
    assert ONE or seen["waits for a lock"] > 10


def without_lock(engines: list[Any], name: str) -> None:
    """Let a statement no longer lock what it reads."""
    for engine in engines:
        statement = engine.statements[name]
        text = statement.text.replace("FOR UPDATE", "").replace("FOR SHARE", "").replace("LOCK IN SHARE MODE", "")
        assert text != statement.text
        engine.statements = {**engine.statements, name: statement._replace(text=text)}


BROKEN: dict[str, Container[str]] = {
    "entry_lock": ("increment", "update"),
    "instance_share": HERE,
}
"""Statements, and actions that need their locks."""


@pytest.mark.parametrize("name", BROKEN)
def test_the_race_finds_a_statement_without_its_lock(database: Database, engines: list[Any], name: str) -> None:
    """A missing row lock, of an increment or of the fence, is found within four times the default number of seeds."""
    without_lock(engines, name)
    assert any(run(database, engines, seed, Counter(), BROKEN[name]) for seed in range(SEEDS * 4))
