"""The process of one attempt: load the DAG file, open the attempt, run the task, record how it ended.

Run by the runner, which writes an `AttemptSpec` to its standard input. See `ExitCode` for how it exits.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from milepost.calls import EVENT_RUN_PREFIX
from milepost.errors import (
    AssetNotActiveError,
    AssetNotFoundError,
    DamagedEntryError,
    InstanceNotFoundError,
    MilepostError,
    StaleAttemptError,
    StoreError,
    UnsupportedTypeError,
)
from milepost.runner import results
from milepost.runner.context import DagRun, TaskInstance, build_context
from milepost.runner.guard import die_with
from milepost.runner.leaving import leave
from milepost.runner.load import load_dags
from milepost.runner.opening import open_attempt
from milepost.runner.spec import AttemptSpec, ExitCode
from milepost.runner.view import StoreView, mapped_arguments
from milepost.scopes import TaskScope
from milepost.sdk.context import Context, set_current_context
from milepost.sdk.mapped import MappedTask
from milepost.sdk.operator import BaseOperator, execute, resolve_references
from milepost.sdk.references import resolve
from milepost.store import Store, connect

if TYPE_CHECKING:
    from milepost.sdk.dag import DAG
    from milepost.sdk.node import Task

__all__ = ["leave", "main"]

_Ended = Literal["skipped", "failed", "up_for_retry"]
_CODES: dict[_Ended, int] = {
    "skipped": ExitCode.SKIPPED,
    "failed": ExitCode.FAILED,
    "up_for_retry": ExitCode.UP_FOR_RETRY,
}


def main() -> int:
    """Run the attempt that standard input describes.

    Returns:
        The exit code, one of `ExitCode`.
    """
    data = sys.stdin.buffer.read()
    if not data:
        return ExitCode.NOT_STARTED  # the runner died before it could say what to do
    spec = AttemptSpec.load(data)
    die_with(spec.runner)
    # Off while our own modules were imported, which makes no garbage.
    gc.enable()
    _settle_streams(spec)
    try:
        dag = load_dags(spec.file)[spec.dag_id]
        task = dag.task_dict[spec.task_id]
    except KeyError as error:
        return _not_started(spec, f"{spec.file} no longer has {error.args[0]!r}")
    except MilepostError as error:
        return _not_started(spec, str(error))
    _show_logs()
    try:
        with connect(**spec.settings, token=spec.token) as store:
            return _Attempt(spec, store, dag, task).run()
    except StoreError as error:
        _say(f"task {_name(spec)}: {error}")
        _tell(spec, "error", str(error))
        return ExitCode.STORE


def _settle_streams(spec: AttemptSpec) -> None:
    """Give the task an empty standard input and lines that are shown at once, and keep our pipe to ourselves."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.set_inheritable(spec.control, False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv[:] = [spec.file]


def _show_logs() -> None:
    """Show what the task logs, unless the DAG file has set up logging itself."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the attempt's standard error is what the user reads


def _tell(spec: AttemptSpec, what: str, text: str) -> None:
    """Send the runner one line of news; it may be gone."""
    line = f"{what} {' '.join(text.split())[:500]}\n"
    try:
        os.write(spec.control, line.encode(errors="replace"))
    except BrokenPipeError:
        _say("the runner is gone")


def _not_started(spec: AttemptSpec, reason: str) -> int:
    _say(f"task {_name(spec)}: {reason}")
    _tell(spec, "error", reason)
    return ExitCode.NOT_STARTED


_NOT_COMMITTED = (AssetNotActiveError, AssetNotFoundError, DamagedEntryError, UnsupportedTypeError)
"""Why success is refused: what the attempt staged cannot be written any more."""


class _Attempt:
    """One attempt, once its task and its store are there."""

    def __init__(self, spec: AttemptSpec, store: Store, dag: DAG, task: Task) -> None:
        self.spec = spec
        self.store = store
        self.dag = dag
        self.task = task
        self.process = os.getpid()
        self.scope = TaskScope(spec.dag_id, spec.run_id, spec.task_id, spec.map_index)
        params = {**dag.params, **task.params, **spec.params}
        indices = spec.indices
        self.view = StoreView(store, spec.dag_id, spec.run_id, lambda name: indices.get(name, []), params)

    def run(self) -> int:
        """Run it from the opening to the record of its end."""
        try:
            mapped = self._mapped()
            opened = open_attempt(self.store, self.scope, self.spec.attempt, self.task, mapped, self.spec.incarnation)
        except StaleAttemptError as error:
            _say(f"task {_name(self.spec)}: {error}")
            return ExitCode.STALE
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - map_key is the user's code
            return _not_started(self.spec, _one_line(error))
        try:
            operator = self._operator(mapped)
            result = self._execute(operator, self._context(operator, opened))
            self._keep(operator, result)
        except BaseException as error:  # noqa: BLE001 - a task may end by SystemExit too, and all of it is recorded
            self._leave_if_forked(error)
            return self._ended(error)
        self._leave_if_forked(None)
        try:
            return self._finish("success", ExitCode.SUCCESS)
        except _NOT_COMMITTED as error:
            return self._ended(error)

    def _leave_if_forked(self, error: BaseException | None) -> None:
        """End a process that the task forked and that came back here: only the attempt itself records its end."""
        if os.getpid() != self.process:
            code = error.code if isinstance(error, SystemExit) else int(error is not None)
            os._exit(code if isinstance(code, int) else int(code is not None))

    def _mapped(self) -> dict[str, Any] | None:
        if self.spec.item is None:
            return None
        if not isinstance(self.task, MappedTask):
            raise TypeError(f"task {self.task.task_id!r} is no longer mapped in {self.spec.file}")
        mapped: dict[str, Any] = resolve(mapped_arguments(self.task, self.spec.item), self.view)
        return mapped

    def _operator(self, mapped: dict[str, Any] | None) -> BaseOperator:
        operator = self.task.unmap(mapped or {}) if isinstance(self.task, MappedTask) else self.task
        if not isinstance(operator, BaseOperator):
            raise TypeError(f"task {self.task.task_id!r} is {operator!r}, no operator")
        resolve_references(operator, self.view)
        return operator

    def _context(self, operator: BaseOperator, opened: dict[str, Any]) -> Context:
        spec = self.spec
        moment = datetime.fromisoformat(spec.logical_date)
        kind = "asset_triggered" if spec.run_id.startswith(EVENT_RUN_PREFIX) else "manual"
        run = DagRun(spec.dag_id, spec.run_id, moment, spec.params, kind)
        instance = TaskInstance(
            dag_id=spec.dag_id,
            run_id=spec.run_id,
            task_id=spec.task_id,
            map_index=spec.map_index,
            try_number=spec.attempt,
            max_tries=spec.max_tries,
            task=operator,
        )
        return build_context(self.dag, operator, instance, run, opened)

    def _execute(self, operator: BaseOperator, context: Context) -> Any:
        set_current_context(context)
        _tell(self.spec, "started", "")
        if type(operator).on_kill is BaseOperator.on_kill:
            return execute(operator, context)
        _raise_on_term()
        try:
            return execute(operator, context)
        except _Stopped:
            _clean_up(operator)

    def _keep(self, operator: BaseOperator, result: Any) -> None:
        """Store the result.

        Raises:
            TypeError: It is of a type that cannot be passed on.
        """
        task_id = self.spec.task_id
        if operator.multiple_outputs and result is not None and not isinstance(result, dict):
            raise TypeError(f"the result of task {task_id!r}: multiple_outputs needs a dict, not {type(result).__name__}")
        self.store.runs.put_result(
            self.scope, self.spec.attempt, results.encode(result, task_id), incarnation=self.spec.incarnation
        )

    def _ended(self, error: BaseException) -> int:
        """Record and show how an exception ended the attempt."""
        # By name: the exception may be Airflow's own, where both are installed.
        names = {cls.__name__ for cls in type(error).__mro__}
        state: _Ended = "failed"
        if "AirflowSkipException" in names:
            state = "skipped"
        elif self.spec.retry and "AirflowFailException" not in names:
            state = "up_for_retry"
        code = self._finish(state, _CODES[state], None if state == "skipped" else _one_line(error))
        if code != ExitCode.STALE:
            try:
                self._report(state, error)
            except Exception as failure:  # noqa: BLE001 - the task may have closed or broken whatever it is shown on
                with contextlib.suppress(OSError):
                    os.write(2, f"task {_name(self.spec)}: {state}; it cannot be shown why: {failure!r}\n".encode())
        return code

    def _report(self, state: str, error: BaseException) -> None:
        if state == "skipped":
            _say(f"task {_name(self.spec)}: skipped{f': {error}' if str(error) else ''}")
        else:
            _show(self.spec, error)
            _tell(self.spec, "error", _one_line(error))

    def _finish(self, state: Literal["success"] | _Ended, code: int, error: str | None = None) -> int:
        spec = self.spec
        try:
            self.store.instances.finish(self.scope, spec.attempt, state, incarnation=spec.incarnation, error=error)
        except (StaleAttemptError, InstanceNotFoundError) as stale:
            _say(f"task {_name(spec)}: {stale}")
            return ExitCode.STALE
        return code


class _Stopped(BaseException):  # so that no `except Exception` of the task catches it
    """The runner has told this attempt to stop."""


def _raise_on_term() -> None:
    """Unwind the task when the runner stops the attempt, so that no call on the store is left half done."""
    import signal

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    signal.signal(signal.SIGTERM, stop)


def _clean_up(operator: BaseOperator) -> NoReturn:
    """Let the operator clean up, and end the process; the runner records the end."""
    try:
        operator.on_kill()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown, and the process ends
        _say(f"on_kill of task {operator.task_id}: {_one_line(error)}")
    os._exit(128 + 15)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _show(spec: AttemptSpec, error: BaseException) -> None:
    """Print an exception with the user's part of the traceback."""
    import traceback

    _say(f"task {_name(spec)}, attempt {spec.attempt}:")
    if not os.environ.get("MILEPOST_DEBUG"):
        _keep_users_part(error)
    _say("".join(traceback.format_exception(error)).rstrip())


def _name(spec: AttemptSpec) -> str:
    return spec.task_id if spec.map_index < 0 else f"{spec.task_id}[{spec.map_index}]"


def _keep_users_part(error: BaseException | None) -> None:
    """Cut what leads to the user's code off the traceback of an exception, and of those that led to it.

    Of an error of ours, what follows the user's last line goes, too: its message says it all.
    """
    seen: set[int] = set()
    whole = True
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        whole = whole and not isinstance(error, MilepostError)
        error.__traceback__ = _users_part(error.__traceback__, whole=whole)
        error = error.__cause__ or error.__context__


def _users_part(trace: TracebackType | None, *, whole: bool) -> TracebackType | None:
    """Return the traceback without frames of Milepost and the event loop that lead to the user's; without any, nothing.

    Not ``whole``: the user's frames alone.
    """
    package = __file__.removesuffix("runner/attempt.py")
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - text to compare
    ours = (package, os.path.join(library, "asyncio" if whole else "", ""))  # noqa: PTH118 - likewise
    frames = []
    part = trace
    while part is not None:
        frames.append(part)
        part = part.tb_next
    users = [not frame.tb_frame.f_code.co_filename.startswith(ours) for frame in frames]
    if not any(users):
        return None  # the message says it all; MILEPOST_DEBUG shows the rest
    last = len(users) - users[::-1].index(True)
    kept = frames[last] if whole and last < len(frames) else None
    for frame, wanted in reversed(list(zip(frames[:last], users[:last], strict=True))):
        if wanted:
            kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


if __name__ == "__main__":
    leave(main)
