"""Print the value of a key in each of some files as repr. Usage: peek.py KEY PATHS."""

import sys

import milepost
from milepost import TaskScope

for path in sys.argv[2:]:
    with milepost.connect(f"sqlite:///{path}") as store:
        store.verify()
        print(repr(store.task_store(TaskScope("d", "r", "t", -1)).get(sys.argv[1])))
