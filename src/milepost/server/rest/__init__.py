"""The public REST API, ``/api/v2``, for people and tools; wire-compatible with Airflow 3.3 where that has a route."""

from __future__ import annotations

from milepost.server.rest.app import create_rest

__all__ = ["create_rest"]
