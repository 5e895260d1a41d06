"""Who calls: those who start tasks show the worker secret, attempts show a token.

A token is a JWT (HS256) whose key is derived from the secret. It names one attempt of one task instance and what that
attempt declared. When the attempt opens, the answer brings a token that also holds the numbers that the store gave the
instance, its fence and its assets, so that no later request has to look them up and none can name others.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from milepost.errors import AuthenticationError, InvalidKeyError, InvalidValueError, MissingDependencyError
from milepost.scopes import MAX_ASSET_CHARS, MAX_ID_CHARS, AssetScope, TaskScope, check_text

try:
    import jwt
except ImportError as error:
    raise MissingDependencyError("a server needs more packages: pip install 'milepost[server]'") from error

__all__ = ["MAX_TOKEN", "Claims", "Launcher", "WorkerAuth", "bearer", "claims_of", "mark"]

_AUDIENCE: Final = "milepost.execution"
_CACHED: Final = 4096
MAX_TOKEN: Final = 40_000
"""Characters of a token before its attempt has opened; it then also holds the numbers of its assets."""


class Launcher:
    """Who shows the worker secret: the whole store is open."""


LAUNCHER: Final = Launcher()


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says.

    Args:
        scope: The task instance.
        attempt: The attempt.
        incarnation: That of the run, if one was given.
        inlets: Marks (see `mark`) of the declared inlets.
        outlets: Of the declared outlets.
        aliases: Of the declared aliases among the inlets.
        results: Of the tasks of the same run whose results the attempt may read.
        expires_at: When the token ends, in seconds since 1970.
        instance_id: The number of the instance, once the attempt has opened; so are the next two.
        fence: The fence that the attempt holds.
        assets: The numbers of its assets.
    """

    scope: TaskScope
    attempt: int
    incarnation: str | None
    inlets: frozenset[str]
    outlets: frozenset[str]
    aliases: frozenset[str]
    results: frozenset[str]
    expires_at: int
    instance_id: int | None = None
    fence: int | None = None
    assets: frozenset[int] = frozenset()

    def opened(self, instance_id: int, fence: int, assets: frozenset[int]) -> Claims:
        """Return what the token says once the attempt has opened."""
        return replace(self, instance_id=instance_id, fence=fence, assets=assets)


def bearer(header: bytes | None) -> str:
    """Return the credential of an ``Authorization`` header.

    Raises:
        AuthenticationError: There is none.
    """
    kind, _, credential = (header or b"").decode("latin-1").strip().partition(" ")
    if kind.lower() != "bearer" or not credential.strip():
        raise AuthenticationError("send a credential: Authorization: Bearer …")
    return credential.strip()


class WorkerAuth:
    """Knows the worker secret, makes tokens and reads them.

    Args:
        secrets: The worker secret, then older ones that are still accepted, with the tokens that were made with them.
        seconds: How long tokens last.
    """

    def __init__(self, secrets: Sequence[str], seconds: int) -> None:
        self._secrets = [hmac.digest(b"milepost worker secret", one.encode(), "sha256") for one in secrets]
        self._keys = [hmac.digest(one.encode(), b"milepost execution token 2", "sha256") for one in secrets]
        self.seconds = seconds
        self._read: OrderedDict[str, Claims] = OrderedDict()

    def who(self, credential: str) -> Launcher | Claims:
        """Return who shows a credential.

        Raises:
            AuthenticationError: It is unknown, or the token has expired.
        """
        claims = self._read.get(credential)
        if claims is not None:
            return self._in_time(claims)
        given = hmac.digest(b"milepost worker secret", credential.encode(errors="replace"), "sha256")
        if any([hmac.compare_digest(given, one) for one in self._secrets]):  # noqa: C419  (all of them, always)
            return LAUNCHER
        claims = self._in_time(self._decode(credential))
        self._read[credential] = claims
        if len(self._read) > _CACHED:
            self._read.popitem(last=False)
        return claims

    @staticmethod
    def _in_time(claims: Claims) -> Claims:
        if claims.expires_at <= time.time():
            raise AuthenticationError("the token has expired")
        return claims

    def _decode(self, token: str) -> Claims:
        for key in self._keys:
            with contextlib.suppress(jwt.InvalidSignatureError):
                return _claims_in(token, key)
        raise AuthenticationError("the credential is unknown to this server")

    def token(self, claims: Claims) -> tuple[str, int]:
        """Return a token, and how many seconds it lasts."""
        now = int(time.time())
        payload: dict[str, Any] = {
            "aud": _AUDIENCE,
            "iat": now,
            "exp": now + self.seconds,
            "attempt": [
                _task(claims.scope),
                claims.attempt,
                claims.incarnation,
                sorted(claims.inlets),
                sorted(claims.outlets),
                sorted(claims.aliases),
                sorted(claims.results),
            ],
        }
        if claims.instance_id is not None:
            payload["opened"] = [claims.instance_id, claims.fence, sorted(claims.assets)]
        return jwt.encode(payload, self._keys[0], algorithm="HS256"), self.seconds


def _claims_in(token: str, key: bytes) -> Claims:
    """Return what a token says.

    Raises:
        InvalidSignatureError: It was made with another key.
        AuthenticationError: It is none.
    """
    try:
        found = jwt.decode(
            token,
            key,
            algorithms=["HS256"],
            audience=_AUDIENCE,
            options={"require": ["exp", "iat", "aud"], "verify_exp": False, "verify_iat": False},
        )
        scope, attempt, incarnation, inlets, outlets, aliases, results = found["attempt"]
        instance_id, fence, assets = found.get("opened", (None, None, ()))
        return Claims(
            TaskScope(*scope),
            attempt,
            incarnation,
            frozenset(inlets),
            frozenset(outlets),
            frozenset(aliases),
            frozenset(results),
            int(found["exp"]),
            instance_id,
            fence,
            frozenset(assets),
        )
    except jwt.InvalidSignatureError:
        raise
    except (jwt.PyJWTError, KeyError, TypeError, ValueError):
        raise AuthenticationError("the credential is unknown to this server") from None


def _task(scope: TaskScope) -> list[Any]:
    return [scope.dag_id, scope.run_id, scope.task_id, scope.map_index]


def mark(thing: AssetScope | str) -> str:
    """Return what stands for an asset or a name in a token, which has to fit into a header: 120 bits of a digest.

    Nobody finds another name for the mark of a given one, so that it is as good as the name itself.
    """
    parts = [thing.asset_id, thing.name, thing.uri] if isinstance(thing, AssetScope) else thing
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=15).digest()
    return base64.urlsafe_b64encode(digest).decode()


def claims_of(body: Any) -> Claims:
    """Return the claims that a launcher asks a token for.

    Args:
        body: ``{"scope": [dag, run, task, map index], "attempt": n, "incarnation": …, "inlets": [[id, name, URI], …],
            "outlets": […], "aliases": [name, …], "results": [task, …]}``; all but the first two may be left out.

    Raises:
        InvalidValueError: It is not of that form.
    """
    if not isinstance(body, dict):
        raise InvalidValueError("the request must be an object with scope and attempt")
    if unknown := set(body) - {"scope", "attempt", "incarnation", "inlets", "outlets", "aliases", "results"}:
        raise InvalidValueError(f"the request has the unknown field {min(unknown)!r}")
    scope, attempt = body.get("scope"), body.get("attempt")
    if not isinstance(scope, list) or len(scope) != 4:
        raise InvalidValueError("scope must be a list of dag_id, run_id, task_id and map_index")
    if type(attempt) is not int or not 1 <= attempt < 2**31:
        raise InvalidValueError("attempt must be a whole number from 1 to 2**31-1")
    incarnation = body.get("incarnation")
    return Claims(
        TaskScope(*scope),
        attempt,
        None if incarnation is None else check_text(incarnation, "incarnation", MAX_ID_CHARS),
        _assets(body, "inlets"),
        _assets(body, "outlets"),
        _names(body, "aliases", MAX_ASSET_CHARS),
        _names(body, "results", MAX_ID_CHARS),
        0,
    )


def _names(body: dict[str, Any], name: str, limit: int) -> frozenset[str]:
    given = body.get(name, [])
    if not isinstance(given, list):
        raise InvalidValueError(f"{name} must be a list of texts")
    return frozenset(mark(check_text(one, f"one of {name}", limit)) for one in given)


def _assets(body: dict[str, Any], name: str) -> frozenset[str]:
    given = body.get(name, [])
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 3 for one in given):
        raise InvalidKeyError(f"{name} must be a list of assets, each a list of id, name and URI")
    return frozenset(mark(AssetScope(*one)) for one in given)
