"""`milepost doctor`: look for what is wrong around a store, and say how to mend it."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from milepost import __version__, connect
from milepost.cli.airflow_options import airflow_here, plugin_is_found, where_configured
from milepost.cli.common import AsJson, Url, say, show, size_text, when
from milepost.cli.exits import Exit
from milepost.cli.mounts import MOUNTINFO, is_network, is_volatile, mount_of
from milepost.config import Settings, config_file, mask_url, resolve
from milepost.errors import ConfigurationError, MilepostError, SchemaOutdatedError, SchemaTooNewError
from milepost.metastore.engines.sqlite_schema import MINIMUM_SQLITE, look
from milepost.store import sqlite_path

__all__ = ["Check", "register"]

_MIB = 1024 * 1024
_FREE_WARN, _FREE_FAIL = 200 * _MIB, 10 * _MIB
_WAL_WARN = 64 * _MIB
_SYNCS = 5
_SLOW_SYNC = 0.1
"""Seconds for one fsync above which every `set` is felt."""
_SKEW = timedelta(seconds=5)


class Check(NamedTuple):
    """What one check found.

    Args:
        name: What was checked.
        status: ``ok``, ``warn`` or ``fail``.
        text: What was found.
        fix: What to do about it.
    """

    name: str
    status: Literal["ok", "warn", "fail"]
    text: str
    fix: str | None = None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(url: Url = None, as_json: AsJson = False) -> int:
    """Check the store and what is around it, and say what to mend. Creates and changes nothing.

    Leaves with 0 if nothing failed (warnings do not count), 2 for a fault in the configuration, 6 for any other.

    Example: milepost doctor --json
    """
    checks = list(_checks(url))
    failed = [check.name for check in checks if check.status == "fail"]
    code = Exit.USAGE if "configuration" in failed else Exit.STORE if failed else Exit.OK
    if as_json:
        show({"ok": not failed, "checks": [check._asdict() for check in checks]})
        return code
    width = max(len(check.name) for check in checks)
    for check in checks:
        say(f"{check.status:<4}  {check.name:<{width}}  {check.text}")
        if check.fix:
            say(f"{'':<4}  {'':<{width}}  to mend: {check.fix}")
    return code


def _checks(url: str | None) -> Iterator[Check]:
    yield Check("milepost", "ok", __version__)
    yield Check("python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield _sqlite()
    try:
        path = config_file(os.environ)
        found = resolve({"url": url})
        settings = Settings(**{name: one.value for name, one in found.items()})
    except ConfigurationError as error:
        yield Check("configuration", "fail", str(error), "correct or remove the setting that it names")
        return
    changed = [name for name, one in found.items() if one.source != "default" and name != "url"]
    yield Check("configuration", "ok", f"{path or 'no file'}; set: {', '.join(changed) or 'nothing'}")
    yield from _airflow(url)
    yield Check("store", "ok", f"{mask_url(settings.url)} (from {'--url' if url else found['url'].source})")
    if settings.url.startswith("sqlite:///"):
        try:
            checks = list(_file(sqlite_path(settings.url)))
        except ConfigurationError as error:
            yield Check("configuration", "fail", str(error), "name a file as url")
            return
        except OSError as error:
            yield Check("file", "fail", f"cannot be looked at: {error}", "give this user the right to")
            return
        yield from checks
        if any(check.status == "fail" for check in checks if check.name in ("folder", "file")):
            return
    elif settings.url.startswith(("http:", "https:")):
        from milepost.cli.doctor_server import server_checks  # it brings an HTTP client

        yield from server_checks(settings.url)
        return
    elif settings.url.startswith("memory:"):
        yield Check("durability", "warn", "memory:// is gone when its process ends", "name a sqlite:/// file as url")
        return
    yield from _schema(settings)


def _airflow(url: str | None) -> Iterator[Check]:
    """Say whose store this is, where Airflow is configured to use one."""
    place = where_configured()
    if place is None:
        return
    if not airflow_here():
        text = f"configured ({place}), and not in this Python: another store than its tasks' may be looked at"
        yield Check("airflow", "warn", text, "run this with the Python of Airflow, or name its store with --url")
        return
    whose = "--url, not what its tasks use" if url else "the store that its tasks use"
    if plugin_is_found():
        yield Check("airflow", "ok", f"configured ({place}); this looks at {whose}; the plugin is found")
    else:
        text = f"configured ({place}); this looks at {whose}; the plugin is not found"
        yield Check("airflow", "warn", text, "install Milepost into the environment of Airflow")


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    with sqlite3.connect(":memory:") as connection:
        options = [row[0] for row in connection.execute("PRAGMA compile_options")]
    connection.close()
    mode = next((option.partition("=")[2] for option in options if option.startswith("THREADSAFE=")), "1")
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        least = ".".join(map(str, MINIMUM_SQLITE))
        return Check("sqlite", "fail", f"{version}; {least} is needed", "use a Python with a newer SQLite")
    if mode == "0":
        return Check("sqlite", "fail", f"{version}, built without threads", "use a Python with a thread-safe SQLite")
    return Check("sqlite", "ok", f"{version}, thread-safe (mode {mode})")


def _file(path: Path) -> Iterator[Check]:
    """Check a SQLite file and its surroundings; it need not be there yet."""
    folder = next(parent for parent in path.parents if parent.exists())
    yield _file_system(path if path.exists() else folder)
    yield _folder(folder)
    if not folder.is_dir():
        return
    if path.is_dir():
        yield Check("file", "fail", f"{path} is a folder", "name a file in it as url")
        return
    if path.exists():
        yield _permissions(path)
        yield _wal(path)
    else:
        yield Check("file", "ok", f"{path} is not there yet; the first use creates it")
    yield _space(folder)
    yield _trial(folder)


def _file_system(path: Path) -> Check:
    name = "file system"
    if not MOUNTINFO.exists():
        return Check(name, "ok", f"not known on {platform.system()}; the store must be on a local disk")
    mount = mount_of(os.path.realpath(path), MOUNTINFO.read_text(encoding="utf-8", errors="replace"))
    if mount is None:
        return Check(name, "ok", "not known; the store must be on a local disk")
    if is_network(mount.kind):
        text = f"{mount.kind} on {mount.point} is shared with other machines, and SQLite's WAL needs shared memory"
        return Check(name, "fail", text, "move the store to a local disk (url or MILEPOST_HOME)")
    if is_volatile(mount.kind):
        text = f"{mount.kind} on {mount.point} is lost when the machine restarts"
        return Check(name, "warn", text, "move the store to a disk (url or MILEPOST_HOME)")
    return Check(name, "ok", f"{mount.kind} on {mount.point}, local")


def _folder(folder: Path) -> Check:
    mode = folder.stat().st_mode
    if not folder.is_dir():
        return Check("folder", "fail", f"{folder} is no folder", "name another path as url")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("folder", "fail", f"{folder} cannot be written", "give this user the right to write there")
    others = mode & (stat.S_IWGRP | stat.S_IWOTH)
    text = f"{folder}, mode {stat.S_IMODE(mode):04o}"
    if others and not mode & stat.S_ISVTX:
        return Check("folder", "warn", f"{text}: other users can replace the store", f"chmod go-w {folder}")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        text += "; other users can list it, and the files of a store are made for their owner only"
    return Check("folder", "ok", text)


def _permissions(path: Path) -> Check:
    mode = path.stat().st_mode
    text = f"{path}, mode {stat.S_IMODE(mode):04o}, {size_text(path.stat().st_size)}"
    if not os.access(path, os.R_OK | os.W_OK):
        return Check("file", "fail", f"{text}: this user cannot read and write it", f"chmod u+rw {path}, as its owner")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Check("file", "warn", f"{text}: other users can read it", f"chmod 600 {path}")
    return Check("file", "ok", text)


def _wal(path: Path) -> Check:
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size if log.exists() else 0
    try:
        connection = look(str(path))
        try:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        finally:
            connection.close()
    except (MilepostError, sqlite3.Error) as error:
        return Check("wal", "fail", f"the file cannot be read: {error}", "see the check of the schema")
    if mode != "wal":
        text = f"the journal mode is {mode}, not wal"
        return Check("wal", "fail", text, "open the store once with nobody else using it; the disk must be local")
    if size > _WAL_WARN:
        text = f"in force; {size_text(size)} are not yet in the main file"
        return Check("wal", "warn", text, "end processes that read for long, then run `milepost db verify`")
    return Check("wal", "ok", f"in force; {size_text(size)} are not yet in the main file")


def _space(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    status: Literal["ok", "warn", "fail"] = "fail" if free < _FREE_FAIL else "warn" if free < _FREE_WARN else "ok"
    return Check("free space", status, size_text(free), None if status == "ok" else f"free some space on {folder}")


def _trial(folder: Path) -> Check:
    """Write and sync a file as `set` does, and measure it."""
    name = "write and sync"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".milepost-doctor-") as file:
            start = time.perf_counter()
            for _ in range(_SYNCS):
                file.write(b"\0" * 4096)
                file.flush()
                os.fsync(file.fileno())
            seconds = (time.perf_counter() - start) / _SYNCS
    except OSError as error:
        return Check(name, "fail", f"a trial file in {folder} failed: {error.strerror or error}", "see the folder above")
    text = f"{seconds * 1000:.2f} ms per fsync"
    if seconds > _SLOW_SYNC:
        return Check(name, "warn", text, "every write waits that long; use a faster disk, or synchronous = normal")
    return Check(name, "ok", text)


def _schema(settings: Settings) -> Iterator[Check]:
    """Check what is inside the store, with the settings in force, and the clock against it."""
    if settings.url.startswith("sqlite:///") and not sqlite_path(settings.url).exists():
        return
    try:
        with connect(settings.url, upgrade=False) as store:
            store.verify()
            stats = store.stats()
    except SchemaOutdatedError as error:
        yield Check("schema", "fail", str(error), "milepost db upgrade")
        return
    except SchemaTooNewError as error:
        yield Check("schema", "fail", str(error), "install the newer Milepost that wrote it")
        return
    except ConfigurationError as error:
        yield Check("configuration", "fail", str(error), "correct the setting that it names")
        return
    except MilepostError as error:
        yield Check("schema", "fail", str(error), "restore the file from a copy, or name another one as url")
        return
    yield Check("schema", "ok", f"version {stats.schema}, {stats.entries:,} entries, no damage found")
    now = datetime.now(timezone.utc)
    if stats.newest is not None and stats.newest > now + _SKEW:
        text = f"the clock shows {when(now)}, and the newest row is from {when(stats.newest)}"
        yield Check("clock", "warn", text, "set the clock: expiry counts on it")
    else:
        yield Check("clock", "ok", f"not behind the newest row ({when(stats.newest)})")
