"""The process that outlives a runner for a moment: it kills what the runner left behind.

Run as a script, apart from the package, so that it starts at once. It reads lines from its standard input: ``+PGID``
when the runner has started a process group, ``-PGID`` when that has ended. When the input ends, the runner has ended,
in whatever way, and every group that is still on the list is killed.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Watch over the process groups named on standard input."""
    # It has to outlive what ends the runner: Ctrl-C in its terminal, a hang-up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended by itself


if __name__ == "__main__":
    main()
