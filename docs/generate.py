"""Write the pages that are made from the code: ``python docs/generate.py``.

They are kept in the repository, so that they can be read there; a test compares them with what this would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from milepost import errors
from milepost.cli.app import app
from milepost.cli.exits import Exit, exit_of
from milepost.config import SECTIONS

__all__ = ["PAGES", "commands", "render"]

HERE = Path(__file__).resolve().parent
_NOTE = "% Written by docs/generate.py from the code. Do not edit.\n\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def _default(value: Any) -> str:
    return "" if value is None else f"`{value}`"


def configuration() -> str:
    """Return the page of options."""
    lines = [
        _NOTE + "# Configuration options",
        "",
        "[Configuration](configuration.md) says how to set them.",
    ]
    for section, options in SECTIONS.items():
        lines += ["", f"## [{section}]", "", "| Option | Default | Meaning |", "|---|---|---|"]
        lines += [f"| `{one.name}` | {_default(one.default)} | {_cell(one.meaning)} |" for one in options.values()]
    return "\n".join(lines) + "\n"


def commands() -> list[tuple[str, Any]]:
    """Return every command with its full name, in the order of ``--help``."""

    def walk(command: Any, name: str) -> list[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return [(name, command)]
        return [(name, command), *(pair for sub, one in inner.items() for pair in walk(one, f"{name} {sub}"))]

    return walk(typer.main.get_command(app), "milepost")


def _help(text: str | None) -> str:
    """Return a help text as Markdown; examples become code."""
    told, _, examples = (text or "").partition("\n\n")
    lines = [" ".join(told.split())]
    for block in filter(None, examples.split("\n\n")):
        head, _, shown = " ".join(block.split()).partition(": ")
        if head in ("Example", "Examples"):
            told = [f"$ {one.replace('… set', 'milepost task-store set')}" for one in shown.split(" · ")]
            lines += ["", "<!-- fragment -->", "```console", *told, "```"]
        else:
            lines += ["", " ".join(block.split())]
    return "\n".join(lines)


def _options(command: Any) -> list[tuple[str, str, str]]:
    rows = []
    for one in command.params:
        if one.name.endswith("_completion"):  # Typer's own
            continue
        if one.param_type_name == "argument":
            if text := getattr(one, "help", None):
                rows.append((f"`{one.metavar or one.name.upper()}`", text, ""))
            continue
        names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
        kind = "N" if isinstance(one.default, int) else "TEXT"
        value = "" if one.is_flag else f" `{one.metavar or kind}`"
        default = "" if one.default in (None, False, "", []) or callable(one.default) else f"`{one.default}`"
        rows.append((names + value, one.help or "", default))
    return rows


def _argument(one: Any) -> str:
    """Return an argument as the usage line shows it, in brackets if it may be left out."""
    name = str(one.metavar or one.name.upper())
    return name if one.required or name.startswith("[") else f"[{name}]"


def command_line() -> str:
    """Return the page of commands."""
    lines = [_NOTE + "# Command line", "", "`milepost --help` and `milepost COMMAND --help` print the same.", ""]
    for name, command in commands():
        depth = min(len(name.split()), 3)
        lines += [f"{'#' * max(depth, 2)} `{name}`", "", _help(command.help), ""]
        if getattr(command, "commands", None) is None:
            taken = [_argument(one) for one in command.params if one.param_type_name == "argument"]
            lines += ["```text", " ".join([name, *taken, "[OPTIONS]"]), "```", ""]
        if rows := _options(command):
            lines += ["| Argument or option | Meaning | Default |", "|---|---|---|"]
            lines += [f"| {_cell(names)} | {_cell(meaning)} | {default} |" for names, meaning, default in rows]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


_EXITS = {
    Exit.OK: "It worked. For `milepost run`: the run succeeded, now or before.",
    Exit.RUN_FAILED: "`milepost run`: the run failed.",
    Exit.USAGE: "The command line, the configuration or the DAG file is wrong.",
    Exit.BAD_VALUE: "A key or a value breaks the rules, or a stored entry is damaged.",
    Exit.NOT_FOUND: "Something asked for by name is not recorded.",
    Exit.CONFLICT: "The state has moved on, or another party holds it.",
    Exit.STORE: "The store cannot be opened or used.",
}


def error_list() -> str:
    """Return the page of errors and exit codes."""
    lines = [
        _NOTE + "# Errors and exit codes",
        "",
        "All errors of the stores derive from `MilepostError` and can be imported from `milepost`. Where Python has an",
        "error that says the same, they derive from it too: `except KeyError` catches every `NotFoundError`.",
        "",
        "The command line prints one line on standard error and exits with the code of the error. With",
        "`MILEPOST_DEBUG=1` it shows the traceback instead.",
        "",
        "## Exit codes",
        "",
        "| Code | Meaning |",
        "|---|---|",
        *(f"| {code.value} | {_EXITS[code]} |" for code in Exit),
        "| 128 + n | Signal n stopped the run (Ctrl-C: 130). The same command goes on. |",
        "",
        "## Errors",
        "",
        "| Error | Also a | Exit code | Meaning |",
        "|---|---|---|---|",
    ]
    for name in errors.__all__:
        cls = getattr(errors, name)
        python = [base.__name__ for base in cls.__mro__ if base.__module__ == "builtins"]
        kind = f"`{python[0]}`" if python[0] != "Exception" else ""
        code = exit_of(cls.__new__(cls)).value
        meaning = (cls.__doc__ or "").strip().split("\n")[0]
        lines.append(f"| `{name}` | {kind} | {code} | {_cell(meaning)} |")
    lines += [
        "",
        "A DAG file that asks for something that the local runner does not have raises `milepost.sdk.DagDefinitionError`",
        "(exit code 2), with the name and the line.",
    ]
    return "\n".join(lines) + "\n"


PAGES = {"reference/options.md": configuration, "reference/cli.md": command_line, "reference/errors.md": error_list}


def render() -> dict[str, str]:
    """Return the text of every generated page by its path in the docs folder."""
    return {path: page() for path, page in PAGES.items()}


if __name__ == "__main__":
    for path, text in render().items():
        (HERE / path).write_text(text, encoding="utf-8")
