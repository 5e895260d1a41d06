"""What a task knows about its run."""

from __future__ import annotations

from typing import Any, Final, NoReturn

__all__ = ["CONTEXT_KEYS", "FOREIGN_KEYS", "Context", "current_context", "get_current_context", "set_current_context"]

CONTEXT_KEYS: Final = frozenset(
    {
        "asset_state_store",
        "asset_store",
        "dag",
        "dag_run",
        "ds",
        "inlets",
        "logical_date",
        "map_index",
        "outlets",
        "params",
        "run_id",
        "task",
        "task_state_store",
        "task_store",
        "ti",
    }
)
"""The keys of every context."""

FOREIGN_KEYS: Final = frozenset(
    {
        "conf",
        "conn",
        "data_interval_end",
        "data_interval_start",
        "ds_nodash",
        "execution_date",
        "expanded_ti_count",
        "inlet_events",
        "macros",
        "map_index_template",
        "next_ds",
        "next_execution_date",
        "outlet_events",
        "prev_data_interval_end_success",
        "prev_data_interval_start_success",
        "prev_ds",
        "prev_end_date_success",
        "prev_execution_date",
        "prev_start_date_success",
        "start_date",
        "task_instance",
        "task_instance_key_str",
        "task_reschedule_count",
        "templates_dict",
        "test_mode",
        "ti_key_str",
        "triggering_asset_events",
        "ts",
        "ts_nodash",
        "ts_nodash_with_tz",
        "var",
    }
)
"""Keys of Airflow's context that Milepost has not; asking for one is an error, not `None`."""


class Context(dict[str, Any]):
    """The context of an attempt: a dict with the keys of `CONTEXT_KEYS`.

    .. versionadded:: 0.1
    """

    def __missing__(self, key: str) -> NoReturn:
        raise KeyError(f"the context has no {key!r}; its keys are {', '.join(sorted(self))}")


_current: Context | None = None


def set_current_context(context: Context | None) -> None:
    """Set what `get_current_context` returns; the runner's attempt does."""
    global _current  # noqa: PLW0603 - an attempt is a process of its own and has one context
    _current = context


def current_context() -> Context | None:
    """Return what `set_current_context` has set."""
    return _current


def get_current_context() -> Context:
    """Return the context of the attempt that is running.

    Raises:
        RuntimeError: No attempt is running in this process.

    .. versionadded:: 0.1
    """
    if _current is None:
        raise RuntimeError("there is no current context: get_current_context() works only while a task runs")
    return _current
