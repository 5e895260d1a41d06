"""Which file system a path lies on (Linux), and whether SQLite's WAL works on it."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

__all__ = ["MOUNTINFO", "Mount", "is_network", "is_volatile", "mount_of"]

MOUNTINFO = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "cvmfs", "davfs", "drvfs", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs",
    }
)  # fmt: skip
"""Shared with other machines, or with the host of a virtual one: no shared memory among all who open a file."""

_NETWORK_FUSE = re.compile(
    r"^fuse\.(?:sshfs|s3fs|rclone|glusterfs|ceph|davfs2?|gcsfuse|blobfuse2?|juicefs|mount-s3|goofys|grpcfuse|vmhgfs)"
)


class Mount(NamedTuple):
    """One mounted file system.

    Args:
        point: Where it is mounted.
        kind: Its type, as the kernel calls it.
    """

    point: str
    kind: str


def mount_of(path: str, mountinfo: str) -> Mount | None:
    """Return the file system that a path lies on.

    Args:
        path: An absolute path without symbolic links.
        mountinfo: The text of ``/proc/self/mountinfo``.

    Returns:
        The mount, or `None` where the text has none for the path.
    """
    parents = {str(part) for part in (PurePosixPath(path), *PurePosixPath(path).parents)}
    best: Mount | None = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        # Of two mounts on one point the later one is in force.
        if point in parents and (best is None or len(point) >= len(best.point)):
            best = Mount(point, after.split()[0])
    return best


def is_network(kind: str) -> bool:
    """Tell whether files of this type of file system may be open on several machines at once."""
    return kind in _NETWORK or _NETWORK_FUSE.match(kind) is not None


def is_volatile(kind: str) -> bool:
    """Tell whether a file system is gone after a restart."""
    return kind in ("tmpfs", "ramfs")
