"""`milepost watch`: runs the event triggers of a DAG file's assets, and the runs that their events start."""

from __future__ import annotations

__all__: list[str] = []
