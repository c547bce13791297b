"""Who may use the data plane: API keys, and which web pages a browser lets in.

Rules (clause 5.5 of host/README.md)
* The decision is made on `scope["path"]`, never on a URL put together from headers.
* The health checks need no key, and tell a client without one only the status. A browser's preflight cannot carry a key
  and needs none.
* Every answer, a 401 too, carries the CORS headers: without them the page could not read the error.
* With keys, every origin is allowed, because the key is the barrier. Without keys only pages from this machine are:
  otherwise any page that a person visits could use the model on their own computer. A request of another page is
  refused, not just hidden from the page: it would cost work, and to its browser a page whose name was made to point
  here (DNS rebinding) has the same origin as this server, so no CORS headers would be asked for.

Example:
    app = Access(app, keys=["sk-…"], origins=())
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import UsageError
from .bearer import BearerKeys
from .exchange import Exchange
from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = frozenset({"/livez", "/readyz", "/health"})
"""What a supervisor asks without a key."""

MAY_ASK = "sealhost.may_ask"
"""Key of an ASGI scope: whether the client could use the other paths, too."""

PREFLIGHT_SECONDS = b"600"
"""How long a browser may remember a preflight's answer."""

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@A-Z]+|null")
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}")


class Access:
    """An ASGI application in front of another.

    Args:
        app: What it protects.
        keys: API keys, any of which is enough; none: no key is asked for.
        origins: Web origins that are let in, "*" for all; none: see the module's rules.
    """

    def __init__(self, app: ASGIApp, *, keys: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._app = app
        self._keys = BearerKeys(keys)
        self._origins = frozenset(origins) or (frozenset({"*"}) if keys else frozenset())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or answers it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        cors = self._cors(headers.get(b"origin"))

        async def with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *cors]}
            await send(message)

        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await _preflight(headers, with_cors, allowed=len(cors) > 1)
        elif (may_ask := self._admits(headers, is_foreign=len(cors) == 1)) or scope["path"] in OPEN_PATHS:
            await self._app({**scope, MAY_ASK: may_ask}, receive, with_cors)
        elif not self._keys:
            problem = "expected a page of an allowed origin, got a request with another Origin"
            refused = http_refusal(
                403, problem, "start the server with --allow-origin or with API keys", code="origin_refused"
            )
            await Exchange(scope, receive, with_cors).answer_error(refused)
        else:
            refused = http_refusal(
                401, "expected a valid API key", "send Authorization: Bearer KEY", code="invalid_api_key"
            )
            await Exchange(scope, receive, with_cors).answer_error(refused)

    def _admits(self, headers: dict[bytes, bytes], *, is_foreign: bool) -> bool:
        return self._keys.admit(headers.get(b"authorization", b"")) if self._keys else not is_foreign

    def _cors(self, origin: bytes | None) -> list[tuple[bytes, bytes]]:
        """Headers for the answer; `vary` alone for a page that is not let in."""
        if origin is None:
            return []
        vary = (b"vary", b"origin")
        text = origin.decode("latin-1")
        if "*" in self._origins:
            return [(b"access-control-allow-origin", b"*"), vary]
        if text in self._origins or (not self._origins and _is_local(text)):
            return [(b"access-control-allow-origin", origin), vary]
        return [vary]


def check_origin(origin: str) -> None:
    """Accepts by returning what a browser may send as Origin, or "*".

    Raises:
        UsageError: no browser ever sends it, so it would let nobody in.
    """
    if origin != "*" and not _ORIGIN.fullmatch(origin):
        problem = f'expected "*" or an origin such as https://example.org:8443, got {origin!r}'
        raise UsageError("--allow-origin", problem, "give scheme and host, in lower case and without a path")


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _LOCAL_NAMES
    except ValueError:
        return False


async def _preflight(headers: dict[bytes, bytes], send: Send, *, allowed: bool) -> None:
    wanted = headers.get(b"access-control-request-headers", b"")
    names = wanted if _HEADER_NAMES.fullmatch(wanted) else b"authorization, content-type"
    grants = [
        (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
        (b"access-control-allow-headers", names),
        (b"access-control-max-age", PREFLIGHT_SECONDS),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": grants if allowed else []})
    await send({"type": "http.response.body", "body": b""})
