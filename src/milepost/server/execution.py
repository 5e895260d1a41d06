"""The execution API: calls of workers and of those who start them. Paths never hold a key.

``POST /execution/v1/call`` runs one call, or several in order; ``/token`` gives a launcher the token of an attempt;
``/renew`` prolongs it while the attempt runs; ``/verify`` checks the schema.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from milepost import calls
from milepost.errors import AuthenticationError, ForbiddenError, InvalidValueError, MilepostError, NotFoundError
from milepost.remote.checks import check_call
from milepost.remote.incoming import Reader
from milepost.remote.problems import problem_of, status_of
from milepost.remote.wire import NOTE_HEADER, TOKEN_HEADER, dump_answer, dumps, name_of
from milepost.server import access
from milepost.server.auth import MAX_TOKEN, Claims, Launcher, WorkerAuth, bearer, claims_of
from milepost.server.logs import OUTAGES
from milepost.values import loads_strict

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from milepost.calls import Call
    from milepost.store import Store

__all__ = ["Execution", "problem"]

_LARGE: Final = 262_144
"""Bytes from which on a request is parsed in a thread, so that others are served meanwhile."""

_OVER: Final = frozenset({"success", "failed", "skipped"})


def problem(error: MilepostError) -> Response:
    """Return the answer to a request that cannot be fulfilled."""
    headers = {}
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    status = status_of(error)
    if status == 503:
        headers["retry-after"] = "1"
        OUTAGES.tell(error)
    return JSONResponse(problem_of(error), status, headers)


class Execution:
    """The routes of the execution API.

    Args:
        store: The store that is served.
        auth: Knows who calls.
    """

    def __init__(self, store: Store, auth: WorkerAuth) -> None:
        self._metastore = store.metastore
        self._auth = auth
        self._reader = Reader(store.settings.max_value_bytes)

    def _who(self, request: Request) -> Launcher | Claims:
        return self._auth.who(bearer(_header(request.scope, b"authorization")))

    # -- calls ----------------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to run calls: the hot route, an application of its own, a third faster without Starlette."""
        try:
            who = self._auth.who(bearer(_header(scope, b"authorization")))
            headers: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
            data = await self._answer(who, await _body(receive), scope, headers)
        except MilepostError as error:
            await problem(error)(scope, receive, send)
            return
        headers.append((b"content-length", str(len(data)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _answer(self, who: Launcher | Claims, body: bytes, scope: Scope, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Run the calls of a request and return the body of the answer."""
        parse = self._reader.body
        wanted, batch = await run_in_threadpool(parse, body) if len(body) > _LARGE else parse(body)
        scope["milepost.calls"] = [name_of(call) for call in wanted]
        if not batch:
            found: Any = await self._run(who, wanted[0], headers)
            if _met_deactivated(wanted[0]):
                headers.append((NOTE_HEADER.encode(), b"deactivated"))
            return dumps(dump_answer(wanted[0], found))
        answers = []
        for call in wanted:
            try:
                told = {"answer": dump_answer(call, await self._run(who, call, headers))}
                answers.append({**told, "note": "deactivated"} if _met_deactivated(call) else told)
            except MilepostError as error:
                answers.append(problem_of(error))
        return dumps(answers)

    async def _run(self, who: Launcher | Claims, call: Call[Any], headers: list[tuple[bytes, bytes]]) -> Any:
        if isinstance(who, Launcher):
            return await self._metastore.acall(check_call(call))
        handle = getattr(call, "handle", None)
        access.permit(who, call)
        check_call(call)
        if isinstance(call, calls.Open):
            return await self._open(who, call, headers)
        if type(call) in access.CHECKED:
            await self._metastore.acall(calls.Check(_opened(who)))
        elif handle is not None and (run_id := access.past_run(who, handle)) is not None:
            await self._settle_past(who, call, run_id)
        return await self._metastore.acall(call)

    async def _open(self, claims: Claims, call: calls.Open, headers: list[tuple[bytes, bytes]]) -> calls.Opened:
        """Open the attempt of a token, and answer with a token that opens what was found."""
        scope = claims.scope
        for record in await self._metastore.acall(
            calls.ListInstances(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
        ):
            if record.attempt == claims.attempt and record.state in _OVER:
                raise ForbiddenError(f"attempt {claims.attempt} of {scope} has ended ({record.state})")
        opened = await self._metastore.acall(call)
        assets = frozenset(number for number, _, _ in (*opened.inlets, *opened.outlets))
        token, _ = self._auth.token(claims.opened(opened.instance_id, opened.fence, assets))
        headers.append((TOKEN_HEADER.encode(), token.encode()))
        return opened

    async def _settle_past(self, claims: Claims, call: Any, run_id: str) -> None:
        """Make sure that a handle on an earlier run leads there; where the keys have gone meanwhile, to nothing."""
        try:
            _, number = await self._metastore.acall(calls.PastRun(_opened(claims), run_id))
        except NotFoundError:
            number = None
        if number != call.handle.owner_id:
            call.handle.owner_id = 0  # no owner has this number

    # -- tokens ---------------------------------------------------------------------------------------------------------

    async def token(self, request: Request) -> Response:
        """Give a launcher the token of one attempt."""
        if not isinstance(self._who(request), Launcher):
            raise ForbiddenError("tokens are made for who shows the worker secret")
        claims = claims_of(loads_strict(await request.body()))
        token, seconds = self._auth.token(claims)
        if len(token) > MAX_TOKEN:
            raise InvalidValueError(
                "the attempt declares more assets, aliases and results than a token can hold (about 1,300 in all)"
            )
        return JSONResponse({"token": token, "seconds": seconds})

    async def renew(self, request: Request) -> Response:
        """Prolong a token, as long as its attempt runs."""
        who = self._who(request)
        if isinstance(who, Launcher):
            raise InvalidValueError("only tokens are renewed; the worker secret does not expire")
        await self._metastore.acall(calls.Check(_opened(who)))
        token, seconds = self._auth.token(who)
        return JSONResponse({"token": token, "seconds": seconds})

    async def verify(self, request: Request) -> Response:
        """Check the schema of the store."""
        self._who(request)
        await asyncio.to_thread(self._metastore.verify)
        return Response(status_code=204)


def _header(scope: Scope, name: bytes) -> bytes | None:
    for key, value in scope["headers"]:
        if key == name:
            return value  # type: ignore[no-any-return]
    return None


async def _body(receive: Receive) -> bytes:
    """Return the body of a request; empty where the client has gone."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts = [body]
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":  # what came is not what was meant
            return b""
        parts.append(message.get("body", b""))
    return b"".join(parts)


def _met_deactivated(call: Call[Any]) -> bool:
    """Tell whether a read found nothing because its asset is deactivated, which the worker wants in its log."""
    handle = getattr(call, "handle", None)
    return handle is not None and handle.deactivated


def _opened(claims: Claims) -> calls.Handle:
    if claims.instance_id is None:
        raise ForbiddenError(f"attempt {claims.attempt} of {claims.scope} has not been opened with this token")
    return access.own_handle(claims)
