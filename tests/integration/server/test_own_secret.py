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


@pytest.mark.parametrize(
    "place", ["argument", "token", "variable", "milepost.cfg", "secret_file", "state folder", "Airflow"]
)
def test_the_error_over_a_wrong_secret_names_its_source(
    url: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shows what a server does not accept is told where that is from, and not what it is."""
    from milepost.airflow.process import store as in_airflow
    from milepost.airflow.settings import AirflowSettings

    for name in ("MILEPOST_CONFIG", "MILEPOST_TOKEN", "MILEPOST__SERVER__SECRET", "MILEPOST__SERVER__SECRET_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILEPOST_HOME", str(tmp_path))
    wrong, file, arguments, source = "not-the-secret-at-all", tmp_path / "file", {}, f"file {tmp_path}/{SECRET_FILE}"
    if place in ("milepost.cfg", "secret_file"):
        file.write_text(f"[server]\nsecret = {wrong}" if place == "milepost.cfg" else wrong)
        monkeypatch.setenv("MILEPOST_CONFIG" if place == "milepost.cfg" else "MILEPOST__SERVER__SECRET_FILE", str(file))
        source = f"{file} [server] secret"
        if place == "secret_file":
            source = f"secret_file {file} (named by environment variable MILEPOST__SERVER__SECRET_FILE)"
    elif place in ("argument", "token"):
        name = "secret" if place == "argument" else "token"
        arguments, source = {name: wrong}, f"argument {name}"
    elif place == "variable":
        monkeypatch.setenv("MILEPOST__SERVER__SECRET", wrong)
        source = "environment variable MILEPOST__SERVER__SECRET"
    elif place == "Airflow":
        source = "environment variable AIRFLOW__MILEPOST__SECRET_CMD"
    else:
        (tmp_path / SECRET_FILE).write_text(wrong)
    if place == "Airflow":
        store = in_airflow(AirflowSettings({"url": url}, wrong, None, 3, False, 0, False, True, {"secret": source}))
    else:
        store = connect(url, **arguments)
    with store, pytest.raises(AuthenticationError) as caught:
        store.runs.list()
    assert str(caught.value) == f"the credential is unknown to this server ({url}); it is from {source}"


def test_a_file_of_secrets_with_a_bad_line(tmp_path: Path) -> None:
    """Each line of the file has to be a secret, or empty."""
    for text in ("a-good-worker-secret\nshort", "a-good-worker-secret\nwith a space in it", "\n \n"):
        (tmp_path / "secret").write_text(text)
        with pytest.raises(ConfigurationError):
            read_secrets(load_server_settings({"secret_file": str(tmp_path / "secret")}, {}))
