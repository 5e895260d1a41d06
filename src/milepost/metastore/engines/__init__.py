"""Engines: they connect to one kind of database and run operations on it."""

from __future__ import annotations

__all__: list[str] = []
