"""A task with several inlets: one cursor for each, kept where the results are.

``orders`` and ``payments`` are two assets that grow at their own pace. ``settle`` reads both. With two inlets there is no
"the" asset, so it subscripts: ``asset_store[ORDERS]``. What it has read of each inlet it keeps on its own outlet, so that
another reader of the same inlets can be at another place.

Run it several times; each run settles only what is new:
``milepost run examples/multi_inlet.py --run-id r1``, then with ``r2``. Files go to the folder SHOP_FOLDER.
"""

import json
import os
from pathlib import Path
from typing import Any

from milepost.sdk import DAG, Asset, task

FOLDER = Path(os.environ.get("SHOP_FOLDER", "build/shop"))
ORDERS = Asset("shop.orders", uri="file:///shop/orders")
PAYMENTS = Asset("shop.payments", uri="file:///shop/payments")
SETTLED = Asset("shop.settled", uri="file:///shop/settled")


def read(name: str) -> list[dict[str, Any]]:
    """Return the rows of a file; none if it is not there yet."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def deliver(name: str, run_id: str, amounts: list[int]) -> int:
    """Add the rows of a run to a file, once, and return how many rows it has now."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = [row for row in read(name) if row["run"] != run_id]  # a retry delivers again
    rows += [{"run": run_id, "amount": amount} for amount in amounts]
    part = FOLDER / f"{name}.part"
    part.write_text(json.dumps(rows))
    part.replace(FOLDER / f"{name}.json")
    return len(rows)


with DAG("multi_inlet") as dag:

    @task(outlets=[ORDERS])
    def orders(asset_store=None, run_id=None):
        """Three orders come in. With one outlet and no inlet, no subscript is needed."""
        asset_store.set("rows", deliver("orders", run_id, [10, 20, 30]))

    @task(outlets=[PAYMENTS])
    def payments(asset_store=None, run_id=None):
        """Two payments come in."""
        asset_store.set("rows", deliver("payments", run_id, [10, 20]))

    @task(inlets=[ORDERS, PAYMENTS], outlets=[SETTLED])
    def settle(asset_store=None):
        """Settle what came in since the last time."""
        settled = asset_store[SETTLED]
        positions, balance = {}, settled.get("balance", default=0)
        for asset, file, sign in ((ORDERS, "orders", -1), (PAYMENTS, "payments", 1)):
            start = settled.get(f"position/{asset.name}", default=0)
            end = asset_store[asset].get("rows")
            balance += sign * sum(row["amount"] for row in read(file)[start:end])
            positions[f"position/{asset.name}"] = end
            print(f"{asset.name}: rows {start} to {end}")
        settled.set_many({**positions, "balance": balance})  # positions and result move together
        print(f"balance {balance}")

    [orders(), payments()] >> settle()
