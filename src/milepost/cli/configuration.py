"""`milepost config`: which settings are in force and where they come from."""

from __future__ import annotations

from typing import Any

import typer

from milepost.cli.common import AsJson, Url, say, show, table
from milepost.config import SECTIONS, Option, Resolved, mask_url, resolve

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
    sections = {section: resolve({"url": url} if section == "state_store" else {}, section=section) for section in SECTIONS}
    shown = {
        section: {name: _row(SECTIONS[section][name], one) for name, one in found.items()}
        for section, found in sections.items()
    }
    if as_json:
        show(shown)
        return
    for number, (section, found) in enumerate(shown.items()):
        if number:
            say()
        say(f"[{section}]")
        rows = [(name, "" if one["value"] is None else one["value"], one["source"]) for name, one in found.items()]
        table(("OPTION", "VALUE", "SOURCE", "MEANING"), [(*row, SECTIONS[section][row[0]].meaning) for row in rows])


def _row(option: Option, found: Resolved) -> dict[str, Any]:
    value = found.value
    if value is not None:
        value = "***" if option.secret else mask_url(value) if option.name == "url" else value
    return {"value": value, "source": "--url" if found.source == "argument" else found.source}
