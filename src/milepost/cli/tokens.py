"""`milepost tokens`: who may use the REST API of a server, and how far."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from milepost.cli.common import AsJson, Url, data, open_store, plain, say, show, table, when
from milepost.token_records import ROLES, Role

__all__ = ["app"]

app = typer.Typer(help="Make, list and revoke tokens for the REST API of a server.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Names the token; what is written with it is on record under it.")]


def _role(text: str) -> str:
    if text not in ROLES:
        raise typer.BadParameter(f"{text!r} is no role: {', '.join(ROLES)}")
    return text


@app.command("create")
def create(
    name: Name,
    role: Annotated[
        str,
        typer.Option("--role", parser=_role, metavar="|".join(ROLES), help="What it may do."),
    ],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once: only its digest is stored.

    Example: milepost tokens create grafana --role viewer
    """
    with open_store(url, create=True) as store:
        made = store.tokens.create(name, role=cast("Role", role))
    if as_json:
        show({"token": made.token, **data(made.record)})
    else:
        say(made.token)


@app.command("list")
def list_tokens(url: Url = None, as_json: AsJson = False) -> None:
    """List tokens by name, revoked ones too; never the tokens themselves.

    Example: milepost tokens list
    """
    with open_store(url) as store:
        records = store.tokens.list()
    if as_json:
        show(records)
        return
    rows = [
        (
            plain(one.name),
            f"DAMAGED: {one.damaged}" if one.damaged else one.role,
            when(one.created_at),
            when(one.last_used_at),
            when(one.revoked_at),
        )
        for one in records
    ]
    table(("NAME", "ROLE", "MADE", "LAST USED", "REVOKED"), rows)


@app.command("revoke")
def revoke(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Have a token open nothing any more; servers notice within seconds.

    Example: milepost tokens revoke grafana
    """
    with open_store(url) as store:
        record = store.tokens.revoke(name)
    if as_json:
        show(record)
    else:
        say(f"{plain(record.name)} is revoked")
