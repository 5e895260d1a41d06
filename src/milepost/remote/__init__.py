"""A store behind a server: what travels (`wire`), and the metastore that sends it (`client`)."""

from __future__ import annotations

__all__: list[str] = []
