"""The settings and the stores of a process that runs tasks."""

from __future__ import annotations

import logging
import threading
from typing import Any

from milepost.airflow.settings import AirflowSettings, load, name_secret
from milepost.config import mask_url, resolve
from milepost.errors import ConfigurationError
from milepost.store import Store, connect

__all__ = ["settings", "store"]

_MOST_TESTS = 8

_log = logging.getLogger("milepost.airflow")
_gate = threading.Lock()
_stores: dict[Any, Store] = {}


def settings() -> AirflowSettings:
    """Return the settings in force.

    Raises:
        ConfigurationError: An option is unknown or has a bad value.
    """
    return load()


def store(chosen: AirflowSettings, *, test: tuple[str, str, str | None] | None = None) -> Store:
    """Return the store of this process; it is opened once and stays open.

    Args:
        chosen: The settings.
        test: The run of a test, which gets a store of its own that leaves nothing behind.

    Raises:
        MilepostError: It cannot be opened.
    """
    key = ("test", *test) if test is not None else tuple(sorted(chosen.arguments.items()))
    with _gate:
        found = _stores.get(key)
        if found is None:
            if test is None:
                _refuse_memory(chosen)
                found = connect(secret=chosen.secret, **chosen.arguments)
                name_secret(found.metastore, chosen)
                _log.info("Milepost keeps state in %s", mask_url(found.settings.url), extra={"action": "airflow_store"})
            else:
                tests = [one for one in _stores if one[0] == "test"]
                for one in tests[: 1 - _MOST_TESTS]:
                    _stores.pop(one).close()
                found = connect(**{**chosen.arguments, "url": "memory://", "backend": None})
                _log.info(
                    "this is a test: Milepost's stores of run %s/%s are in memory, and gone with this process; "
                    "[milepost] keep_test_state = True uses the real ones",
                    *test[:2], extra={"action": "airflow_test_store"},
                )  # fmt: skip
            _stores[key] = found
        return found


def _refuse_memory(chosen: AirflowSettings) -> None:
    found = resolve({"url": chosen.arguments.get("url")})["url"]
    if found.value.startswith("memory:"):
        raise ConfigurationError(
            f"{chosen.places.get('url', found.source)}: {found.value} lives in one process, and each attempt has one of its "
            "own: it would find nothing of earlier ones; name a file or a database as url"
        )
