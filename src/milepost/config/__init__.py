"""Settings: what can be set, and where a value comes from."""

from __future__ import annotations

from milepost.config.server import SERVER_OPTIONS, ServerSettings, read_secret
from milepost.config.settings import OPTIONS, Option, Settings
from milepost.config.sources import (
    SECTIONS,
    Elsewhere,
    Resolved,
    also_from,
    config_file,
    default_folder,
    load_server_settings,
    load_settings,
    naming_the_place,
    place_of_secret,
    resolve,
    secret_of,
)
from milepost.config.urls import PERCENT_HINT, mask_url

__all__ = [
    "OPTIONS",
    "PERCENT_HINT",
    "SECTIONS",
    "SERVER_OPTIONS",
    "Elsewhere",
    "Option",
    "Resolved",
    "ServerSettings",
    "Settings",
    "also_from",
    "config_file",
    "default_folder",
    "load_server_settings",
    "load_settings",
    "mask_url",
    "naming_the_place",
    "place_of_secret",
    "read_secret",
    "resolve",
    "secret_of",
]
