"""What an attempt shows to a server: a token of its own, never the worker secret."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from milepost.references import asset_scope, is_alias
from milepost.scopes import TaskScope
from milepost.sdk.node import sources_of

if TYPE_CHECKING:
    from milepost.run_records import RunRecord
    from milepost.runner.plan import Start
    from milepost.sdk.node import Task
    from milepost.store import Store

__all__ = ["attempt_environment", "attempt_token"]

_SECRETS: Final = ("MILEPOST__SERVER__SECRET", "MILEPOST__SERVER__SECRET_FILE", "MILEPOST_TOKEN")


def attempt_environment() -> dict[str, str]:
    """Return the environment for attempts: that of the runner without credentials for a server."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


def attempt_token(store: Store, run: RunRecord, start: Start, task: Task) -> str | None:
    """Return a token that opens what one attempt needs; `None` where the store is not behind a server.

    Args:
        store: The runner's store.
        run: The run.
        start: The attempt that is to be started.
        task: Its task.
    """
    if not store.settings.url.startswith(("http://", "https://")):
        return None
    from milepost.remote.client import HttpMetastore

    metastore = store.metastore
    assert isinstance(metastore, HttpMetastore)
    return metastore.token(
        TaskScope(run.dag_id, run.run_id, start.task_id, start.map_index),
        start.attempt,
        incarnation=run.incarnation,
        inlets=[asset_scope(one) for one in task.inlets if not is_alias(one)],
        outlets=[asset_scope(one) for one in task.outlets if not is_alias(one)],
        aliases=[one.name for one in task.inlets if is_alias(one)],
        results=[source.task_id for source in sources_of(task)],
    ).token
