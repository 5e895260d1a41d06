"""Settings: argument, then environment, then file, then default (SPEC 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost import ConfigurationError, connect
from milepost.config import OPTIONS, Settings, load_settings

PREFIX = "MILEPOST__STATE_STORE__"
DEFAULTS = {
    "backend": None,
    "default_retention_days": 30,
    "clear_on_success": False,
    "state_cleanup_batch_size": 0,
    "max_value_bytes": 65_536,
    "on_clear": "discard",
    "archive_days": 7,
    "asset_history_limit": 100,
    "unfinished_days": 90,
    "synchronous": "full",
}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose configuration file says nothing, whatever the person's own says."""
    file = tmp_path / "empty.cfg"
    file.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILEPOST_CONFIG", str(file))
    return {"MILEPOST_CONFIG": str(file)}


def test_defaults_are_the_documented_ones(empty: dict[str, str], tmp_path: Path) -> None:
    """Without any source the defaults of SPEC 6 are in force, and MILEPOST_HOME moves the file."""
    loaded = load_settings({}, {**empty, "MILEPOST_HOME": str(tmp_path)})
    assert loaded.url == f"sqlite:///{tmp_path}/milepost.db"
    for name, value in DEFAULTS.items():
        assert getattr(loaded, name) == value
        assert OPTIONS[name].default == value
    assert load_settings({}, empty).url.endswith("/milepost.db")


def test_argument_beats_environment_beats_file_beats_default(empty: dict[str, str]) -> None:
    """The argument wins over the environment, that over the file, that over the default; None is not given."""
    assert load_settings({}, empty).archive_days == 7
    Path(empty["MILEPOST_CONFIG"]).write_text("[state_store]\narchive_days = 8\non_clear = keep\n")
    assert load_settings({}, empty).archive_days == 8
    environment = {**empty, f"{PREFIX}ARCHIVE_DAYS": "9"}
    assert load_settings({"archive_days": None}, environment).archive_days == 9
    loaded = load_settings({"archive_days": 10}, environment)
    assert (loaded.archive_days, loaded.on_clear) == (10, "keep")


def test_every_option_has_an_environment_variable(empty: dict[str, str]) -> None:
    """Each option is read from its MILEPOST__STATE_STORE__ variable."""
    values = {
        "url": "memory://", "backend": "a.B", "default_retention_days": "1", "clear_on_success": "yes",
        "state_cleanup_batch_size": "2", "max_value_bytes": "3", "on_clear": "KEEP", "archive_days": "4",
        "asset_history_limit": "5", "orphan_grace_hours": "7", "unfinished_days": "6", "synchronous": "normal",
        "prepared_statements": "no",
    }  # fmt: skip
    assert values.keys() == OPTIONS.keys()
    loaded = load_settings({}, {**empty, **{f"{PREFIX}{name.upper()}": value for name, value in values.items()}})
    assert loaded == Settings("memory://", "a.B", 1, True, 2, 3, "keep", 4, 5, 7, 6, "normal", False)


BAD = [
    ("default_retention_days", -5, "0 or more"),
    ("default_retention_days", "-1", "0 or more"),
    ("default_retention_days", "thirty", "whole number"),
    ("default_retention_days", 1.5, "whole number"),
    ("default_retention_days", True, "whole number"),
    ("max_value_bytes", "64k", "whole number"),
    ("clear_on_success", "perhaps", "true or false"),
    ("clear_on_success", 1, "true or false"),
    ("on_clear", "forget", "discard, keep"),
    ("synchronous", "off", "full, normal"),
    ("url", "", "not empty"),
    ("url", 5, "a text, not int"),
    ("url", "a.db", "sqlite:///a.db"),
    ("url", "sqlite://a.db", "sqlite:///a.db"),
]


@pytest.mark.parametrize(("name", "value", "said"), BAD)
def test_s17_bad_values_name_their_place(empty: dict[str, str], name: str, value: Any, said: str) -> None:
    """S-17: a bad value, a negative default retention too, is an error that names option, place and value."""
    with pytest.raises(ConfigurationError, match=rf"^argument: {name} must be.*{said}.*{value!r}"):
        load_settings({name: value}, empty)
    if isinstance(value, str):
        variable = f"{PREFIX}{name.upper()}"
        with pytest.raises(ConfigurationError, match=f"environment variable {variable}.*{said}"):
            load_settings({}, {**empty, variable: value})
        file = Path(empty["MILEPOST_CONFIG"])
        file.write_text(f"[state_store]\n{name} = {value}\n")
        with pytest.raises(ConfigurationError, match=rf"{file}.*{name} must be.*{said}"):
            load_settings({}, empty)


def test_a_path_is_no_url(empty: dict[str, str]) -> None:
    """A `Path` as url is an error that shows the URL to write."""
    with pytest.raises(ConfigurationError, match=r"must be a text such as sqlite:////data/a\.db"):
        load_settings({"url": Path("/data/a.db")}, empty)


def test_a_password_in_a_bad_url_is_not_shown(empty: dict[str, str]) -> None:
    """The error about a bad url masks its password."""
    with pytest.raises(ConfigurationError, match="sqlite:///FILE") as caught:
        load_settings({"url": "sqlite://u:secret@h/a.db"}, empty)
    assert "secret" not in str(caught.value)


def test_unknown_options_name_their_place(empty: dict[str, str]) -> None:
    """An unknown option or section is an error that names the place and the options there are, from every source."""
    with pytest.raises(ConfigurationError, match=r"argument: there is no option 'colour'.*on_clear"):
        load_settings({"colour": "red"}, empty)
    with pytest.raises(ConfigurationError, match="colour"):
        load_settings({"colour": None}, empty)
    with pytest.raises(ConfigurationError, match=f"variable {PREFIX}COLOUR: there is no option 'colour'"):
        load_settings({}, {**empty, f"{PREFIX}COLOUR": "red"})
    file = Path(empty["MILEPOST_CONFIG"])
    file.write_text("[state_store]\ncolour = red\n")
    with pytest.raises(ConfigurationError, match=f"{file}.*no option 'colour'"):
        load_settings({}, empty)


def test_connect_reports_bad_settings_before_it_opens_anything(empty: dict[str, str], tmp_path: Path) -> None:
    """A configuration error leaves no file behind, and an unknown kind of URL is one."""
    path = tmp_path / "store.db"
    with pytest.raises(ConfigurationError, match="default_retention_days"):
        connect(f"sqlite:///{path}", default_retention_days=-5)
    assert not path.exists()
    for url in ("redis://host", "sqlite:///", f"sqlite:///{tmp_path}/", "nonsense"):
        with pytest.raises(ConfigurationError):
            connect(url)
    with pytest.raises(ConfigurationError, match=r"write postgresql://, without \+psycopg2$"):
        connect("postgresql+psycopg2://ada@db/x")


def test_passwords_are_masked(empty: dict[str, str]) -> None:
    """The repr of settings shows no password of the URL."""
    loaded = load_settings({"url": "postgresql://ada:s3cret@db.example:5432/x?sslmode=require"}, empty)
    assert "s3cret" not in repr(loaded)
    assert "postgresql://ada:***@db.example:5432/x?sslmode=require" in repr(loaded)
    assert loaded.url.startswith("postgresql://ada:s3cret@")
    assert "'memory://'" in repr(load_settings({"url": "memory://"}, empty))


def test_stores_show_no_password(empty: dict[str, str]) -> None:
    """The repr of a store shows its settings and the repr of an accessor its scope."""
    from milepost import Asset, TaskScope

    with connect("memory://") as store:
        assert "memory://" in repr(store)
        assert repr(store.task_store(TaskScope("d", "r", "t"), attempt=2)) == "<TaskStoreAccessor d/r/t, attempt 2>"
        assert repr(store.asset_store(Asset("a", "s3://a"))) == "<AssetStoreAccessor a (s3://a)>"
