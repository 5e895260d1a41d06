"""`milepost serve`: give others access to a store over HTTP."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Annotated

import typer

from milepost.cli.airflow_options import where_configured
from milepost.cli.common import Url, at_least_one, fail, whole
from milepost.config import Elsewhere, also_from, load_server_settings, mask_url, naming_the_place, resolve
from milepost.errors import MissingDependencyError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="H", help="The address to listen on; 127.0.0.1 by default.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", parser=whole, metavar="N", help="The port; 8470 by default, 0: any free one.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", parser=at_least_one, metavar="N", help="Processes that share the port; 1 by default."),
    ] = None,
    log_requests: Annotated[bool, typer.Option("--log-requests", help="Log each request, without keys and values.")] = False,
    url: Url = None,
) -> None:
    """Serve a store to workers on many machines, until interrupted. Logs are JSON lines on standard error.

    Example: milepost serve --url postgresql://localhost/milepost
    """
    settings = load_server_settings({"host": host, "port": port, "workers": workers})
    _check_packages()
    from milepost.server.serve import check_served
    from milepost.server.serve import serve as run

    # A server is what Airflow's own url may lead to; what it serves is configured for itself.
    with also_from(lambda: Elsewhere({}, None)):
        found = resolve({"url": url})["url"]
        with naming_the_place("url", {"url": url}):
            check_served(found.value)
        if found.source in ("default", "MILEPOST_HOME") and (place := where_configured()) is not None:
            fail(f"serves {mask_url(found.value)}, not the store of Airflow ({place}); --url names another one")
        run(found.value, settings, requests=log_requests)


def _check_packages() -> None:
    """Check that the packages of the extra ``server`` are here, and new enough.

    Raises:
        MissingDependencyError: Some are not.
    """
    wrong = []
    for line in metadata.requires("milepost") or ():
        wanted = re.fullmatch(r"([\w.-]+)>=([\d.]+); extra == .server.", line.replace(" ;", ";"))
        if wanted is None:  # of another extra, or for some systems only
            continue
        name, least = wanted.groups()
        try:
            here = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name}>={least} (is missing)")
        else:
            if _numbers(here) < _numbers(least):
                wrong.append(f"{name}>={least} ({here} is here)")
    if wrong:
        raise MissingDependencyError(
            f"milepost serve needs {', '.join(wrong)}: pip install 'milepost[server]', in an environment of its own if "
            "others here need the older ones, as Airflow does"
        )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
