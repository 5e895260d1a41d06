"""Run the measurements: ``python -m benchmarks [--rows N] [NAME …]``."""

from __future__ import annotations

import argparse
import platform
import sqlite3
import sys
import traceback
from collections.abc import Callable
from functools import partial

from benchmarks import (
    bench_assets,
    bench_attempt,
    bench_collect,
    bench_get,
    bench_http,
    bench_many_rows,
    bench_rest,
    bench_server,
    bench_set,
    bench_set_many,
    bench_start_up,
    bench_task_start,
    bench_watch,
)
from benchmarks.harness import Figure, keep, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Milepost beside other libraries.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large file (the figure needs 10000000)")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only these: get set set_many many_rows start_up attempt collect server watch http rest assets task_start",
    )
    arguments = parser.parse_args()
    scripts: dict[str, Callable[[], list[Figure]]] = {
        "get": bench_get.figures,
        "set": bench_set.figures,
        "set_many": bench_set_many.figures,
        "start_up": bench_start_up.figures,
        "attempt": bench_attempt.figures,
        "many_rows": partial(bench_many_rows.figures, arguments.rows),
        "collect": bench_collect.figures,
        "server": partial(bench_server.figures, arguments.rows),
        "watch": bench_watch.figures,
        "http": bench_http.figures,
        "rest": partial(bench_rest.figures, arguments.rows),
        "assets": bench_assets.figures,
        "task_start": bench_task_start.figures,
    }
    if unknown := set(arguments.names) - set(scripts):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {' '.join(scripts)}")
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}\n")
    figures: list[Figure] = []
    failed: list[str] = []
    for name in arguments.names or scripts:
        print(f"… {name}", file=sys.stderr, flush=True)
        try:
            found = scripts[name]()
        except Exception:  # noqa: BLE001 - the other figures are still worth having
            traceback.print_exc()
            failed.append(name)
            continue
        keep(name, found)
        figures += found
    print(table(figures), end="\n\n")
    for figure in figures:
        if figure.note:
            print(f"{figure.measure}: {figure.note}")
        if figure.reached is False:
            print(f"not reached: {figure.measure}, {figure.because()}")
    for name in failed:
        print(f"not measured: {name}, it failed; see above")
    return 0


if __name__ == "__main__":
    sys.exit(main())
