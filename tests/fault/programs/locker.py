"""Hold the write lock of a file. Usage: locker.py PATH; says "held", lets go at the next line on stdin."""

import sqlite3
import sys
from contextlib import closing

with closing(sqlite3.connect(sys.argv[1], isolation_level=None)) as connection:
    connection.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
