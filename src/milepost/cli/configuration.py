"""`milepost config`: which settings are in force and where they come from."""

from __future__ import annotations

import typer

from milepost.cli.common import AsJson, Url, say, show, table
from milepost.config import OPTIONS, mask_url, resolve

__all__ = ["register"]

_app = typer.Typer(help="Which settings are in force and where they come from.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.add_typer(_app, name="config")


@_app.callback()
def _group() -> None:
    pass


@_app.command("show")
def show_settings(url: Url = None, as_json: AsJson = False) -> None:
    """Print every option with its value and its source; secrets are masked.

    Example: milepost config show --json
    """
    found = {
        name: {
            "value": mask_url(one.value) if name == "url" else one.value,
            "source": "--url" if one.source == "argument" else one.source,
        }
        for name, one in resolve({"url": url}).items()
    }
    if as_json:
        show({"state_store": found})
        return
    say("[state_store]")
    rows = [(name, "" if one["value"] is None else one["value"], one["source"]) for name, one in found.items()]
    table(("OPTION", "VALUE", "SOURCE", "MEANING"), [(*row, OPTIONS[row[0]].meaning) for row in rows])
