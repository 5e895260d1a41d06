"""Settings: what can be set, and where a value comes from."""

from __future__ import annotations

from milepost.config.settings import OPTIONS, Option, Settings
from milepost.config.sources import Resolved, config_file, load_settings, resolve
from milepost.config.urls import PERCENT_HINT, mask_url

__all__ = [
    "OPTIONS",
    "PERCENT_HINT",
    "Option",
    "Resolved",
    "Settings",
    "config_file",
    "load_settings",
    "mask_url",
    "resolve",
]
