"""What stands in front of the routes: paths as they were sent, and the token.

Servers decode a path before they look for a route, so that ``%2F`` in an id would be taken for a slash. Here routes are
matched against the path as it was sent, and each of its parts is decoded once, after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from milepost.errors import AccessError, InvalidKeyError, NotFoundError, StoreError
from milepost.server.auth import bearer
from milepost.server.rest.answers import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from milepost.server.rest.access import TokenAuth

__all__ = ["Front", "decoded"]

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
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if not path.startswith(f"{root}/"):
            await problem(NotFoundError("there is no such path"))(scope, receive, send)
            return
        try:
            if path != root + OPEN:
                header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
                scope = {**scope, "milepost.token": await self._auth.who(bearer(header))}
        except (AccessError, StoreError) as error:
            await problem(error)(scope, receive, send)
            return
        await self._app({**scope, "path": path}, receive, send)
