"""The accessor of one task instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal

from milepost import calls
from milepost.accessors.base import Accessor, Reader
from milepost.calls import PLAIN, Handle, Item, new_version, stored_value
from milepost.errors import NotFoundError
from milepost.retention import Retention, expiry, parse_retention
from milepost.scopes import TaskScope, check_key, check_text
from milepost.values import JSONValue, encode

__all__ = ["PastRunView", "TaskStoreAccessor"]


class PastRunView(Reader):
    """The keys of a task instance in an earlier run, for reading only.

    .. versionadded:: 0.1
    """

    __slots__ = ()


class TaskStoreAccessor(Accessor):
    """The task store: state of one task instance, kept across its retries. In a task: ``context["task_store"]``.

    ``retention`` says how long a key lives: a `timedelta` from the write on, `NEVER_EXPIRE`, or `None` for the default
    of the configuration.

    .. versionadded:: 0.1
    """

    __slots__ = ()

    def _retention(self, retention: timedelta | None) -> Retention:
        if retention is None:
            return None
        parsed = parse_retention(retention)
        expiry(parsed, self._metastore.now())
        return parsed

    def set(self, key: str, value: JSONValue, *, retention: timedelta | None = None) -> None:
        """Write or overwrite a key.

        Args:
            key: 1 to 512 characters, any but NUL and lone surrogates.
            value: Exactly ``str int float bool list dict``; `None` inside only.
            retention: See the class. Decided anew with every ``set``.

        Raises:
            TypeError: The key is not a `str`, the value would not come back as it is, or the retention is no `timedelta`.
            InvalidKeyError: The key breaks the rules.
            ValueError: The value is `None` or cannot be JSON, or the retention is not positive or too long.
            ValueTooLargeError: The value has more than ``max_value_bytes``.
            StaleAttemptError: This attempt is no longer the current one.
        """
        item = Item(check_key(key), encode(value, self._limit), PLAIN, new_version())
        self._metastore.call(calls.Put(self._handle, (item,), self._retention(retention)))

    async def aset(self, key: str, value: JSONValue, *, retention: timedelta | None = None) -> None:
        """As `set`."""
        await self._metastore.acall(calls.Put(self._handle, (self._item(key, value),), self._retention(retention)))

    def set_many(self, mapping: Mapping[str, JSONValue], *, retention: timedelta | None = None) -> None:
        """Write several keys, all or nothing, in one round trip. Arguments and errors as in `set`."""
        if call := self._put_many(mapping, retention):
            self._metastore.call(call)

    async def aset_many(self, mapping: Mapping[str, JSONValue], *, retention: timedelta | None = None) -> None:
        """As `set_many`."""
        if call := self._put_many(mapping, retention):
            await self._metastore.acall(call)

    def _put_many(self, mapping: Mapping[str, JSONValue], retention: timedelta | None) -> calls.Put | None:
        call = self._puts(mapping, self._retention(retention))
        return call if call.items else None

    def set_default(self, key: str, value: JSONValue, *, retention: timedelta | None = None) -> Any:
        """Write a key only if it is absent; one of several writers at once wins.

        Returns:
            The value that is stored afterwards.
        """
        return stored_value(key, *self._metastore.call(self._put_default(key, value, retention)))

    async def aset_default(self, key: str, value: JSONValue, *, retention: timedelta | None = None) -> Any:
        """As `set_default`."""
        return stored_value(key, *await self._metastore.acall(self._put_default(key, value, retention)))

    def _put_default(self, key: str, value: JSONValue, retention: timedelta | None) -> calls.PutDefault:
        return calls.PutDefault(self._handle, self._item(key, value), self._retention(retention))

    def compare_and_set(self, key: str, value: JSONValue, *, version: str | None, retention: timedelta | None = None) -> str:
        """Write only over the version that was read.

        Args:
            key: The key.
            value: As in `set`.
            version: What `entry` showed; `None`: only if the key is absent.
            retention: As in `set`.

        Returns:
            The new version.

        Raises:
            VersionConflictError: Another version is there; nothing was written.
        """
        call = self._put_if(key, value, version, retention)
        self._metastore.call(call)
        return call.item.version

    async def acompare_and_set(
        self, key: str, value: JSONValue, *, version: str | None, retention: timedelta | None = None
    ) -> str:
        """As `compare_and_set`."""
        call = self._put_if(key, value, version, retention)
        await self._metastore.acall(call)
        return call.item.version

    def _put_if(self, key: str, value: JSONValue, version: str | None, retention: timedelta | None) -> calls.PutIf:
        return calls.PutIf(self._handle, self._item(key, value), version, self._retention(retention))

    def touch(self, key: str, *, retention: timedelta | None) -> None:
        """Move the expiry of a live key; value and version stay. It counts as an update for the default retention.

        Raises:
            KeyError: The key is absent.
        """
        if not self._metastore.call(self._touch(key, retention)):
            raise NotFoundError(f"cannot touch {key!r} of {self.scope}: it is absent")

    async def atouch(self, key: str, *, retention: timedelta | None) -> None:
        """As `touch`."""
        if not await self._metastore.acall(self._touch(key, retention)):
            raise NotFoundError(f"cannot touch {key!r} of {self.scope}: it is absent")

    def _touch(self, key: str, retention: timedelta | None) -> calls.Touch:
        return calls.Touch(self._handle, check_key(key), self._retention(retention))

    def clear(self, all_map_indices: bool = False) -> None:
        """Drop this instance's keys; with ``all_map_indices`` those of every mapped instance of this task in this run.

        Fence and attempt stay; to start an instance over, use `Instances.clear`.
        """
        self._metastore.call(calls.Clear(self._handle, all_map_indices))

    async def aclear(self, all_map_indices: bool = False) -> None:
        """As `clear`."""
        await self._metastore.acall(calls.Clear(self._handle, all_map_indices))

    def past_run(self, run_id: str | None = None) -> PastRunView:
        """Return this task's keys in an earlier run, for reading.

        Args:
            run_id: That run; by default the latest run recorded earlier in which the instance has keys.

        Raises:
            KeyError: No earlier run has keys, as in a DAG's first run; or the run that was named is this one, a later or an
                unknown one, has no keys, or its mapped item was another.
        """
        return self._view(*self._metastore.call(self._past_run(run_id)))

    async def apast_run(self, run_id: str | None = None) -> PastRunView:
        """As `past_run`."""
        return self._view(*await self._metastore.acall(self._past_run(run_id)))

    def _past_run(self, run_id: str | None) -> calls.PastRun:
        return calls.PastRun(self._handle, None if run_id is None else check_text(run_id, "run_id", 250))

    def submit_once(
        self,
        key: str,
        submit: Callable[[str], Any],
        *,
        params: JSONValue = None,
        find: Callable[[str], Any] | None = None,
        status: Callable[[Any], str] | None = None,
        on_unknown: Literal["resubmit", "fail"] = "resubmit",
        on_changed: Literal["reattach", "fail", "resubmit"] = "reattach",
    ) -> Any:
        """Submit a job to another system, once, however often the task is tried again.

        The id is stored under ``key`` and never expires. A later attempt gets it back; only where the job has failed or is
        gone, its key or the instance was cleared, or its parameters changed, another one is submitted. Before ``submit`` is
        called, an intent with a token is durable, so that an attempt that was cut off in mid-submission is noticed.
        One call at a time for a key.

        Args:
            key: The key of the job's id.
            submit: Gets a token and returns the id, any value that can be stored. A service that knows each token once
                (an idempotency key) never runs two jobs.
            params: What the job is given, as JSON; a dict is compared name by name. Fingerprints are stored, not values.
            find: Gets a token and returns the id of the job that was submitted with it, or `NOT_FOUND`. If it raises,
                nothing is submitted.
            status: Gets an id and returns ``"active"``, ``"done"`` or ``"gone"`` (failed or vanished). Without it, a job
                whose id is stored counts as active.
            on_unknown: Where an attempt was cut off in mid-submission and there is no ``find``: ``"resubmit"`` with the
                same token and a warning, or ``"fail"``.
            on_changed: Where ``params`` changed while the job is active: ``"reattach"`` to it with a warning, ``"fail"``,
                or ``"resubmit"``.

        Returns:
            The id of the job.

        Raises:
            TypeError: An argument, or the id, is of a wrong type.
            ValueError: An argument, an answer of ``find`` or ``status``, or the id, is none of what it may be.
            JobConflictError: ``on_unknown`` or ``on_changed`` says so; nothing was submitted.
            StaleAttemptError: This attempt is no longer the current one; nothing was submitted, or, where it was superseded
                while ``submit`` ran, the id was not stored: the next attempt meets an open intent.
        """
        from milepost.accessors.jobs import JobRequest, resume  # few tasks need it, and all would pay for it

        return resume(
            self,
            JobRequest.checked(
                key,
                submit,
                params=params,
                find=find,
                status=status,
                on_unknown=on_unknown,
                on_changed=on_changed,
            ),
        ).job_id

    async def asubmit_once(
        self,
        key: str,
        submit: Callable[[str], Any],
        *,
        params: JSONValue = None,
        find: Callable[[str], Any] | None = None,
        status: Callable[[Any], Any] | None = None,
        on_unknown: Literal["resubmit", "fail"] = "resubmit",
        on_changed: Literal["reattach", "fail", "resubmit"] = "reattach",
    ) -> Any:
        """As `submit_once`; ``submit``, ``find`` and ``status`` may be asynchronous."""
        from milepost.accessors.jobs import JobRequest, aresume

        decision = await aresume(
            self,
            JobRequest.checked(
                key,
                submit,
                params=params,
                find=find,
                status=status,
                on_unknown=on_unknown,
                on_changed=on_changed,
            ),
        )
        return decision.job_id

    def _view(self, scope: TaskScope, owner: int) -> PastRunView:
        own = self._handle
        handle = Handle(
            scope,
            own.writer,
            instance_id=own.instance_id,
            fence=own.fence,
            attempt=own.attempt,
            owner_id=owner,
            fixed=True,
        )
        return PastRunView(self._metastore, handle)
