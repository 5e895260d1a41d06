"""An event trigger on a table with a growing id: every row starts one run, also when the watch is killed in between.

``NewRows`` keeps the id of the last row that it has told of. For each row behind it, it yields an event first and stores the
id second: killed in between, it yields the same event again, under the same id, and that starts no second run.

Watch: ``milepost watch examples/growing_table.py``, and add rows to the table ``orders`` in the SQLite file ORDERS:
``python examples/growing_table.py 5`` adds five.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from milepost.sdk import Asset, AssetWatcher, BaseEventTrigger, TriggerEvent, dag, task

ORDERS = Path(os.environ.get("ORDERS", "build/orders.db"))


def connect() -> sqlite3.Connection:
    """Open the shop's own database, which has nothing to do with the store."""
    ORDERS.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(ORDERS, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, amount INTEGER NOT NULL)")
    return connection


def rows_after(last: int) -> list[tuple[int, int]]:
    """Return up to 100 rows behind an id, in the order of their ids."""
    with closing(connect()) as connection:
        return connection.execute("SELECT id, amount FROM orders WHERE id > ? ORDER BY id LIMIT 100", (last,)).fetchall()


class NewRows(BaseEventTrigger):
    """Tells of new rows, one by one."""

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each row, then store its id."""
        last = await self.asset_store.aget("last", 0)
        while True:
            for row, amount in await asyncio.to_thread(rows_after, last):
                yield TriggerEvent({"row": row, "amount": amount}, id=str(row))
                last = row
                await self.asset_store.aset("last", last)
            await asyncio.sleep(0.5)


ROWS = Asset("shop.rows", uri="sqlite:///orders", watchers=[AssetWatcher("new_rows", NewRows())])
TOTALS = Asset("shop.totals", uri="sqlite:///totals")


@dag(schedule=ROWS)
def growing_table():
    @task(outlets=[TOTALS])
    def book(params, asset_store=None):
        order = params["event"]["payload"]
        asset_store.set(f"booked/{order['row']:06}", order["amount"])

    book()


growing_table()

if __name__ == "__main__":
    with closing(connect()) as shop:
        for number in range(int(sys.argv[1])):
            shop.execute("INSERT INTO orders (amount) VALUES (?)", (100 + number,))
