"""Connect for the first time and write one key. Usage: first_start.py PATH. Prints "up" before and "done" after."""

import sys

import milepost
from milepost import TaskScope

milepost.connect("memory://").close()  # so that all modules are loaded
print("up", flush=True)
sys.stdin.readline()
with milepost.connect(f"sqlite:///{sys.argv[1]}") as store:
    store.task_store(TaskScope("d", "r", "t", -1)).set("n", 1)
    print("done", flush=True)
