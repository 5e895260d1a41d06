"""`/ready` beside a store that does not answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from milepost.errors import StoreUnreachableError
from milepost.server import routes


class Store:
    """A store whose calls end when they are told to, as those in threads do: not when they are cancelled."""

    def __init__(self) -> None:
        self.metastore = self
        self.calls = 0
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    async def acall(self, _: Any) -> int:
        """Answer, or fail, in time."""
        self.calls += 1
        answer = asyncio.ensure_future(self.answers.get())
        while not answer.done():
            try:
                await asyncio.shield(answer)
            except asyncio.CancelledError:
                continue
        if isinstance(found := answer.result(), Exception):
            raise found
        return 0


def test_probes_do_not_wait_for_a_store_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is answered in bounded time, and all that come while one look goes on share it."""
    monkeypatch.setattr(routes, "_READY_SECONDS", 0.01)

    async def probe() -> list[Any]:
        store = Store()
        ready: Any = routes.ready_route(SimpleNamespace(metastore=store)).endpoint  # type: ignore[arg-type]
        found = [one.status_code for one in await asyncio.gather(*(ready(None) for _ in range(5)))]
        found += [(await ready(None)).status_code, store.calls]
        store.answers.put_nowait(StoreUnreachableError("gone"))
        found += [(await ready(None)).body, store.calls]
        store.answers.put_nowait(None)
        return [*found, (await ready(None)).status_code, store.calls]

    unavailable = b'{"status":"unavailable","detail":"StoreUnreachableError"}'
    assert asyncio.run(asyncio.wait_for(probe(), 60)) == [503, 503, 503, 503, 503, 503, 1, unavailable, 1, 200, 2]
