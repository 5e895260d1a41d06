"""The metastore behind a server."""

from __future__ import annotations

import base64
import functools
import json
import os
import random
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

from milepost.abc import Metastore
from milepost.calls import Call
from milepost.clock import Clock
from milepost.errors import (
    AuthenticationError,
    MilepostError,
    OutcomeUnknownError,
    StoreClosedError,
    StoreError,
    StoreUnreachableError,
)
from milepost.remote import wire
from milepost.remote.connection import Answer, LostError, Pool, parse_url
from milepost.remote.problems import error_of
from milepost.scopes import AssetScope, TaskScope
from milepost.threads import outcome
from milepost.tries import note

__all__ = ["HttpMetastore", "Token"]

R = TypeVar("R")

PATIENCE_SECONDS: Final = 15.0
"""How long a call goes on trying to reach a server that does not answer."""

_THREADS: Final = 16
_CALL: Final = "/execution/v1/call"


class Token(NamedTuple):
    """The token of an attempt.

    Args:
        token: The token.
        seconds: How long it lasts unless it is renewed.
    """

    token: str
    seconds: int


class HttpMetastore(Metastore):
    """Everything behind a server (``milepost serve``), with the worker secret or as one attempt with its token.

    Asynchronous calls run in threads. What is lost on the way is sent again for 15 seconds, unless it is not safe to
    repeat. The token of a running attempt renews itself.

    Args:
        url: ``http(s)://host[:port][/prefix]``.
        credential: The worker secret or a token.
        clock: The time of this process.
        source: Where the credential is from, for the error that it is not accepted.

    .. versionadded:: 0.1
    """

    def __init__(self, url: str, credential: str, *, clock: Clock, source: str = "argument credential") -> None:
        address = parse_url(url)
        self.target = str(address)
        self._pool = Pool(address)
        self._clock = clock
        self._credential = credential.encode()
        self.credential_source = source
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._gate = threading.Lock()
        self._closed = threading.Event()
        self._renewal: float | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target!r})"

    # -- calls ------------------------------------------------------------------------------------------------------------

    def call(self, call: Call[R], /) -> R:
        """Run a call; see `Metastore.call`."""
        try:
            raw, note = self._ask(_CALL, wire.dumps(wire.dump_call(call)), repeatable=call.repeatable)
        except OutcomeUnknownError as unknown:
            from milepost.calls.outcome import proof_of, recognised  # rarely needed

            try:
                known = recognised(call, self.call(proof)) if (proof := proof_of(call)) else None
            except MilepostError as error:  # that the row cannot be read now says nothing about the write
                raise unknown from error
            if known is None:
                raise
            return known[0]  # type: ignore[no-any-return]
        if note == "deactivated" and (handle := getattr(call, "handle", None)) is not None:
            handle.meet_deactivated()
        try:
            return wire.answer_reader(call)(raw, "the answer")  # type: ignore[no-any-return]
        except (ValueError, TypeError) as error:
            raise StoreError(f"the answer of {self.target} to {wire.name_of(call)} is not understood: {error}") from error

    async def acall(self, call: Call[R], /) -> R:
        """Run a call in a thread; when cancelled, end no sooner than the work."""
        closed = StoreClosedError(f"the store {self.target} is closed")
        with self._gate:
            if self._closed.is_set():
                raise closed
            if self._executor is None or self._process != os.getpid():
                self._process = os.getpid()
                self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="milepost")
            executor = self._executor
        try:
            job = executor.submit(functools.partial(self.call, call))
        except RuntimeError:
            raise closed from None  # another thread closed it just now
        return await outcome(job)

    def _send(self, path: str, body: bytes) -> Any:
        """Send a request that is safe to repeat, and return the parsed answer."""
        return self._ask(path, body, repeatable=True)[0]

    def _ask(self, path: str, body: bytes, *, repeatable: bool) -> tuple[Any, str | None]:
        """Send a request, again where that is harmless, and return the parsed answer and the note to it."""
        deadline: float | None = None
        wait = 0.05
        while True:
            if self._closed.is_set():
                raise StoreClosedError(f"the store {self.target} is closed")
            try:
                answer = self._pool.post(path, body, self._credential)
                if answer.status < 300:
                    return self._accept(answer), answer.note
                error, sent = self._refused(answer)
                if not isinstance(error, StoreUnreachableError) or isinstance(error, OutcomeUnknownError):
                    raise error
                cause: Exception = error
            except LostError as lost:
                error, sent, cause = StoreUnreachableError(f"cannot reach the server {self.target}: {lost}"), lost.sent, lost
            if sent and not repeatable:
                raise OutcomeUnknownError(
                    f"the answer of {self.target} to a change was lost; it may or may not have taken effect: "
                    "read before you repeat it"
                ) from cause
            now = time.monotonic()
            deadline = deadline or now + PATIENCE_SECONDS
            if now > deadline:
                raise error from cause
            note(error)
            self._closed.wait(random.uniform(0, wait))  # noqa: S311  (no secret)
            wait = min(wait * 2, 1.0)

    def _accept(self, answer: Answer) -> Any:
        if answer.token is not None:
            self._use(answer.token)
        elif self._renewal is not None and time.time() > self._renewal:
            self._renew()
        if not answer.body:
            return None
        try:
            return json.loads(answer.body)
        except ValueError as error:
            raise StoreError(f"the answer of {self.target} is no JSON: is it a Milepost server?") from error

    def _refused(self, answer: Answer) -> tuple[MilepostError, bool]:
        """Return the error that an answer stands for, and whether the call may have taken effect all the same."""
        try:
            error = error_of(answer.status, json.loads(answer.body))
        except ValueError:
            error = None
        if isinstance(error, AuthenticationError):
            error = AuthenticationError(f"{error} ({self.target}); it is from {self.credential_source}")
        if error is not None:
            return error, False
        if answer.status in (502, 503, 504):  # of something in between
            return StoreUnreachableError(f"the server {self.target} answers with HTTP {answer.status}"), True
        hint = " In Airflow's API server it is below /milepost." if answer.status in (404, 405) else ""
        return StoreError(f"{self.target} answers with HTTP {answer.status}: is it a Milepost server?{hint}"), True

    # -- tokens -----------------------------------------------------------------------------------------------------------

    def token(
        self,
        scope: TaskScope,
        attempt: int,
        *,
        incarnation: str | None = None,
        inlets: Iterable[AssetScope] = (),
        outlets: Iterable[AssetScope] = (),
        aliases: Iterable[str] = (),
        results: Iterable[str] = (),
    ) -> Token:
        """Return a token that opens one attempt of one task instance and what it declares; takes the worker secret.

        Args:
            scope: The task instance.
            attempt: The attempt.
            incarnation: That of the run.
            inlets: Assets that the task reads.
            outlets: Assets that the task writes.
            aliases: Aliases among its inlets.
            results: Tasks of the same run whose results it may read.

        Raises:
            ForbiddenError: This client has only a token itself.
        """
        body = {
            "scope": [scope.dag_id, scope.run_id, scope.task_id, scope.map_index],
            "attempt": attempt,
            "incarnation": incarnation,
            "inlets": [[one.asset_id, one.name, one.uri] for one in inlets],
            "outlets": [[one.asset_id, one.name, one.uri] for one in outlets],
            "aliases": list(aliases),
            "results": list(results),
        }
        found = self._send("/execution/v1/token", wire.dumps(body))
        return Token(found["token"], found["seconds"])

    def _use(self, token: str) -> None:
        """Show another token from now on, and have it renewed."""
        self._credential = token.encode()
        self.credential_source = "the server, when the attempt opened"
        first = self._renewal is None
        self._renewal = _half_life(token)
        if first:
            threading.Thread(target=self._keep_renewed, name="milepost-renew", daemon=True).start()

    def _keep_renewed(self) -> None:
        """Renew the token while the task is busy elsewhere and makes no calls."""
        while self._renewal is not None and not self._closed.wait(max(1.0, self._renewal - time.time())):
            if time.time() > self._renewal:
                self._renew()

    def _renew(self) -> None:
        """Renew the token if the server lets us; if not, the next call says why."""
        self._renewal = time.time() + 10
        try:
            answer = self._pool.post("/execution/v1/renew", b"", self._credential)
        except LostError:
            return
        if answer.status == 200:
            token = json.loads(answer.body)["token"]
            self._credential = token.encode()
            self._renewal = _half_life(token)
        elif answer.status < 500:
            self._renewal = None

    # -- the rest ---------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """Return the time of this process in microseconds UTC."""
        return self._clock.now()

    def verify(self) -> None:
        """Have the server check its store; see `Metastore.verify`."""
        self._send("/execution/v1/verify", b"")

    def close(self) -> None:
        """Close all connections."""
        with self._gate:
            self._closed.set()
            executor, self._executor = self._executor, None
        if executor is not None and self._process == os.getpid():
            executor.shutdown(wait=True)
        self._pool.drop()

    async def aclose(self) -> None:
        """Close all connections."""
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)


def _half_life(token: str) -> float:
    """Return the middle of a token's life, in seconds since 1970 by this machine's clock."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return time.time() + float(claims["exp"] - claims["iat"]) / 2
