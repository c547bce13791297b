"""How many connections a server holds, and which ones give way when there are more.

Rules (clause 5.15 of host/README.md)
* A connection waits while its client owes bytes: the rest of a head or of a body, or the next request. It works from
  the last byte of a request to the end of its answer.
* When a server is full, each new connection closes the one that has waited longest: clients that say nothing keep
  nobody out, and no running answer is cut.
* When all of them are working, SPARE more are accepted and answered once: 503, or the health checks. Any beyond those
  are closed at once.
* Both are logged, every LOG_SECONDS at most.

Example:
    crowd = Crowd(1000)
    is_spare = crowd.enter(connection)
    crowd.works(connection)
    crowd.waits(connection)
    crowd.leave(connection)
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from .access import OPEN_PATHS
from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADMIN_CONNECTIONS: Final = 64
"""Of the admin plane: a few operators and what scrapes it."""

SPARE: Final = 64
"""Connections beyond the limit that are told so; each lives as long as its one answer takes."""

CROWDED: Final = "sealhost.crowded"
"""Key of an ASGI scope: the refusal that is its answer."""

RESERVED_FILES: Final = 256
"""Files that are no connections: bundles that are loaded, the state, renderers, the event loops' own."""

LOG_SECONDS: Final = 10.0
"""Between two lines about a crowd: whoever floods us must not fill the disk, too."""

log = structlog.get_logger("sealhost.serving")


class Connection(Protocol):
    """What is used of a connection."""

    def hang_up(self) -> bool:
        """Closes it, after what is left of an answer; whether that was nothing."""


class Crowd:
    """The connections of one server; used by its event loop.

    Args:
        limit: Most of them.
        clock: Seconds, for the log.
    """

    def __init__(self, limit: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._all: set[Connection] = set()
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        self._hung_up = self._refused = 0
        self._told = float("-inf")

    def enter(self, one: Connection) -> bool | None:
        """Takes a new connection, at the cost of the one that has waited longest if it must.

        Returns:
            Whether it is a spare one, that only health checks may use; None: it is not taken at all.
        """
        while len(self._all) >= self.limit and self._waiting:
            oldest, _ = self._waiting.popitem(last=False)
            self._hung_up += 1
            self._tell()
            if oldest.hang_up():
                self._all.discard(oldest)
                break  # one for one, also where there are spare ones
        if len(self._all) >= self.limit + SPARE:
            self._refused += 1
            self._tell()
            return None
        self._all.add(one)
        self._waiting[one] = None
        return len(self._all) > self.limit

    def works(self, one: Connection) -> None:
        """Its client owes nothing."""
        self._waiting.pop(one, None)

    def waits(self, one: Connection) -> None:
        """Its client owes something; it has its place by when that began."""
        if one in self._all:
            self._waiting.setdefault(one, None)

    def leave(self, one: Connection) -> None:
        """It is closed; idempotent."""
        self._all.discard(one)
        self._waiting.pop(one, None)

    def refused(self) -> None:
        """A spare connection's request was answered 503."""
        self._refused += 1
        self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if now - self._told < LOG_SECONDS:
            return
        log.warning("too many connections", limit=self.limit, hung_up=self._hung_up, refused=self._refused)
        self._told, self._hung_up, self._refused = now, 0, 0


class Crowded:
    """What answers on a spare connection: the health checks as ever, 503 for everything else.

    Args:
        app: The application that others use.
        crowd: Who is told.
    """

    def __init__(self, app: ASGIApp, crowd: Crowd) -> None:
        self._app = app
        self._crowd = crowd

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, and ends the connection."""

        async def last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        if scope["path"] not in OPEN_PATHS:
            self._crowd.refused()
            problem = f"expected fewer than {self._crowd.limit} connections, all of which are being answered"
            refused = http_refusal(503, problem, "try again later", code="too_many_connections")
            scope = {**scope, CROWDED: refused}  # answered behind `access`, whose headers let a page read it
        await self._app(scope, receive, last)


def room_for(wanted: int) -> int:
    """Connections that the limit of open files allows, which is raised for them as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - SPARE - RESERVED_FILES))
