"""Measurements of Milepost beside other libraries; see README.md."""

from __future__ import annotations

__all__: list[str] = []
