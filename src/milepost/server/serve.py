"""Running the server: the socket, the processes, the secret."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import logging
import os
import secrets
import shlex
import signal
import socket
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from milepost.config import ServerSettings, config_file, default_folder, mask_url, resolve
from milepost.config.server import SECRET_FILE, read_secrets, secrets_in
from milepost.entry import Writer
from milepost.errors import ConfigurationError, MilepostError, StoreError
from milepost.server import logs
from milepost.server.app import create_app
from milepost.server.heads import BoundedHeads
from milepost.server.telemetry import set_up
from milepost.store import connect

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["check_served", "is_loopback", "serve"]

_log = logging.getLogger("milepost.server")


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_secret(environment: dict[str, str] | None = None) -> str:
    """Return the worker secret of this user on this machine, made when it is first needed.

    It lies in a file that only the user can read, where clients on the same machine find it.
    """
    folder = default_folder(os.environ if environment is None else environment)
    path = folder / SECRET_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            # It takes its name when it is whole: nobody, and no restart after a kill, finds an empty secret.
            with tempfile.NamedTemporaryFile("w", dir=folder, encoding="utf-8") as file:  # its mode is 0600
                file.write(secrets.token_urlsafe(32))
                file.flush()
                os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(file.name, path)
    except OSError as error:
        raise ConfigurationError(
            f"the worker secret cannot be kept in {path}: {error.strerror}; set [server] secret"
        ) from error
    return secrets_in(path)[0]


def _warn_of_readers(settings: ServerSettings) -> None:
    """Log that others can read the file with the worker secret."""
    if settings.secret is None:
        path = Path(settings.secret_file).expanduser() if settings.secret_file else default_folder(os.environ) / SECRET_FILE
    elif resolve({}, section="server")["secret"].source.startswith("environment") or not (file := config_file(os.environ)):
        return
    else:
        path = file
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning(
            "%s holds the worker secret, and others can read it (mode %04o): chmod go-rwx %s",
            path,
            mode,
            shlex.quote(str(path)),
            extra={"action": "secret_readable"},
        )


def _secrets(settings: ServerSettings) -> list[str]:
    """Return the worker secret, and older ones that are still accepted."""
    secrets = read_secrets(settings)
    if secrets:
        return secrets
    if not is_loopback(settings.host):
        raise ConfigurationError(
            f"{settings.host} can be reached from other machines, so callers have to be told apart: set [server] secret or "
            "secret_file (MILEPOST__SERVER__SECRET_FILE), or listen on 127.0.0.1"
        )
    return [own_secret()]


def _application(url: str, settings: ServerSettings, secrets: list[str]) -> ASGIApp:
    """Make the application, in the process that is to run it."""
    try:
        store = connect(url, writer=Writer("api"))
    except MilepostError as error:
        if settings.workers == 1:
            raise
        _log.error("this process cannot start, another one will try: %s", error, extra={"action": "start"})
        sys.exit(1)
    app = create_app(store, settings, secrets)
    telemetry = set_up(os.environ)
    return app if telemetry is None else telemetry.around(app)


class _Processes(Multiprocess):
    """The processes of a server."""

    def terminate_all(self) -> None:
        """End them. The socket goes first: what connects later would wait for an answer that nobody gives."""
        for one in self.sockets:
            one.close()
        super().terminate_all()

    def failed(self) -> bool:
        """Tell whether the end is that one of them could not start."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)


def check_served(url: str) -> None:
    """Check that a store can be served.

    Raises:
        ConfigurationError: It lives in one process, or is a server itself.
    """
    if url.startswith("memory:"):
        raise ConfigurationError("memory:// lives in one process and ends with it; serve a file or a database")
    if url.startswith(("http:", "https:")):
        raise ConfigurationError(f"{mask_url(url)} is a server already; serve the store behind it")


def serve(url: str, settings: ServerSettings, *, requests: bool = False) -> None:
    """Serve a store until a signal ends it.

    Args:
        url: The store.
        settings: How to listen and what to allow.
        requests: Whether to log each request.

    Raises:
        ConfigurationError: The address needs a secret, or the store cannot be served.
        StoreError: The store cannot be opened, by this process or one of several.
    """
    accepted = _secrets(settings)
    connect(url).close()  # so that what is wrong with it is said once, before there are processes
    config = uvicorn.Config(
        functools.partial(_application, url, settings, accepted),
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        log_config=logs.configuration(requests=requests),
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        backlog=2048,
        http=BoundedHeads,
    )
    _warn_of_readers(settings)
    listening = _bind(settings)
    host, port = listening.getsockname()[:2]
    _log.info(
        "listening on http://%s:%d", f"[{host}]" if ":" in host else host, port, extra={"action": "listen", "port": port}
    )
    # uvicorn raises the signal that ended it once more; by then all is done, and the exit code is 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[listening])
            return
        with tempfile.TemporaryDirectory(prefix="milepost-metrics-") as folder:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
            processes = _Processes(config, sockets=[listening])
            processes.run()
            if processes.failed():
                raise StoreError("a process of the server could not start; its log says why")
    finally:
        listening.close()


def _bind(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; otherwise each answer waits 40 ms for an acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}") from error
    listening.set_inheritable(True)
    return listening
