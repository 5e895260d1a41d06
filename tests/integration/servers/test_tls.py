"""Encrypted connections to MariaDB: by themselves where the server has a certificate, checked where the URL names one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost import ManualClock, StoreUnreachableError, connect
from milepost.metastore.engines.mysql import MysqlEngine
from tests.conftest import Require
from tests.support.private import PrivateMysql


def certificate(folder: Path, name: str) -> Path:
    """Make a key and a certificate that vouches for itself."""
    made = folder / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / f"{name}.key", "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@pytest.fixture
def server(require: Require) -> Iterator[PrivateMysql]:
    """A server with a certificate."""
    require("openssl")
    require("MariaDB's programs", PrivateMysql.programs() is not None)
    made = PrivateMysql("--ssl-cert={folder}/own.pem", "--ssl-key={folder}/own.key")
    try:
        certificate(made.folder, "own")
        if os.getuid() == 0:
            shutil.chown(made.folder / "own.key", "nobody", "nogroup")
        made.start()
        yield made
    finally:
        made.stop()


def test_connections_are_encrypted_and_checked_against_the_certificate_that_is_named(
    server: PrivateMysql, tmp_path: Path
) -> None:
    """Without `ssl_ca` a connection is encrypted where it can be; with it, a server with another certificate is refused."""
    connection = MysqlEngine(server.url, clock=ManualClock()).open()
    with connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        assert cursor.fetchone()[1] != ""
        cursor.execute("CREATE DATABASE store")
    connection.close()
    url = server.url.replace("/mysql", "/store")
    with connect(f"{url}?ssl_ca={server.folder / 'own.pem'}") as store:
        store.verify()
    other = certificate(tmp_path, "other")
    with pytest.raises(StoreUnreachableError, match="certificate verify failed"):
        connect(f"{url}?ssl_ca={other}")
