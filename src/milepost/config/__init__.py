"""Settings: what can be set, and where a value comes from."""

from __future__ import annotations

from milepost.config.settings import OPTIONS, Option, Settings
from milepost.config.sources import load_settings

__all__ = ["OPTIONS", "Option", "Settings", "load_settings"]
