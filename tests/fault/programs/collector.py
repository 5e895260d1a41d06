"""A collector. Usage: collector.py URL BATCH; says `batch` after each batch, and at the end how many rows went."""

import sys

import milepost


def main(url: str, batch: str) -> None:
    """Collect."""
    with milepost.connect(url) as store:
        print("ready", flush=True)
        report = store.clean(batch_size=int(batch), progress=lambda *_: print("batch", flush=True))
        print(report.expired, flush=True)


main(*sys.argv[1:])
