"""How much of all answers may wait for clients that do not read them.

Rules (clause 5.18 of host/README.md)
* A model does not wait for a slow client. So events of streams queue up, and so do bytes of answers that the system has
  not taken yet. One client may leave a whole answer unread, but all of them together are limited to a total.
* When events exceed it, the stream that is furthest behind loses them and ends with an error. When bytes do, the
  connection that has been read too slowly for longest is cut, but never the only one.
* It is logged, every LOG_SECONDS at most.

Example:
    events.grow(generation, 21)
    events.shrink(generation, 21)
    events.forget(generation)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ENTRIES: Final = 1 << 21
"""Events and log-probabilities in them: some 120 bytes each, so 250 MB. One for each token of 256 contexts of 8,192."""

MAX_BYTES: Final = 256 << 20
"""Of answers that were handed over and not read, but for the last one, which may have more by itself."""

LOG_SECONDS: Final = 10.0
"""Between two lines about clients that do not read: a flood of them must not fill the disk, too."""

log = structlog.get_logger("sealhost.serving")


class Stream(Protocol):
    """What is used of a generation."""

    def give_up(self) -> None:
        """Ends it with an error, and drops what has not been read."""


class Connection(Protocol):
    """What is used of a connection."""

    @property
    def unread_bytes(self) -> int:
        """What was handed over and not read."""

    def cut(self) -> None:
        """Ends it at once."""


class _Log:
    """A line at most every LOG_SECONDS."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told = float("-inf")
        self._cut = 0

    def cut(self) -> None:
        """One was cut."""
        self._cut += 1
        if self._clock() - self._told >= LOG_SECONDS:
            log.warning("answers that are not read were cut", number=self._cut)
            self._told, self._cut = self._clock(), 0


class UnreadEvents:
    """The events that wait in all streams; used by one event loop.

    Args:
        limit: Most entries, see MAX_ENTRIES.
        clock: Seconds, for the log.
    """

    def __init__(self, limit: int = MAX_ENTRIES, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._behind: dict[Stream, int] = {}
        self._total = 0
        self._log = _Log(clock)

    def grow(self, one: Stream, entries: int) -> None:
        """So much more waits for a client, at the cost of the one that is furthest behind if it must."""
        self._behind[one] = self._behind.get(one, 0) + entries
        self._total += entries
        while self._total > self._limit:
            last = max(self._behind, key=self._behind.__getitem__)
            self.forget(last)
            last.give_up()
            self._log.cut()

    def shrink(self, one: Stream, entries: int) -> None:
        """So much was taken to be sent."""
        if one in self._behind:
            self._behind[one] -= entries
            self._total -= entries

    def forget(self, one: Stream) -> None:
        """Nothing of it waits any more; idempotent."""
        self._total -= self._behind.pop(one, 0)


class UnreadBytes:
    """The connections of one server that have more to read than the system's buffers hold; used by its event loop.

    Args:
        limit: Most bytes of all of them.
        clock: Seconds, for the log.
    """

    def __init__(self, limit: int = MAX_BYTES, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._all: dict[Connection, None] = {}  # the first to pile up first
        self._log = _Log(clock)

    def piles_up(self, one: Connection) -> None:
        """Its client reads more slowly than it is sent."""
        self._all.setdefault(one)
        while len(self._all) > 1 and sum(each.unread_bytes for each in self._all) > self._limit:
            first = next(iter(self._all))
            self.is_read(first)
            first.cut()
            self._log.cut()

    def is_read(self, one: Connection) -> None:
        """Its client has caught up, or gone; idempotent."""
        self._all.pop(one, None)
