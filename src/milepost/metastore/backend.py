"""Users' own backends: an adapter that lets a `BaseStateBackend` keep the entries, and the default backend."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from milepost import calls
from milepost.abc import BaseStateBackend, Metastore
from milepost.calls import PLAIN, Call, Handle, Item, Stored, new_version
from milepost.clock import from_micros, to_micros
from milepost.errors import BackendUnsupportedError, InvalidValueError
from milepost.metastore.session import Gathering, Session
from milepost.retention import NEVER, expiry
from milepost.scopes import AssetScope, Scope, TaskScope

__all__ = ["BackendMetastore", "MetastoreStateBackend"]

R = TypeVar("R")


class _Ask(NamedTuple):
    """A step that one of the backend's methods answers."""

    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]


_Steps = Generator["Call[Any] | _Ask", Any, Any]


_METHODS: dict[type[Call[Any]], str] = {
    calls.Read: "entry() and update()",
    calls.PutDefault: "set_default()",
    calls.PutIf: "compare_and_set() and update()",
    calls.Increment: "increment()",
    calls.Touch: "touch()",
    calls.PastRun: "past_run()",
    calls.EntryPage: "pages of lists (the REST API)",
    calls.Edit: "edits through the REST API",
    calls.DeleteIf: "deletes that expect a version",
    calls.Advance: "advance()",
    calls.History: "history()",
    calls.Rollback: "rollback()",
    calls.Stage: "stage()",
    calls.CopyAsset: "copy()",
    calls.AssetArchives: "archives()",
    calls.RestoreAsset: "restore()",
}


_KEEPS: Final = (
    "the backend %s keeps the entries: no fence in the write itself, no versions, no history, and expiry on read only as "
    "far as its get() sees to it; calls that need those raise an error"
)
_CHANGES: Final = (
    "the backend %s changes what is read: calls that look at stored texts or write them past its set() raise an error, such "
    "as entry(), increment(), compare_and_set(), advance(), stage() and history()"
)

_ON_TEXTS: Final[tuple[type[Call[Any]], ...]] = (
    calls.Read,
    calls.PutDefault,
    calls.PutIf,
    calls.Increment,
    calls.EntryPage,
    calls.Edit,
    calls.Advance,
    calls.History,
    calls.Stage,
    calls.CopyAsset,
)
"""What looks at stored texts, or writes texts, past the methods of the backend."""


class BackendMetastore(Metastore):
    """A metastore whose entries live in a user's backend; everything else stays in the metastore behind it.

    Args:
        inner: Keeps runs, instances, results and the change log, and knows the fences.
        backend: Keeps the entries.
    """

    def __init__(self, inner: Metastore, backend: BaseStateBackend) -> None:
        self.inner = inner
        self.found_schema = inner.found_schema
        self.backend = backend
        self.name = f"{type(backend).__module__}.{type(backend).__qualname__}"
        self._takes_never = "never_expires" in inspect.signature(backend.set).parameters
        self._lists = type(backend).list is not BaseStateBackend.list
        self._native = isinstance(backend, MetastoreStateBackend)
        own = type(backend).get, type(backend).aget
        self._opaque = self._native and own != (MetastoreStateBackend.get, MetastoreStateBackend.aget)
        if self._opaque or not self._native:
            import logging

            logging.getLogger("milepost").warning(
                _CHANGES if self._opaque else _KEEPS, self.name, extra={"action": "backend", "backend": self.name}
            )

    def call(self, call: Call[R], /) -> R:
        """Run a call: on entries by the backend, all others by the metastore."""
        steps = self._steps(call)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Call):
                answer = self.inner.call(step)
            else:
                answer = getattr(self.backend, step.method)(*step.arguments, **step.options)

    async def acall(self, call: Call[R], /) -> R:
        """Run a call through the backend's asynchronous methods; its ``list`` and ``cleanup`` in a thread."""
        import asyncio

        steps = self._steps(call)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Call):
                answer = await self.inner.acall(step)
            elif step.method in ("list", "cleanup"):
                answer = await asyncio.to_thread(getattr(self.backend, step.method), *step.arguments)
            else:
                answer = await getattr(self.backend, f"a{step.method}")(*step.arguments, **step.options)

    def _steps(self, call: Call[Any]) -> _Steps:
        if isinstance(call, calls.CollectBackend) and not self._native:
            return (yield from self._collect(call))
        self._refuse(call)
        handle = call.target if isinstance(call, calls.CopyAsset) else getattr(call, "handle", None)
        if not isinstance(handle, Handle):
            return (yield from self._lifecycle(call))
        session = Session(self.inner, handle)
        if isinstance(call, calls.Get):
            return (yield from self._get(session, call.key))
        if isinstance(call, calls.GetMany):
            present = []
            for key in call.keys:
                if found := (yield from self._get(session, key)):
                    present.append((key, *found))  # noqa: PERF401  (no comprehension may yield)
            return present
        if isinstance(call, calls.Put):
            return (yield from self._put(session, call))
        if isinstance(call, calls.ReadIntent | calls.Intend | calls.KeepJob):
            return (yield from self._job(session, call))
        if isinstance(call, calls.Delete):
            yield calls.Check(handle) if self._native else call  # the metastore forgets a job that was submitted
            return (yield _Ask("delete", (handle.scope, call.key), {"session": session}))
        if isinstance(call, calls.Clear):
            yield calls.Check(handle) if self._native else call
            options = {"all_map_indices": call.all_map_indices, "session": session}
            return (yield _Ask("clear", (handle.scope,), options))
        if isinstance(call, calls.Keys | calls.Count | calls.Items):
            return (yield from self._list(session, call))
        return (yield call)

    def _refuse(self, call: Call[Any]) -> None:
        """Refuse what a backend cannot do.

        Raises:
            BackendUnsupportedError: It has no means for the call, or gives other texts than the stored ones, which the call
                would look at or write as they are.
        """
        why = "it has no versions, history, touch or earlier runs"
        if self._opaque:
            why = "its get() makes something else of stored texts, which this would look at or write as they are"
        if type(call) in (_ON_TEXTS if self._opaque else () if self._native else _METHODS):
            raise BackendUnsupportedError(
                f"the backend {self.name} cannot do {_METHODS[type(call)]}: {why}; use get, set, delete and clear, or the "
                "metastore as backend"
            )

    def _lifecycle(self, call: Call[Any]) -> _Steps:
        """Run a call of the metastore, and clear in the backend what it dropped or set aside.

        The backend cannot keep archives, so what a clear sets aside is gone there. The record comes first: were the process
        killed in between, the fence would be right and the keys would be left.
        """
        answer = yield call
        if isinstance(call, calls.HeldKeys) and not self._native:
            return calls.Held(None, [])
        gone: list[Scope] = []
        if isinstance(call, calls.Open | calls.Expand | calls.ClearInstances):
            gone = answer.discarded
        elif isinstance(call, calls.DeleteRun):
            gone = answer
        elif isinstance(call, calls.Finish) and answer:
            gone = [call.scope]
        elif isinstance(call, calls.Sweep) and answer.asset is not None:
            gone = [answer.asset]
        if not self._native:
            for scope in gone:
                session = Session(self.inner, Handle(scope, "python"))
                yield _Ask("clear", (scope,), {"all_map_indices": False, "session": session})
        return answer

    def _active(self, session: Session) -> _Steps:
        """Tell whether there is anything to read: a deactivated asset shows nothing."""
        if isinstance(session.handle.scope, TaskScope) or self._native:
            return True
        records = yield calls.ListAssets(AssetScope(session.handle.owner_id))
        if records and not records[0].active:
            session.handle.meet_deactivated()
        return bool(records) and records[0].active

    def _get(self, session: Session, key: str) -> _Steps:
        text = None
        if (yield from self._active(session)):
            text = yield _Ask("get", (session.handle.scope, key), {"session": session})
        if text is None:
            yield calls.Count(session.handle)  # a stale attempt must not read "absent"
            return None
        return text, PLAIN

    def _put(self, session: Session, call: calls.Put) -> _Steps:
        if len(call.items) > 1 and not self._native:
            raise BackendUnsupportedError(f"the backend {self.name} cannot write several keys all or nothing: use set()")
        yield calls.Check(session.handle, record=True)
        now = yield calls.Now()
        expires_at, _ = expiry(call.retention, now)
        options: dict[str, Any] = {
            "expires_at": None if expires_at is None else from_micros(expires_at),
            "session": session._replace(retention=call.retention),
        }
        if self._takes_never:
            options["never_expires"] = call.retention == NEVER
        if len(call.items) == 1:
            (item,) = call.items
            yield _Ask("set", (session.handle.scope, item.key, item.text), options)
            return
        gathered = Gathering(self.inner, now)
        options["session"] = options["session"]._replace(metastore=gathered)
        for item in call.items:
            yield _Ask("set", (session.handle.scope, item.key, item.text), options)
        if len({put.retention for put in gathered.puts}) > 1:
            raise BackendUnsupportedError(f"the backend {self.name} gives the keys of one set_many() different expiries")
        items = {item.key: item for put in gathered.puts for item in put.items}
        if items:
            yield calls.Put(session.handle, list(items.values()), gathered.puts[0].retention)

    def _job(self, session: Session, call: calls.ReadIntent | calls.Intend | calls.KeepJob) -> _Steps:
        """Keep ids in the backend and intents in the metastore.

        In this order a crash in between is harmless: an id without its intent is found under the key, and an intent without
        its id is what an attempt leaves that was cut off while submitting.
        """
        if isinstance(call, calls.ReadIntent):
            intent, _ = yield call
            return intent, (yield from self._get(session, call.key))
        if isinstance(call, calls.KeepJob):
            yield from self._put(session, calls.Put(call.handle, [call.item], NEVER))
            return (yield replace(call, entry=False))
        if call.new:
            yield calls.Check(call.handle)
            yield _Ask("delete", (session.handle.scope, call.key), {"session": session})
        return (yield call)

    def _list(self, session: Session, call: calls.Keys | calls.Count | calls.Items) -> _Steps:
        if self._native:
            answer = yield call
            return (yield from self._made(session, answer)) if self._opaque and isinstance(call, calls.Items) else answer
        if not self._lists:
            raise BackendUnsupportedError(f"the backend {self.name} has no list(scope), so keys cannot be listed")
        keys: list[str] = []
        if (yield from self._active(session)):
            keys = sorted((yield _Ask("list", (session.handle.scope,), {})))
        yield calls.Count(session.handle)
        if isinstance(call, calls.Count):
            return len(keys)
        keys = [key for key in keys if key.startswith(call.prefix)]
        if isinstance(call, calls.Keys):
            return keys
        rows = []
        for key in keys:
            if found := (yield from self._get(session, key)):
                text, encoding = found
                rows.append(Stored(key, text, encoding, None, None, None, None, None, None))
        return rows

    def _made(self, session: Session, stored: Sequence[Stored]) -> _Steps:
        """Return rows with what the backend makes of their texts."""
        rows = []
        for row in stored:
            if found := (yield from self._get(session, row.key)):
                value, encoding = found
                rows.append(row._replace(value=value, encoding=encoding))
        return rows

    def _collect(self, call: calls.CollectBackend) -> _Steps:
        if type(self.backend).cleanup is BaseStateBackend.cleanup:
            return f"skipped: the backend {self.name} has no cleanup()"
        if call.dry_run:
            return f"not asked: the backend {self.name} cannot say what its cleanup() would remove"
        yield _Ask("cleanup", (), {})
        return f"removed by cleanup() of the backend {self.name}"

    def now(self) -> int:
        """Return the metastore's time."""
        return self.inner.now()

    def verify(self) -> None:
        """Check the metastore's schema."""
        self.inner.verify()

    def close(self) -> None:
        """Close the metastore."""
        self.inner.close()

    async def aclose(self) -> None:
        """Close the metastore."""
        await self.inner.aclose()


class MetastoreStateBackend(BaseStateBackend):
    """The default backend: entries live in the metastore.

    Subclass it to see or change what is stored, or hold one and hand calls on to it; pass ``session`` on in either case.
    In a subclass, ``set_many`` calls ``set`` for each key and then writes all of them in one transaction: what ``set``
    reads meanwhile is as it was before.

    .. versionadded:: 0.1
    """

    @staticmethod
    def _session(session: Any) -> Session:
        if not isinstance(session, Session):
            raise InvalidValueError("MetastoreStateBackend needs the session that its caller was given; pass it on")
        return session

    @staticmethod
    def _put(session: Session, key: str, value: str, expires_at: datetime | None) -> calls.Put:
        retention = session.retention
        now = session.metastore.now()
        if expires_at is not None and (retention is None or retention == NEVER):
            retention = max(1, to_micros(expires_at) - now)
        return calls.Put(session.handle, [Item(key, value, PLAIN, new_version())], retention)

    def get(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        """Return the JSON text under ``key``; see `BaseStateBackend.get`."""
        at = self._session(session)
        found = at.metastore.call(calls.Get(at.handle, key))
        return None if found is None else found[0]

    def set(self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        at = self._session(session)
        at.metastore.call(self._put(at, key, value, expires_at))

    def delete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        """Drop ``key``; see `BaseStateBackend.delete`."""
        at = self._session(session)
        at.metastore.call(calls.Delete(at.handle, key))

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        """Drop all keys; see `BaseStateBackend.clear`."""
        at = self._session(session)
        at.metastore.call(calls.Clear(at.handle, all_map_indices))

    async def aget(self, scope: Scope, key: str, *, session: Any = None) -> str | None:
        """As `get`."""
        at = self._session(session)
        found = await at.metastore.acall(calls.Get(at.handle, key))
        return None if found is None else found[0]

    async def aset(
        self, scope: Scope, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        at = self._session(session)
        await at.metastore.acall(self._put(at, key, value, expires_at))

    async def adelete(self, scope: Scope, key: str, *, session: Any = None) -> None:
        """As `delete`."""
        at = self._session(session)
        await at.metastore.acall(calls.Delete(at.handle, key))

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: Any = None) -> None:
        """As `clear`."""
        at = self._session(session)
        await at.metastore.acall(calls.Clear(at.handle, all_map_indices))
