"""Loading DAG files: every way in which one can fail ends in one line that names the place."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, NoReturn

from milepost.runner.airflow_names import explain_import, find_foreign, serve_airflow_names
from milepost.runner.errors import DagLoadError, RunnerUsageError
from milepost.sdk.dag import DAG, DagFactory, collecting
from milepost.sdk.errors import DagDefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["choose_dag", "load_dags"]


def load_dags(path: str | os.PathLike[str]) -> dict[str, DAG]:
    """Run a DAG file and return the DAGs that it makes.

    The file's folder is put at the end of ``sys.path``, as Airflow does: modules beside the file can be imported, and never
    take the place of others. What the file imports is imported for good.

    Args:
        path: The file.

    Returns:
        The DAGs by id, in the order of their making.

    Raises:
        DagLoadError: The file is missing, cannot be read, raises, or defines a DAG wrongly or twice.

    Where Airflow is not installed, Airflow's own import paths lead to ``milepost.sdk`` from then on.

    .. versionadded:: 0.1
    """
    file = os.path.abspath(os.fspath(path))  # noqa: PTH100 - symbolic links stay as they were given
    module = ModuleType(_module_name(file))
    module.__file__ = file
    source = _read(file)
    code = _compile(file, source)
    folder = os.path.dirname(file)  # noqa: PTH120
    if folder not in sys.path:
        sys.path.append(folder)
    # Dataclasses, type hints and pickling look a class's module up there.
    sys.modules[module.__name__] = module
    serve_airflow_names()
    with collecting() as made, _no_sudden_end():
        try:
            exec(code, module.__dict__)  # noqa: S102 - a DAG file is a program that its author asked to run
        except DagDefinitionError as error:
            raise DagLoadError(str(error)) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a DAG file may also call sys.exit()
            _refuse_foreign(file, source, module, suspect=True)
            raise DagLoadError(_describe(file, error)) from error
    _refuse_foreign(file, source, module, suspect=not made)
    if not made:
        raise DagLoadError(_no_dags(file, module))
    return _by_id(made)


def _module_name(file: str) -> str:
    digest = hashlib.blake2b(file.encode(errors="surrogateescape"), digest_size=6).hexdigest()
    return f"milepost_dag_{digest}_{Path(file).stem}"


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise DagLoadError(f"cannot read the DAG file {file}: {error.strerror or error}") from error


def _compile(file: str, source: bytes) -> CodeType:
    try:
        # No bytecode cache: it goes by the second and the size, and misses a quick edit.
        return compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise DagLoadError(f"{error.filename or file}:{error.lineno or 1}: {error.msg}") from error
    except ValueError as error:  # not text, or NUL in it
        raise DagLoadError(f"{file}:1: not Python source: {error}") from error
    except (RecursionError, MemoryError) as error:  # both stand for too many levels of nesting
        raise DagLoadError(f"{file}:1: nested too deeply for Python's compiler") from error


@contextmanager
def _no_sudden_end() -> Iterator[None]:
    """Make ``os._exit`` raise `SystemExit`: a file that ends the process in silence would pass for a run that succeeded."""
    process, leave = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:  # a child of the file's own
            leave(status)
        raise SystemExit(f"os._exit({status!r})")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


def _refuse_foreign(file: str, source: bytes, module: ModuleType, *, suspect: bool) -> None:
    found = find_foreign(source, module, suspect=suspect)
    if found is not None:
        raise DagLoadError(f"{file}:{found}")


def _describe(file: str, error: BaseException) -> str:
    """Return the innermost line of the DAG file on the way to an error, the error, and where it was raised."""
    import traceback

    where = innermost = f"{file}:1"
    for frame, line in traceback.walk_tb(error.__traceback__):
        innermost = f"{frame.f_code.co_filename}:{line}"
        if frame.f_code.co_filename == file:
            where = innermost
    reason = explain_import(error)
    if reason is not None:
        return f"{where}: {reason}"
    text = " ".join(traceback.format_exception_only(type(error), error)[-1].split())
    ours = innermost.startswith(__file__.removesuffix("runner/load.py"))
    origin = "" if innermost == where or ours else f" (raised at {innermost})"
    return f"{where}: {text}{origin}"


def _no_dags(file: str, module: ModuleType) -> str:
    idle = [thing for thing in vars(module).values() if isinstance(thing, DagFactory) and not thing.called]
    if idle:
        return f"{idle[0].where}: the function under @dag is never called, so {file} makes no DAG"
    return f"{file}:1: the file makes no DAG"


def _by_id(made: list[DAG]) -> dict[str, DAG]:
    dags: dict[str, DAG] = {}
    for dag in made:
        other = dags.get(dag.dag_id)
        if other is not None:
            raise DagLoadError(f"{dag.where}: DAG id {dag.dag_id!r} is taken already, at {other.where}")
        dags[dag.dag_id] = dag
        try:
            dag.check()
        except DagDefinitionError as error:
            raise DagLoadError(str(error)) from error
    return dags


def choose_dag(dags: Mapping[str, DAG], dag_id: str | None, path: str | os.PathLike[str]) -> DAG:
    """Return the DAG that is meant.

    Args:
        dags: Those of the file.
        dag_id: The one that was asked for; `None` means the only one.
        path: The file, for messages.

    Raises:
        RunnerUsageError: There is no such DAG, or there are several and none was named; the message lists them.
    """
    names = ", ".join(dags)
    if dag_id is None:
        if len(dags) > 1:
            raise RunnerUsageError(f"{os.fspath(path)} has {len(dags)} DAGs; name one: {names}")
        return next(iter(dags.values()))
    if dag_id not in dags:
        raise RunnerUsageError(f"{os.fspath(path)} has no DAG {dag_id!r}; it has: {names}")
    return dags[dag_id]
