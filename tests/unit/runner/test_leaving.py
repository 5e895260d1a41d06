"""The end of an attempt's process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from milepost.runner import leaving

leaving.SECONDS = 0.1

def main():
    threading.Thread(target=threading.Event().wait, name="lost").start()
    {}

leaving.leave(main)
"""


def test_a_process_ends_whatever_its_threads_do() -> None:
    """The code is that of the function, or 1 where it raises; either way nobody waits for the threads."""
    for line, code in (
        ("return 12", 12),
        ("sys.stdout = None; return 12", 12),
        ("sys.stderr.close(); return 12", 12),
        ("raise RuntimeError('odd')", 1),
    ):
        done = subprocess.run([sys.executable, "-c", PROGRAM.format(line)], capture_output=True, text=True, timeout=60)
        assert done.returncode == code
        if "sys" not in line:
            said = "the task has left behind: thread lost; the process ends without waiting for it"
            assert done.stderr.splitlines()[-1] == said
        assert ("RuntimeError: odd" in done.stderr) == ("odd" in line)
