"""The SQL metastore: operations without I/O, statements per dialect, engines that run them."""

from __future__ import annotations

__all__: list[str] = []
