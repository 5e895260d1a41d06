"""URLs of stores: what is secret in one never shows, and whatever is wrong in one is one error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost import ConfigurationError, MilepostError, connect
from milepost.cli import main
from milepost.config import load_settings, mask_url

SECRET = "s3cr3t-Pa55"

SHOWN = {
    "sqlite:////home/me/a@b.db": "sqlite:////home/me/a@b.db",
    "sqlite:///relative?.db": "sqlite:///relative?.db",
    "memory://": "memory://",
    "store.db": "store.db",
    "postgresql://me@db.example:5432/state": "postgresql://me@db.example:5432/state",
    "postgresql://me:pw@db.example/state": "postgresql://me:***@db.example/state",
    "postgresql://me:@db.example/state": "postgresql://me:***@db.example/state",
    "postgresql:///state?host=/var/run&user=me&password=pw": "postgresql:///state?host=/var/run&user=me&password=***",
    "postgresql://a:1,[::1]:2/state?sslmode=require&sslpassword=pw": (
        "postgresql://a:1,[::1]:2/state?sslmode=require&sslpassword=***"
    ),
    "mysql://root:p@ss/w?o#rd@h:3306/db": "mysql://root:***@h:3306/db",
    "mysql://root:pw/db": "mysql://root:***/db",
    "mysql://root:pw@h:port/db": "mysql://root:***@h:***/db",
    "mysql://[::1/db": "mysql://***/db",
    "http://token@h:8080/": "http://***@h:8080/",
    "https://h/?token=t&x=1#f": "https://h/?token=***&x=***",
    "host=h password=pw": "***",
    "postgresql:me:pw": "***",
    "postgresql://h/db;password=pw": "postgresql://h/***",
}


@pytest.mark.parametrize("url", SHOWN)
def test_what_is_shown_of_a_url(url: str) -> None:
    """Secrets and what may be one become stars; the rest stays, so that a person recognises the store."""
    assert mask_url(url) == SHOWN[url]


TEMPLATES = [
    "{scheme}://u:{secret}@h:1/db",
    "{scheme}://u:{secret}@/db",
    "{scheme}://u:{secret}",
    "{scheme}://u:{secret}@[::1/db",
    "{scheme}://u:{secret}@h:{secret}/db?x",
    "{scheme}://u:{secret}/db",
    "{scheme}://u:a@{secret}@h/db",
    "{scheme}://u:a/{secret}@h/db",
    "{scheme}://u:12/{secret}@h/db",
    "{scheme}://u:1?{secret}@h/db",
    "{scheme}://u:1#{secret}@h/db",
    "{scheme}://h/db?password={secret}",
    "{scheme}://h/db?user=u&sslpassword={secret}&sslmode=prefer",
    "{scheme}://h/db?PASSWORD={secret}",
    "{scheme}://h/db?{secret}",
    "{scheme}://h/db#{secret}",
    "{scheme}://h:0/db;password={secret}",
    "{scheme}://u:{secret}@h:99999/db",
    "{scheme}://u:%zz{secret}@h/db",
    "{scheme}://u:%ff{secret}@h/",
    "{scheme}:u:{secret}@h/db",
    "host=h password={secret} dbname=d",
    "host=h password={secret}:1 dbname=d",
]
secrets = st.text(st.sampled_from("ab9 /?#@:%&=;[]'\"\\+é漢\n"), max_size=6).map(
    lambda noise: f"{SECRET[:6]}{noise}{SECRET[6:]}"
)


def leaks(text: str) -> bool:
    """Tell whether a text shows both ends of the secret."""
    return SECRET[:6] in text and SECRET[6:] in text


@given(st.sampled_from(TEMPLATES), st.sampled_from(["postgresql", "mysql", "http"]), secrets, st.booleans())
def test_a_secret_never_shows(template: str, scheme: str, secret: str, quoted: bool) -> None:
    """Whatever the form of a URL and of the secret in it: no message, no repr and no cause of an error shows it."""
    url = template.format(scheme=scheme, secret=quote(secret, safe="") if quoted else secret)
    assert not leaks(mask_url(url))
    settings, error = outcome(lambda: repr(load_settings({"url": url}, {})))
    assert not leaks(f"{settings} {error}")
    if error is None:
        engine = engine_of if scheme != "http" and not template.startswith("host") else connect
        made, error = outcome(lambda: repr(engine(url)))
        assert not leaks(f"{made} {error} {error and error.__cause__}")
    assert "\n" not in str(error)


def outcome(work: Callable[[], str]) -> tuple[str | None, ConfigurationError | None]:
    """Return a text or the error that came in its place."""
    try:
        return work(), None
    except ConfigurationError as error:
        return None, error


def engine_of(url: str) -> str:
    """Make an engine, which parses the URL and connects to nothing yet, and return how it shows."""
    from milepost.clock import SystemClock
    from milepost.metastore.engines.mysql import MysqlEngine
    from milepost.metastore.engines.postgres import PostgresEngine

    made = (PostgresEngine if url.startswith("postgres") else MysqlEngine)(url, clock=SystemClock())
    return f"{made!r} {made.target}"


def run(*arguments: str) -> int:
    """Run a command and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


BAD = {
    "mysql://u:pw@127.0.0.1:port/db": "not a valid URL",
    "mysql://u:pw@127.0.0.1:70000/db": "not a valid URL",
    "mysql://u:pw@[::1/db": "not a valid URL",
    "mysql://u:p/w@h/db": "not a valid URL",
    "mysql://u:1/w@h/db": "not a valid URL",
    "mysql://u:%ff@h/db": "not a valid URL",
    "mysql://u:pw@h": "names no database",
    "mysql://u:pw@h/": "names no database",
    "mysql://u:pw@h/db?password=x": "unknown option 'password'",
    "mysql://u:pw@h/db?ssl_ca=/no/such/file": "cannot be used: No such file",
    "postgresql://u:pw@127.0.0.1:port/db": "not a valid URL",
    "postgresql://u:pw@127.0.0.1:0/db": "not a valid URL",
    "postgresql://u:p@w@h/db": "not a valid URL",
    "postgresql://u:p%zz@h/db": "not a valid URL",
    "postgresql://u:pw@h/db?passwrd=pw": "not a valid URL",
    "postgresql://u:pw@h/db?sslmode=no": "sslmode must be one of",
    "postgresql://u:pw@h/db?connect_timeout=soon": "connect_timeout must be a whole number",
}


@pytest.mark.parametrize("url", BAD)
def test_whatever_is_wrong_in_a_url_is_one_error(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a `ConfigurationError` in one line that shows the URL masked; the command line leaves with 2."""
    with pytest.raises(ConfigurationError, match=re.escape(BAD[url])) as caught:
        connect(url)
    assert "***" in str(caught.value)
    assert "pw" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert run("runs", "list", "--url", url) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "pw" not in shown.err


def test_a_url_of_another_type_is_refused_without_being_shown() -> None:
    """Bytes, which may hold a password as well, are named by their type."""
    with pytest.raises(ConfigurationError) as caught:
        connect(b"postgresql://u:pw@h/db")  # type: ignore[arg-type]
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("text", ["url postgresql://u:pw@h/db", "[state_store]\nthe pw alone\n"])
def test_a_malformed_file_is_not_quoted(text: str, tmp_path: Path) -> None:
    """The error for a configuration file that is no INI file names the line and does not show it."""
    file = tmp_path / "milepost.cfg"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"milepost\.cfg: not a valid INI file: line \d") as caught:
        load_settings({}, {"MILEPOST_CONFIG": str(file)})
    assert "pw" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("command", [["config", "show"], ["doctor"]])
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:1/db?sslpassword={SECRET}",
        f"postgresql:///db?host=/no/such/folder&password={SECRET}",
        f"mysql://u:{SECRET}@127.0.0.1:1/db",
        f"mysql://u:{SECRET}@127.0.0.1:{SECRET}/db",
    ],
)
def test_commands_that_show_the_url_mask_it(command: list[str], url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`config show` and `doctor` mask passwords in every place of a URL, for people and as JSON."""
    for extra in ([], ["--json"]):
        run(*command, "--url", url, *extra)
        shown = capsys.readouterr()
        assert SECRET not in shown.out + shown.err
        assert "***" in shown.out + shown.err
        if extra and shown.out:
            json.loads(shown.out)


def test_an_unreachable_store_is_named_masked() -> None:
    """The error of a server that is not there shows neither the password nor more than one line."""
    for url in (f"postgresql://u:{SECRET}@127.0.0.1:1/db", f"mysql://u:{SECRET}@127.0.0.1:1/db"):
        with pytest.raises(MilepostError) as caught:
            connect(url)
        assert SECRET not in f"{caught.value} {caught.value.__cause__}"
        assert "\n" not in str(caught.value)
