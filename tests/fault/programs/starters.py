"""Processes that start together. Usage: starters.py ROLE NAME; waits for lines on stdin, answers on stdout.

Roles: first (each line is a path: connect, write, close), s13 (one path), cleaner (one path; cleans until the next line).
"""

import select
import sys

import milepost
from milepost import TaskScope

SCOPE = TaskScope("d", "r", "t", -1)


def first(name: str) -> None:
    """Open each named file as soon as it is named, write a key of one's own and read it back."""
    for line in iter(sys.stdin.readline, ""):
        with milepost.connect(f"sqlite:///{line.rstrip()}") as store:
            task = store.task_store(SCOPE)
            task.set(name, name)
            assert task.get(name) == name
        print("done", flush=True)


def s13(name: str) -> None:
    """Do what S-13 says: 50 own keys, 50 times the shared key."""
    with milepost.connect(f"sqlite:///{sys.stdin.readline().rstrip()}") as store:
        task = store.task_store(SCOPE)
        for number in range(50):
            task.set(f"{name}-{number}", number)
            task.set("shared", {"writer": name, "number": number, "filler": [name] * 200})
    print("done", flush=True)


def cleaner(name: str) -> None:
    """Collect garbage in a loop until told to stop, at least once: a busy machine may let the others finish first."""
    with milepost.connect(f"sqlite:///{sys.stdin.readline().rstrip()}") as store:
        store.clean()
        while not select.select([sys.stdin], [], [], 0)[0]:
            store.clean()
    print("done", flush=True)


if __name__ == "__main__":
    print("ready", flush=True)
    globals()[sys.argv[1]](sys.argv[2])
