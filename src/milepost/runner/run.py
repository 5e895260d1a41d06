"""One command: run a DAG file, or go on with a run of it."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from milepost.errors import DamagedStoreError, InvalidValueError, MilepostError, RunHeldError, RunNotFoundError
from milepost.runner.declaring import declare_assets
from milepost.runner.errors import DagLoadError, RunnerUsageError
from milepost.runner.graph import after_all, left_over
from milepost.runner.holder import Hold
from milepost.runner.load import choose_dag, load_dags
from milepost.runner.progress import make_display, row_of
from milepost.store import connect
from milepost.streams import steady_streams
from milepost.values import encode, loads_strict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.run_records import RunRecord
    from milepost.runner.progress import Display
    from milepost.runner.runner import Runner
    from milepost.sdk.dag import DAG
    from milepost.store import Store

__all__ = ["run_file"]


def run_file(
    path: str | os.PathLike[str],
    dag_id: str | None = None,
    *,
    run_id: str | None = None,
    params: Mapping[str, Any] | str | None = None,
    workers: int = 1,
    url: str | None = None,
    settings: Mapping[str, Any] | None = None,
    clear: Sequence[str] = (),
    keep_state: bool = False,
    downstream: bool = False,
    as_json: bool = False,
) -> int:
    """Run a DAG of a file, or go on with a run of it, and show how it goes.

    Finished tasks of the run are not run again. All others get a fresh retry budget; attempt numbers go on.

    Args:
        path: The DAG file.
        dag_id: The DAG; may be left out if the file has only one.
        run_id: The run; by default a new one, ``manual__`` and the time.
        params: Parameters of the run, as a dict or as JSON; a run keeps those that it was started with.
        workers: The most tasks at once.
        url: The store; by default as configured.
        settings: Options of ``[state_store]``.
        clear: Tasks of an existing run to start over first, with all their mapped instances.
        keep_state: Whether clearing leaves their task-store keys in place.
        downstream: Whether to start over the tasks after those to clear, too.
        as_json: Whether standard output is for the summary as JSON alone.

    A closed pipe or terminal ends the output, not the run.

    Returns:
        The exit code: 0 the run succeeded (now or before), 1 it failed, 2 the file or the arguments are wrong, 4 there is
        no such run to clear, 5 another runner holds the run, 128 and the signal's number if a signal stopped it.

    Raises:
        MilepostError: The store cannot be used; the kind of error says why.

    .. versionadded:: 0.1
    """
    search_path = list(sys.path)
    with steady_streams():
        try:
            given = _read_params(params)
            _check_usage(run_id, workers, clear, more=keep_state or downstream)
            dags = load_dags(path)
            dag = choose_dag(dags, dag_id, path)
            _check_tasks(dag, clear)
            with connect(url, **(settings or {})) as store:
                _check_store(store)
                declare_assets(store, dags)
                command = _Command(store, dag, os.path.abspath(os.fspath(path)), given, search_path)  # noqa: PTH100
                wanted = _Clearing(clear, keep_state=keep_state, downstream=downstream)
                return command.run(run_id, wanted, workers=workers, as_json=as_json)
        except (DagLoadError, RunnerUsageError) as error:
            return _fail(error, 2)
        except RunNotFoundError as error:
            return _fail(error, 4)
        except RunHeldError as error:
            return _fail(error, 5)


class _Clearing(NamedTuple):
    """What is to be started over.

    Args:
        tasks: The tasks.
        keep_state: Whether their keys stay.
        downstream: Whether the tasks after them are meant, too.
    """

    tasks: Sequence[str]
    keep_state: bool
    downstream: bool


def _check_usage(run_id: str | None, workers: int, clear: Sequence[str], *, more: bool) -> None:
    if sys.platform == "win32":
        raise RunnerUsageError("the local runner needs Linux or macOS; on Windows only the stores work")
    if workers < 1:
        raise RunnerUsageError(f"workers must be 1 or more, not {workers}")
    if clear and run_id is None:
        raise RunnerUsageError("to clear tasks, name the run: --run-id")
    if more and not clear:
        raise RunnerUsageError("--keep-state and --downstream say how to clear: name a task with --clear")


def _check_tasks(dag: DAG, clear: Sequence[str]) -> None:
    if not dag.task_dict:
        raise DagLoadError(f"{dag.where}: DAG {dag.dag_id!r} has no tasks")
    for task_id in clear:
        if task_id not in dag.task_dict:
            names = ", ".join(dag.task_ids)
            raise RunnerUsageError(f"DAG {dag.dag_id!r} has no task {task_id!r}; it has: {names}")


def _check_store(store: Store) -> None:
    if store.settings.url.startswith("memory:"):
        raise RunnerUsageError("memory:// lives in one process, and every attempt is a process of its own")


def _fail(error: Exception, code: int) -> int:
    if os.environ.get("MILEPOST_DEBUG"):
        raise error
    sys.stderr.write(f"milepost: {error}\n")
    return code


def _give_up(hold: Hold, display: Display) -> None:
    """Let other runners go on with a run, while an error is on its way."""
    try:
        hold.release()
    except RunHeldError:
        pass  # it is given up already: the run was deleted, or another runner has it
    except MilepostError as error:
        display.note(f"the run could not be given up, so it is held until its hold ends: {error}")


def _read_params(params: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    """Return the parameters, checked; `None` if none were given.

    Raises:
        RunnerUsageError: Not a JSON object.
    """
    if params is None:
        return None
    try:
        value = loads_strict(params) if isinstance(params, str) else dict(params)
        encode(value, 0)
    except (InvalidValueError, TypeError) as error:
        raise RunnerUsageError(f"params: {error}") from None
    if not isinstance(value, dict):
        raise RunnerUsageError(f"params must be a JSON object, not {type(value).__name__}")
    return value


class _Command:
    """What the arguments of `run_file` come to, once the DAG and the store are there."""

    def __init__(self, store: Store, dag: DAG, file: str, params: dict[str, Any] | None, search_path: list[str]) -> None:
        self.store = store
        self.dag = dag
        self.file = file
        self.params = params
        self.search_path = search_path

    def run(self, run_id: str | None, wanted: _Clearing, *, workers: int, as_json: bool) -> int:
        """Take the run, drive it, record its end."""
        from milepost.runner.runner import Runner  # not on Windows, where it cannot be imported

        now = datetime.now(timezone.utc)
        run_id = run_id if run_id is not None else f"manual__{now.isoformat()}"
        known = self.store.runs.get(self.dag.dag_id, run_id)
        if wanted.tasks and known is None:
            raise RunNotFoundError(f"no run {self.dag.dag_id}/{run_id} is recorded")
        if known is not None:
            self._refuse_damage(known)
        self._check_params(known)
        display = make_display(as_json=as_json)
        hold = Hold(self.store, self.dag.dag_id, run_id)
        run = hold.take(known, again=bool(wanted.tasks), params=encode(self.params or {}, 0), logical_date=now)
        if run.state == "success":
            self._say_finished(run, display)
            return 0
        try:
            # Under the hold: of several who clear at once, only the one who goes on with the run has cleared.
            self._clear(run_id, wanted, display)
            runner = Runner(
                self.store,
                self.dag,
                self.file,
                run,
                hold=hold,
                workers=workers,
                params={} if run.params is None else loads_strict(run.params),
                path=self.search_path,
                display=display,
            )
            state = self._drive(runner, hold, display)
        except RunHeldError:
            raise
        except BaseException:
            _give_up(hold, display)
            raise
        return self._conclude(runner, state, display)

    def _drive(self, runner: Runner, hold: Hold, display: Display) -> Literal["success", "failed"] | None:
        """Run the tasks, and give the run up."""
        run = runner.run
        count = len(self.dag.task_dict)
        display.note(f"run {run.run_id} of DAG {run.dag_id}: {count} task{'' if count == 1 else 's'}")
        for line in left_over(self.dag, runner.records):
            display.note(line)
        with display:
            state = runner.drive()
        if state is None:
            hold.release()
        else:
            hold.end(state, runner.unstarted())
        return state

    def _conclude(self, runner: Runner, state: Literal["success", "failed"] | None, display: Display) -> int:
        """Show how it went, and collect a little."""
        run = runner.run
        head = {"dag_id": run.dag_id, "run_id": run.run_id, "state": state or "stopped"}
        display.summary(head, runner.rows())
        if state is None:
            display.note(f"to go on: the same command with --run-id {run.run_id}")
            return 128 + (runner.stopped_by or 0)
        hours = self.store.settings.orphan_grace_hours
        try:
            for name in self.store.clean(batches=1).swept:
                display.note(
                    f"collection after the run: removed the asset {name} with its state; "
                    f"it was deactivated for {hours} hours (orphan_grace_hours)"
                )
        except MilepostError as error:
            display.note(f"collection after the run: {error}")
        return 0 if state == "success" else 1

    def _clear(self, run_id: str, wanted: _Clearing, display: Display) -> None:
        """Start tasks over, and say what was left as it is although it comes after them."""
        after = after_all(self.dag, wanted.tasks)
        for task_id in [*wanted.tasks, *(after if wanted.downstream else ())]:
            for record in self.store.instances.list(self.dag.dag_id, run_id, task_id):
                self.store.instances.clear(record.scope, keep=True if wanted.keep_state else None)
        records = self.store.instances.list(self.dag.dag_id, run_id)
        finished = {record.scope.task_id for record in records if record.state in {"success", "skipped"}}
        if kept := [task_id for task_id in after if task_id in finished]:
            display.note(f"finished tasks after these are not run again: {', '.join(kept)}; --downstream clears them, too")

    def _refuse_damage(self, run: RunRecord) -> None:
        """Refuse a run whose record cannot be trusted to say what is finished.

        Raises:
            DamagedStoreError: Names what is damaged.
        """
        instances = self.store.instances.list(run.dag_id, run.run_id)
        damaged = [(f"{run.dag_id}/{run.run_id}", run.damaged), *((str(one.scope), one.damaged) for one in instances)]
        for name, reason in damaged:
            if reason:
                raise DamagedStoreError(
                    f"the record of {name} is damaged ({reason}), so the run cannot go on; "
                    f"start another run, or delete this one: milepost runs delete {run.dag_id} {run.run_id}"
                )

    def _check_params(self, known: RunRecord | None) -> None:
        """Refuse other parameters than those that the run was started with."""
        if known is None or known.params is None or self.params is None:
            return
        # Those in force: what was not given has the default of the DAG.
        started, asked = {**self.dag.params, **loads_strict(known.params)}, {**self.dag.params, **self.params}
        if started != asked:
            raise RunnerUsageError(
                f"run {known.dag_id}/{known.run_id} was started with the params {encode(started, 0)}, "
                f"and --params asks for {encode(asked, 0)}; leave it out to go on with the run, or start a new one"
            )

    def _say_finished(self, run: RunRecord, display: Display) -> None:
        head = {"dag_id": run.dag_id, "run_id": run.run_id, "state": "success"}
        display.note(f"run {run.run_id} of DAG {run.dag_id} has already succeeded; nothing to do")
        records = self.store.instances.list(run.dag_id, run.run_id)
        display.summary(head, [row_of(record) for record in records])
