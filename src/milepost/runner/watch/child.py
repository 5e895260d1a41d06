"""The process of one run, started by `milepost watch`, which writes to its standard input what to run."""

from __future__ import annotations

import json
import sys

from milepost.runner.guard import die_with

__all__ = ["main"]


def main() -> int:
    """Run the run that standard input describes.

    Returns:
        As `milepost.runner.run_file`.
    """
    data = sys.stdin.buffer.read()
    if not data:
        return 143  # the watch died before it could say what to do
    spec = json.loads(data)
    die_with(spec["watcher"])
    from milepost.errors import MilepostError
    from milepost.runner.run import run_file

    try:
        return run_file(spec["file"], spec["dag_id"], run_id=spec["run_id"], workers=spec["workers"], url=spec["url"])
    except MilepostError as error:
        sys.stderr.write(f"milepost: {error}\n")
        return 6
