"""What every endpoint does around its own work: catch errors, turn them into answers, notice bugs.

Rules
* Endpoints are ASGI applications; no middleware stands between them and the client's disconnect.
* An error that is no refusal is a bug: it is logged in one line, and the client gets a plain 500.

Example:
    Route("/tokenize", Tokenize(service), methods=["POST"])
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import structlog

from ...signing.errors import Code, SealhostError
from .exchange import ClientGone, Exchange
from .refusal import unexpected

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = structlog.get_logger("sealhost.serving")


class Handler(Protocol):
    """The work of one endpoint."""

    async def __call__(self, exchange: Exchange) -> None:
        """Reads what it needs from the exchange and answers on it."""


class Endpoint:
    """An ASGI application around a handler."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        exchange = Exchange(scope, receive, send)
        try:
            await self._handler(exchange)
        except ClientGone:
            log.info("client went away", path=scope["path"])
        except SealhostError as error:
            if error.code is Code.INTERNAL:
                log.warning("request failed", path=scope["path"], error=str(error))
            await exchange.answer_error(error)
        except Exception as error:  # the last line between a bug and the client
            traceback = os.environ.get("SEALHOST_DEBUG") == "1"
            log.exception("bug", path=scope["path"], error=f"{type(error).__name__}: {error}", exc_info=traceback)
            await exchange.answer_refusal(*unexpected())
