"""The command line: `main` runs it and turns every error into one line and a documented exit code."""

from __future__ import annotations

from milepost.cli.app import main

__all__ = ["main"]
