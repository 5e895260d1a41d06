"""What `milepost doctor` checks of a store behind a server: does it answer, what is it, whom does it let in, its clock."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from milepost import __version__
from milepost.cli.doctor import Check
from milepost.errors import ConfigurationError
from milepost.remote.connection import Address, parse_url
from milepost.remote.credentials import LOOPBACK, find_credential

__all__ = ["server_checks"]

_SECONDS: Final = 10.0
_SKEW: Final = 5.0
"""Seconds between two clocks from which on someone should know."""
_API_TOKEN: Final = "milepost_"  # noqa: S105  (how tokens of the REST API begin)


class _Answer(NamedTuple):
    """What came back; ``body`` is `None` where it is no JSON."""

    status: int
    body: Any
    seconds: float


def _ask(address: Address, method: str, path: str, body: Any = None, credential: str | None = None) -> _Answer:
    """Make one request.

    Raises:
        OSError: There was no answer.
    """
    kind = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=_SECONDS)
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    try:
        connection.connect()
        began = time.perf_counter()
        connection.request(method, address.prefix + path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read(1024 * 1024)
        seconds = time.perf_counter() - began
    except http.client.HTTPException as error:
        raise ConnectionError(f"the answer is no HTTP: {type(error).__name__}") from error
    finally:
        connection.close()
    try:
        return _Answer(response.status, json.loads(data), seconds)
    except ValueError:
        return _Answer(response.status, None, seconds)


def server_checks(url: str) -> Iterator[Check]:
    """Check a server from here.

    Args:
        url: Where it is.
    """
    try:
        address = parse_url(url)
    except ConfigurationError as error:
        yield Check("configuration", "fail", str(error), "correct url")
        return
    yield _transport(address)
    try:
        found = _server(_ask(address, "GET", "/execution/v1/openapi.json"))
        yield found
        if found.status == "fail":
            return
        ready = _ready(_ask(address, "GET", "/ready"))
        yield ready
        if ready.status != "fail":
            yield from _inside(url, address)
    except ssl.SSLError as error:
        text = f"no TLS connection to {address}: {getattr(error, 'verify_message', None) or error.reason or error}"
        yield Check("server", "fail", text, "see whether https is spoken there, and whose certificate is shown")
    except OSError as error:
        text = f"{address} cannot be reached: {error.strerror or error}"
        yield Check("server", "fail", text, "start it (`milepost serve`), or correct url")


def _transport(address: Address) -> Check:
    if address.secure:
        return Check("transport", "ok", "TLS")
    if address.host in LOOPBACK:
        return Check("transport", "ok", "plain HTTP, on this machine")
    text = "plain HTTP: who sees the network sees values and credentials"
    return Check("transport", "warn", text, "put a proxy with TLS before the server")


def _server(answer: _Answer) -> Check:
    about = answer.body.get("info") if isinstance(answer.body, dict) else None
    if answer.status != 200 or not isinstance(about, dict) or about.get("title") != "Milepost execution API":
        text = f"answers with HTTP {answer.status}, and not as a Milepost server does"
        fix = "correct url; behind a proxy it ends with the path to the server, at Airflow's API server with /milepost"
        return Check("server", "fail", text, fix)
    version, took = str(about.get("version")), f"{answer.seconds * 1000:.1f} ms for an answer"
    if version != __version__:
        text = f"Milepost {version}, and this is {__version__}; {took}"
        return Check("server", "warn", text, "install the same version on both sides")
    return Check("server", "ok", f"Milepost {version}; {took}")


def _ready(answer: _Answer) -> Check:
    if answer.status == 200:
        return Check("readiness", "ok", "the server reaches its store")
    if answer.status == 503:
        return Check("readiness", "fail", "the server does not reach its store", "see the log of the server")
    return Check("readiness", "warn", f"not told: HTTP {answer.status} for /ready", "have the proxy hand on /ready")


def _inside(url: str, address: Address) -> Iterator[Check]:
    """Check what needs a credential."""
    try:
        credential, source = find_credential(url, address.host, None, None)
    except ConfigurationError as error:
        yield Check("credential", "fail", str(error), "set one of them")
        return
    began = time.time()
    now = _call(address, ["Now"], credential)
    if now.status != 200:
        yield _refused(now, credential, source)
        return
    secret = _call(address, ["ListTokens"], credential).status == 200
    what = "the worker secret, which opens the whole store" if secret else "the token of an attempt"
    yield Check("credential", "ok", f"{source}: {what}")
    verified = _ask(address, "POST", "/execution/v1/verify", None, credential)
    if verified.status != 204:
        text = str(verified.body.get("detail")) if isinstance(verified.body, dict) else f"HTTP {verified.status}"
        yield Check("schema", "fail", text, "run `milepost doctor` where the server runs, with its url")
        return
    yield Check("schema", "ok", "the server finds its store in order")
    yield _clock(float(now.body) / 1e6, began + now.seconds / 2, now.seconds)


def _call(address: Address, call: list[Any], credential: str) -> _Answer:
    return _ask(address, "POST", "/execution/v1/call", call, credential)


def _refused(answer: _Answer, credential: str, source: str) -> Check:
    if answer.status != 401:
        return Check("credential", "fail", f"{source}: HTTP {answer.status}", "see the log of the server")
    if credential.startswith(_API_TOKEN):
        text = f"{source}: a token of the REST API, which does not open the execution API"
    else:
        told = answer.body.get("detail") if isinstance(answer.body, dict) else None
        text = f"{source}: {told or 'refused'}"
    return Check("credential", "fail", text, "set the server's worker secret there, or as [server] secret or secret_file")


def _clock(server: float, here: float, took: float) -> Check:
    """Compare clocks; how long the answer took is how exactly that can be done."""
    away = server - here
    text = f"the server's shows {datetime.fromtimestamp(server, timezone.utc):%Y-%m-%d %H:%M:%S}+00:00"
    if abs(away) > _SKEW + took:
        text += f", {abs(away):.0f} s {'ahead of' if away > 0 else 'behind'} this one"
        return Check("clock", "warn", text, "set the clocks; expiry counts on the server's")
    return Check("clock", "ok", f"{text}, as this one does")
