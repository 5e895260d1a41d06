"""Print the value of a key as repr. Usage: peek.py PATH KEY."""

import sys

import milepost
from milepost import TaskScope

with milepost.connect(f"sqlite:///{sys.argv[1]}") as store:
    store.verify()
    print(repr(store.task_store(TaskScope("d", "r", "t", -1)).get(sys.argv[2])))
