"""What stands in front of the routes: paths as they were sent, and the token.

Servers decode a path before they look for a route, so that ``%2F`` in an id would be taken for a slash. Here routes are
matched against the path as it was sent, and each of its parts is decoded once, after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Match, Mount

from milepost.errors import AccessError, InvalidKeyError, StoreError, StoreUnreachableError
from milepost.server.auth import bearer
from milepost.server.logs import OUTAGES
from milepost.server.metrics import ROUTE
from milepost.server.rest.answers import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from milepost.server.rest.access import TokenAuth

__all__ = ["Below", "Front", "check_query", "decoded"]

OPEN: Final = "/openapi.json"
"""The one path that needs no token: it describes the API and holds nothing of the store."""


def decoded(text: str, what: str) -> str:
    """Decode a part of a path, once.

    Raises:
        InvalidKeyError: Its bytes are no UTF-8.
    """
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise InvalidKeyError(f"{what} in the path is not UTF-8 (byte {error.start})") from None


def check_query(query: bytes) -> None:
    """Make sure that a query is text: what is not would be replaced, and lead to another key.

    Raises:
        InvalidKeyError: Its bytes are no UTF-8.
    """
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as error:
        raise InvalidKeyError(f"the query is not UTF-8 (byte {error.start})") from None


class _KeyConvertor(Convertor[str]):
    """What is left of a path, slashes included, but not nothing: no route begins to match where a key is missing."""

    regex = ".+"

    def convert(self, value: str) -> str:
        """Return the part of the path as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return the part of the path as it is."""
        return value


register_url_convertor("key", _KeyConvertor())


class Below(Mount):
    """Hands on all that is sent to below a path, whatever it is decoded to (a mount of Starlette's takes no line breaks)."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a request is for what is mounted here."""
        root = scope.get("root_path", "")
        if scope["type"] != "http" or not sent_path(scope).startswith(f"{root}{self.path}/"):
            return Match.NONE, {}
        return Match.FULL, {
            "app_root_path": scope.get("app_root_path", root),
            "root_path": root + self.path,
            "endpoint": self.app,
            "path_params": {},
        }


def sent_path(scope: Scope) -> str:
    """Return the path as it was sent."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1")


class Front:
    """Looks at the token and hands the path on as it was sent.

    Args:
        app: The routes.
        auth: Knows the tokens.
    """

    def __init__(self, app: ASGIApp, auth: TokenAuth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root = scope["root_path"]
        path = sent_path(scope)
        scope[ROUTE] = []  # the copies below share it
        try:
            if path != root + OPEN:
                header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
                scope = {**scope, "milepost.token": await self._auth.who(bearer(header))}
        except AccessError as error:
            await problem(error)(scope, receive, send)
            return
        except StoreError as error:  # where the store is is not for strangers
            OUTAGES.tell(error)
            await problem(StoreUnreachableError("the store cannot be reached right now"))(scope, receive, send)
            return
        await self._app({**scope, "path": path}, receive, send)
