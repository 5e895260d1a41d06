"""Attempts die with the runner.

The runner keeps a small process beside it, the *reaper* (`milepost.runner.reaper`), that kills the process groups of
all attempts when the runner is gone. On Linux, the kernel kills the attempt itself too, in case the reaper went first.
"""

from __future__ import annotations

import os
import sys

__all__ = ["die_with"]

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel, where it can, to kill this process when its parent dies.

    Args:
        parent: The process id of the parent; if it is gone already, this process ends now.
    """
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    # It may have died between the fork and the call above.
    if os.getppid() != parent:
        os._exit(1)
