"""Settings: what can be set, and where a value comes from."""

from __future__ import annotations

from milepost.config.settings import OPTIONS, Option, Settings, mask_url
from milepost.config.sources import Resolved, config_file, load_settings, resolve

__all__ = ["OPTIONS", "Option", "Resolved", "Settings", "config_file", "load_settings", "mask_url", "resolve"]
