"""Large values on servers with the settings they come with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from milepost import Asset, Store, TaskScope, ValueTooLargeError, connect
from tests.fault.server_helpers import DIALECTS
from tests.support.servers import Database, Databases, in_use

SCOPE = TaskScope("d", "r", "t")
EIGHT = 8 * 1024 * 1024
CONTENTS = ["'", "\\", "漢%s\0"]
"""What has to be escaped most: quotes, backslashes; and many bytes a character, placeholders, NULs (as JSON escapes)."""


def value_of(content: str, size: int) -> str:
    """Return a text that has just so many bytes as JSON, but for the last character."""
    return content * ((size - 2) // (len(json.dumps(content, ensure_ascii=False).encode()) - 2))


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, databases: Databases) -> Database:
    """A prepared database on each kind of server."""
    return databases.get(request.param)


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    """A store without a limit."""
    with connect(database.url, max_value_bytes=0) as made:
        yield made
        assert in_use(made.metastore.engine) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("content", CONTENTS)
def test_s10_eight_mebibytes_of_any_content(store: Store, content: str) -> None:
    """S-10: with the limit off, 8 MiB of the worst content to escape come back whole, by every way to write them."""
    value = value_of(content, EIGHT)
    task = store.task_store(SCOPE, attempt=1)
    task.set("k", value)
    assert task.get("k") == value
    assert task.set_default("other", value) == value


def test_s10_several_large_values_in_one_call(store: Store) -> None:
    """S-10: `set_many` of several values of 8 MiB, and of many smaller ones, exceeds no packet; all come back whole."""
    values: dict[str, Any] = {f"k{number}": value_of(content, EIGHT) for number, content in enumerate(CONTENTS)}
    task = store.task_store(SCOPE, attempt=1)
    task.set_many(values)
    assert task.get_many(list(values)) == values
    many: dict[str, Any] = {f"m{number:02}": value_of("'", 600_000) for number in range(20)}
    task.set_many(many)
    assert task.items("m") == sorted(many.items())


async def test_s10_large_values_of_assets_and_asynchronous_calls(database: Database) -> None:
    """S-10: the same for asynchronous calls and for an asset, whose change log keeps the large value before."""
    value = value_of("'", EIGHT)
    with connect(database.url, max_value_bytes=0) as store:
        asset = store.asset_store(Asset("a"))
        await asset.aset("k", value)
        await asset.aset("k", 1)
        ((kept,),) = database.sql("SELECT length(value) FROM changes WHERE key = 'k' AND value IS NOT NULL")
        assert kept == len(value) + 2
        await store.aclose()


def test_s10_beyond_the_packet_of_the_server(databases: Databases) -> None:
    """S-10: what does not fit into one packet is refused in one line that names the server's option; the old value stays."""
    database = databases.get("mysql")
    ((packet,),) = database.execute("SELECT @@max_allowed_packet")
    if packet > 64 * 1024 * 1024:
        pytest.skip("this server takes packets larger than any value")
    with connect(database.url, max_value_bytes=0) as store:
        task = store.task_store(SCOPE, attempt=1)
        task.set("k", "old")
        for write in (
            lambda: task.set("k", "x" * packet),
            lambda: task.set_many({"a": 1, "k": "x" * packet}),
            lambda: store.asset_store(Asset("a")).set("k", "x" * packet),
        ):
            with pytest.raises(
                ValueTooLargeError, match=rf"max_allowed_packet, {packet:,} bytes.*server's config"
            ) as caught:
                write()
            assert "\n" not in str(caught.value)
        assert task.items() == [("k", "old")]
        assert in_use(store.metastore.engine) == 0  # type: ignore[attr-defined]


def test_s10_beyond_what_any_value_may_have(store: Store) -> None:
    """S-10: with the limit off, 64 MiB is still the most; the error says so and names no option."""
    with pytest.raises(ValueTooLargeError, match=r"67,108,864 \(the most that any value may have\)"):
        store.task_store(SCOPE).set("k", "x" * (64 * 1024 * 1024))
