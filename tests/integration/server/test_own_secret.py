"""The worker secret: that of a server on loopback where none was configured, and how it is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import AuthenticationError, ConfigurationError, Store, TaskScope, connect
from milepost.calls import Now
from milepost.config import load_server_settings
from milepost.config.server import SECRET_FILE, read_secret, read_secrets
from milepost.server.serve import own_secret
from tests.fault.server_helpers import together
from tests.support.serving import Served


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


def test_the_secret_is_changed_without_a_break(behind: Store, served: Served, tmp_path: Path) -> None:
    """While older secrets stand below the new one, they and the tokens made with them open the store; tokens move on."""
    old, new = "an-old-worker-secret", "a-new-worker-secret"
    (tmp_path / "secret").write_text(f"{new}\n{old}\n")
    settings = load_server_settings({"secret_file": str(tmp_path / "secret")}, {})
    assert read_secrets(settings) == [new, old]
    assert read_secret(settings) == new  # what clients show
    scope = TaskScope("dag", "run", "task")
    before, both, after = (served.add(behind, secrets=secrets) for secrets in ([old], [new, old], [new]))
    with connect(before, secret=old) as launcher:
        token = launcher.metastore.token(scope, 1).token  # type: ignore[attr-defined]
    for secret in (old, new):
        with connect(both, secret=secret) as launcher:
            launcher.task_store(scope).set("by", secret)
    with connect(both, token=token) as worker:
        worker.instances.open(scope, 1)
        moved = worker.metastore._credential.decode()  # type: ignore[attr-defined]
    for credential in (old, token):
        with connect(after, token=credential) as gone, pytest.raises(AuthenticationError):
            gone.metastore.call(Now())
    with connect(after, token=moved) as worker:
        assert worker.instances.open(scope, 1)["task_store"].get("by") == new


def test_a_file_of_secrets_with_a_bad_line(tmp_path: Path) -> None:
    """Each line of the file has to be a secret, or empty."""
    for text in ("a-good-worker-secret\nshort", "a-good-worker-secret\nwith a space in it", "\n \n"):
        (tmp_path / "secret").write_text(text)
        with pytest.raises(ConfigurationError):
            read_secrets(load_server_settings({"secret_file": str(tmp_path / "secret")}, {}))
