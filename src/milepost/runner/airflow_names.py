"""Airflow's import paths, so that a DAG file written for Airflow runs where Airflow is not installed.

A finder at the very end of ``sys.meta_path`` makes the modules. It is asked only for what nobody else has found, so that
an Airflow that is installed always comes first.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MODULES", "explain_import", "find_foreign", "serve_airflow_names"]

_SDK = "milepost.sdk"
_EXCEPTIONS: Final = dict.fromkeys(("AirflowException", "AirflowFailException", "AirflowSkipException"), _SDK)

MODULES: Final[Mapping[str, Mapping[str, str]]] = {
    "airflow": {},
    "airflow.exceptions": _EXCEPTIONS,
    "airflow.sdk": dict.fromkeys(
        (
            "DAG",
            "NEVER_EXPIRE",
            "Asset",
            "AssetAlias",
            "AssetWatcher",
            "BaseOperator",
            "Context",
            "ResumableJobMixin",
            "TaskGroup",
            "TriggerRule",
            "XComArg",
            "chain",
            "dag",
            "get_current_context",
            "task",
        ),
        _SDK,
    ),
    "airflow.sdk.exceptions": _EXCEPTIONS,
    "airflow.sdk.execution_time": {},
    "airflow.sdk.execution_time.context": {
        "NEVER_EXPIRE": _SDK,
        "AssetStateStoreAccessor": "milepost.accessors:AssetStoreAccessor",
        "AssetStateStoreAccessors": "milepost.accessors:AssetStoreAccessors",
        "TaskStateStoreAccessor": "milepost.accessors:TaskStoreAccessor",
    },
    "airflow.sdk.state": {
        "NEVER_EXPIRE": _SDK,
        "AssetScope": "milepost.scopes",
        "BaseStoreBackend": "milepost.abc:BaseStateBackend",
        "TaskScope": "milepost.scopes",
    },
    "airflow.triggers": {},
    "airflow.triggers.base": dict.fromkeys(("BaseEventTrigger", "BaseTrigger", "TriggerEvent"), _SDK),
}
"""For each module its names, and where Milepost has them: ``module`` or ``module:name``."""

_AUTHORING: Final = frozenset({"DAG", "dag", "task", "task_group", "TaskGroup", "BaseOperator", "BaseSensorOperator"})
"""Names of Airflow that make DAGs and tasks, which only Airflow can run."""


class _Finder:
    """Finds and makes the modules of `MODULES`."""

    # No base classes: `importlib.abc` is slow to import, and every attempt would pay for it.

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES or _is_installed():
            return None
        package = any(one.startswith(f"{fullname}.") for one in MODULES)
        return ModuleSpec(fullname, self, origin="Milepost", is_package=package)  # type: ignore[arg-type]

    def create_module(self, _spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        name, found = module.__name__, MODULES[module.__name__]
        module.__doc__ = "Served by Milepost's local runner in place of Airflow."
        for public, home in found.items():
            home_module, _, own = home.partition(":")
            setattr(module, public, getattr(importlib.import_module(home_module), own or public))
        module.__dict__["__all__"] = sorted(found)

        def missing(attribute: str) -> NoReturn:
            if attribute.startswith("__"):
                raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
            raise AttributeError(_refusal(name, attribute))

        module.__dict__["__getattr__"] = missing


def _is_installed() -> bool:
    """Tell whether an Airflow that is loaded is a real one: not ours, and no bare folder either."""
    # Airflow's task SDK can be installed without the rest.
    loaded = [sys.modules.get(name) for name in ("airflow", "airflow.sdk")]
    return any(getattr(module, "__file__", None) is not None for module in loaded)


def serve_airflow_names() -> None:
    """Let Airflow's import paths lead to `milepost.sdk` in this process, where Airflow is not installed."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def _refusal(module: str, name: str) -> str:
    homes = [other for other, names in MODULES.items() if name in names and other != module]
    hint = f"; import it from {homes[0]}" if homes else ""
    return f"{module} has no {name!r} in Milepost's local runner{hint}"


def explain_import(error: BaseException) -> str | None:
    """Return why an import of one of our names failed, in Milepost's words; `None` if it was another import.

    Args:
        error: What was raised.
    """
    if not isinstance(error, ImportError) or error.name is None:
        return None
    if isinstance(error, ModuleNotFoundError):
        if error.name.partition(".")[0] != "airflow" or _is_installed():
            return None
        served = ", ".join(name for name, names in MODULES.items() if names)
        return f"{error.name} is not part of Milepost's local runner; of Airflow it has {served}"
    ours = getattr(sys.modules.get(error.name), "__spec__", None)
    if error.name != _SDK and not (ours and isinstance(ours.loader, _Finder)):
        return None
    import re

    # Python 3.12 has it as an attribute.
    found = re.match(r"cannot import name '(\w+)'", error.msg)
    return None if found is None else _refusal(error.name, found[1])


def find_foreign(source: bytes, module: ModuleType, *, suspect: bool) -> str | None:
    """Find what a DAG file took from an Airflow that is installed and that the runner cannot run.

    Args:
        source: The text of the file.
        module: The file as a module, after it ran.
        suspect: Whether it failed or made no DAG, so that any import of Airflow is the likely cause.

    Returns:
        The number of the line and what is wrong with it, separated by ``: ``; `None` if there is nothing.
    """
    if not _is_installed():
        return None
    for line, path, name, alias in _imports(source):
        taken = name in _AUTHORING and _is_airflows(module.__dict__.get(alias))
        if taken or (suspect and path in sys.modules and (name is None or name in _AUTHORING)):
            what = path if name is None else f"{path}.{name}"
            return (
                f"{line}: {what} is that of the Airflow installed here, whose DAGs and tasks the local runner cannot run; "
                "import from milepost.sdk instead, or use an environment without Airflow"
            )
    return None


def _is_airflows(thing: Any) -> bool:
    home = getattr(thing, "__module__", None) or type(thing).__module__
    return isinstance(home, str) and (home == "airflow" or home.startswith("airflow."))


def _imports(source: bytes) -> Iterator[tuple[int, str, str | None, str]]:
    """Go through the imports from Airflow: line, module, name (`None` for the module itself), what it is called then."""
    import ast

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "airflow":
            for one in node.names:
                yield node.lineno, node.module, one.name, one.asname or one.name
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "airflow":
                    yield node.lineno, one.name, None, one.asname or one.name
