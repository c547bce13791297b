"""What every endpoint does around its own work: catch errors, turn them into answers, notice bugs.

Rules
* Endpoints are ASGI applications; no middleware stands between them and the client's disconnect.
* Each request is counted once, under one of a fixed set of outcomes (clause 7.9).
* An error that is no refusal is a bug: it is logged in one line, and the client gets a plain 500.

Example:
    Route("/tokenize", Tokenize(service), methods=["POST"])
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import structlog

from ...signing.errors import Code, SealhostError
from .connections import CROWDED
from .exchange import ClientGone, Exchange
from .refusal import refusal, unexpected
from .telemetry import Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from starlette.types import Receive, Scope, Send

    from .bodies import Bodies

log = structlog.get_logger("sealhost.serving")


class Handler(Protocol):
    """The work of one endpoint."""

    async def __call__(self, exchange: Exchange) -> None:
        """Reads what it needs from the exchange and answers on it."""


class Endpoint:
    """An ASGI application around a handler.

    Args:
        handler: Its work.
        count: Told how each request ended.
        refuse: Status and body for an error.
        bodies: Those of all requests to this server.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        count: Callable[[Outcome], None] = lambda _: None,
        refuse: Callable[[SealhostError], tuple[int, dict[str, Any]]] = refusal,
        bodies: Bodies | None = None,
    ) -> None:
        self._handler = handler
        self._count = count
        self._refuse = refuse
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        exchange = Exchange(scope, receive, send, self._bodies)
        try:
            await self._handle(exchange)
            self._count(Outcome.FINISHED)
        except ClientGone:
            self._count(Outcome.CANCELLED)
            log.debug("client went away", path=scope["path"])  # counted; a line for each would be a way to fill a disk
        except SealhostError as error:
            if error.code is Code.INTERNAL:
                log.warning("request failed", path=scope["path"], error=str(error))
            status, body = self._refuse(error)
            self._count(outcome_of(status))
            await exchange.answer_refusal(status, body)
        except Exception as error:  # the last line between a bug and the client
            self._count(Outcome.FAILED)
            traceback = os.environ.get("SEALHOST_DEBUG") == "1"
            log.exception("bug", path=scope["path"], error=f"{type(error).__name__}: {error}", exc_info=traceback)
            await exchange.answer_refusal(*unexpected())
        finally:
            exchange.forget_body()

    async def _handle(self, exchange: Exchange) -> None:
        if (crowded := exchange.scope.get(CROWDED)) is not None:
            raise crowded
        await self._handler(exchange)
