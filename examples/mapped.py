"""A mapped task: every index has a task store of its own, and a killed one goes on where it stood.

Four shops deliver their sales in five pages each. Every shop is one mapped instance. The instance of the shop "south" is
killed with SIGKILL behind its third page. Its next attempt starts at page 3; the others are not touched.

``map_key`` says what identifies an item: the shop. Were the list of shops changed and the task cleared, no instance would
be handed the checkpoint of another shop.

Run it with ``milepost run examples/mapped.py --run-id r1 --workers 2``.
"""

import os
import signal

from milepost.sdk import DAG, options, task

PAGES = 5
SHOPS = ["north", "east", "south", "west"]


def sales(shop: str, page: int) -> int:
    """Return the sales on one page. A real shop would be asked over the network."""
    return (len(shop) * 37 + page * 11) % 100


with DAG("mapped") as dag:

    @task(retries=2, retry_delay=0.1)
    @options(map_key="shop")
    def load(shop, task_store=None, ti=None):
        """Add up the pages of one shop."""
        page, total = task_store.get("page", default=0), task_store.get("total", default=0)
        print(f"{shop}, attempt {ti.try_number}: starts at page {page}")
        while page < PAGES:
            total += sales(shop, page)
            page += 1
            task_store.set_many({"page": page, "total": total})  # both or neither
            if shop == "south" and page == 3 and ti.try_number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"shop": shop, "total": total}

    @task
    def report(shops):
        """Print the totals, in the order of the list."""
        print(", ".join(f"{one['shop']} {one['total']}" for one in shops))

    report(load.expand(shop=SHOPS))
