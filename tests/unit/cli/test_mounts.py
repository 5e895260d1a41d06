"""Which file system a path lies on."""

from __future__ import annotations

import pytest

from milepost.cli.mounts import Mount, is_network, is_volatile, mount_of

TEXT = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /home rw shared:5 - nfs4 server:/home rw,vers=4.2
31 22 0:41 / /home/local rw - xfs /dev/vdb rw
32 22 0:42 / /mnt/with\040blank rw - cifs //server/share rw
33 22 0:43 / /mnt/twice rw - ext4 /dev/vdc rw
34 22 0:44 / /mnt/twice rw master:7 propagate_from:2 - fuse.sshfs me@server: rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", Mount("/", "ext4")),
        ("/homely/x", Mount("/", "ext4")),
        ("/home/me/store.db", Mount("/home", "nfs4")),
        ("/home/local/store.db", Mount("/home/local", "xfs")),
        ("/home/localx", Mount("/home", "nfs4")),
        ("/mnt/with blank/store.db", Mount("/mnt/with blank", "cifs")),
        ("/mnt/twice/store.db", Mount("/mnt/twice", "fuse.sshfs")),
    ],
)
def test_the_innermost_latest_mount_counts(path: str, expected: Mount) -> None:
    """A path lies on the deepest mount above it; of two on one point the later one is in force."""
    assert mount_of(path, TEXT) == expected


def test_nothing_is_known_without_mounts() -> None:
    """Where the system lists no mounts, nothing is guessed."""
    assert mount_of("/x", "") is None


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "lustre", "ceph", "vboxsf"]
)
def test_network_file_systems_are_known(kind: str) -> None:
    """File systems that other machines can have open are told from local ones."""
    assert is_network(kind)


@pytest.mark.parametrize(
    "kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "tmpfs", "apfs", "fuseblk", "fuse.ntfs-3g", "f2fs"]
)
def test_local_file_systems_are_not_refused(kind: str) -> None:
    """Local file systems are none of them, and only those in memory are volatile."""
    assert not is_network(kind)
    assert is_volatile(kind) is (kind == "tmpfs")
