"""How much the bodies of all requests may take together.

Rules (clause 5.16 of host/README.md)
* The first FREE_BYTES of each body are not counted: the limit of connections bounds their number, and a common chat
  is no larger.
* The rest is taken from one total. When that is used up, the body that has been arriving for longest gives way, so
  that clients that trickle keep nobody out; if all others are complete and in work, the new one does.
* Memory is given back when the body is no longer needed: its prompt has become ids, or its request has ended.

Example:
    share = bodies.share()
    with share.coming(give_way):
        share.grow(len(body))       # or raises: the rest is taken
    share.give_back()
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...signing.errors import SealhostError

FREE_BYTES: Final = 64 << 10
"""Of one body: some 15,000 tokens of text."""

MAX_BYTES: Final = 128 << 20
"""Of all bodies beyond that: sixteen of the largest. What they are parsed to may take eight times as much."""


class Bodies:
    """The bodies of one server; used by its event loop.

    Args:
        limit: Bytes of all of them together, beyond what is free.

    Attributes:
        left: Bytes that can still be taken.
    """

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.left = limit
        self._coming: dict[Share, Callable[[], None]] = {}  # the oldest first

    def share(self) -> Share:
        """What a new request takes: nothing yet."""
        return Share(self)

    @contextlib.contextmanager
    def coming(self, share: Share, give_way: Callable[[], None]) -> Iterator[None]:
        """While the block runs, this one may have to give way; it is told so once."""
        self._coming[share] = give_way
        try:
            yield
        finally:
            self._coming.pop(share, None)

    def take(self, size: int, share: Share) -> None:
        """Takes bytes for one, at the cost of the one that has been coming for longest if it must.

        Raises:
            RequestError: 503, that is this one, or none is left that could give way.
        """
        while self.left < size:
            oldest = next((one for one in self._coming if one.taken or one is share), share)
            if oldest is share:
                raise overloaded()
            self._coming.pop(oldest)()
            oldest.give_back()
        self.left -= size

    def give_back(self, size: int) -> None:
        """The bytes are free again."""
        self.left += size


class Share:
    """What one request takes of the total.

    Args:
        bodies: Where from.

    Attributes:
        taken: Bytes of it.
    """

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.taken = 0

    def coming(self, give_way: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """While its body is read; `give_way` is called when another takes its place."""
        return self._bodies.coming(self, give_way)

    def grow(self, size: int) -> None:
        """The body has so many bytes now.

        Raises:
            RequestError: 503, there is no room for them.
        """
        more = size - FREE_BYTES - self.taken
        if more > 0:
            self._bodies.take(more, self)
            self.taken += more

    def give_back(self) -> None:
        """It takes nothing any more; idempotent."""
        taken, self.taken = self.taken, 0
        self._bodies.give_back(taken)


def overloaded() -> SealhostError:
    """The refusal of a body that found no room, or gave way."""
    problem = f"expected bodies of {MAX_BYTES >> 20} MiB at a time, those of other requests take them"
    return http_refusal(503, problem, "try again soon", code="overloaded")
