"""The server: the execution API for workers, and what runs it. See ``milepost serve``."""

from __future__ import annotations

__all__: list[str] = []
