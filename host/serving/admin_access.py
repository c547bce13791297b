"""Who may use the admin plane.

Rules (clause 7.1 of host/README.md)
* With a key, every path but the health checks needs it. Without one, the socket listens on this machine alone (`serve`
  sees to it), and a request must name it by a name that only this machine has: a page whose own name was made to point
  here sends that name as Host.
* A request that a web page has sent carries an Origin and is refused, key or not: nothing here is for pages.

Example:
    app = AdminAccess(app, keys=BearerKeys(["…"]))
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .access import MAY_ASK, OPEN_PATHS
from .exchange import Exchange
from .refusal import http_refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..errors import RequestError
    from .bearer import BearerKeys

_LOCAL_HOST: Final = re.compile(rb"(?i:localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
"""Names that no other machine can have, with or without a port."""


class AdminAccess:
    """An ASGI application in front of another.

    Args:
        app: What it protects.
        keys: Admin keys; none: see the module's rules.
    """

    def __init__(self, app: ASGIApp, *, keys: BearerKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (refused := self._refusal(scope)) is not None:
            await Exchange(scope, receive, send).answer_error(refused)
        else:
            await self._app({**scope, MAY_ASK: self._may_ask(scope)}, receive, send)

    def _may_ask(self, scope: Scope) -> bool:
        return not self._keys or self._keys.admit(dict(scope["headers"]).get(b"authorization", b""))

    def _refusal(self, scope: Scope) -> RequestError | None:
        headers = dict(scope["headers"])
        if b"origin" in headers:
            problem = "expected a request that no web page has sent, got one with an Origin"
            return http_refusal(403, problem, "use sealhost's verbs or curl", code="origin_refused")
        if not self._keys:
            named = [value for name, value in scope["headers"] if name == b"host"]
            if named and all(_LOCAL_HOST.fullmatch(one) for one in named):
                return None
            problem = "expected Host to be localhost, 127.0.0.1 or [::1]"
            return http_refusal(403, problem, "set an admin key to use other names", code="host_refused")
        if scope["path"] in OPEN_PATHS or self._may_ask(scope):
            return None
        return http_refusal(401, "expected the admin key", "send Authorization: Bearer KEY", code="invalid_admin_key")
