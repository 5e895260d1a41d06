"""The worker secret of a server on loopback, where none was configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import ConfigurationError
from milepost.config.server import SECRET_FILE
from milepost.server.serve import own_secret
from tests.fault.server_helpers import together


def test_servers_that_start_together_have_one_secret(tmp_path: Path) -> None:
    """The secret is made once, whole, readable by its owner only, and nothing else is left behind."""
    found: list[str] = []
    together(8, lambda _: found.append(own_secret({"MILEPOST_HOME": str(tmp_path)})))
    (secret,) = set(found)
    assert len(secret) >= 32
    (file,) = tmp_path.iterdir()
    assert (file.name, file.read_text(), file.stat().st_mode & 0o777) == (SECRET_FILE, secret, 0o600)


def test_an_empty_secret_opens_nothing(tmp_path: Path) -> None:
    """A file without a secret in it, which a full disk leaves, is an error that names it."""
    (tmp_path / SECRET_FILE).write_text("")
    with pytest.raises(ConfigurationError, match=f"{SECRET_FILE}.* must be a text that is not empty"):
        own_secret({"MILEPOST_HOME": str(tmp_path)})
