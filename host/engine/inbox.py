"""What others want of the engine, from their threads to its own.

Rules
* Whoever posts never waits for a step (clause 2.1).
* It knows nothing of the engine, so that a closed engine is held by nobody (clause 2.21).

Example:
    inbox = Inbox(room=288)
    inbox.submit(request, sink)
    letters, closing = inbox.take(until=lambda: core.has_news)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from .request import Event, GenerationRequest


class Submit(NamedTuple):
    """A request, and where its events go."""

    request: GenerationRequest
    sink: Callable[[Event], None]


class Cancel(NamedTuple):
    """A request that nobody waits for any more."""

    request_id: str


class Taken(NamedTuple):
    """What the engine's thread finds.

    Attributes:
        letters: Everything that was posted, in order.
        closing: It is time to end, once these have been looked at.
    """

    letters: list[Submit | Cancel]
    closing: bool


class Inbox:
    """Letters to the engine's thread, and the ids of all requests that have not ended.

    Args:
        room: Most requests at a time.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._changed = threading.Condition()
        self._letters: list[Submit | Cancel] = []
        self._live: set[str] = set()
        self._closing = False

    @property
    def live(self) -> frozenset[str]:
        """Ids of the requests that have not ended."""
        with self._changed:
            return frozenset(self._live)

    @property
    def is_open(self) -> bool:
        """Whether letters are taken."""
        with self._changed:
            return not self._closing

    def submit(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        """Posts a request.

        Raises:
            Refused: there is no room (429), its id is in use (400) or the engine is closing (503).
        """
        with self._changed:
            if self._closing:
                raise Refused(
                    "expected a running engine, it has ended or is about to",
                    "try again",
                    status=503,
                    type="server_error",
                )
            if request.id in self._live:
                raise Refused("expected an id that is not in use", "choose another id", param="id")
            if len(self._live) >= self._room:
                raise Refused(
                    f"expected at most {self._room} requests at a time, got one more",
                    "try again later",
                    status=429,
                    type="rate_limit_error",
                    reason="queue_full",
                )
            self._live.add(request.id)
            self._letters.append(Submit(request, sink))
            self._changed.notify()

    def cancel(self, request_id: str) -> None:
        """Posts that nobody waits for a request; unknown or ended ids are ignored."""
        with self._changed:
            if request_id in self._live:
                self._letters.append(Cancel(request_id))
                self._changed.notify()

    def close(self) -> None:
        """Takes nothing more; the engine's thread learns of it at once. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def wake(self) -> None:
        """Lets the engine's thread look again."""
        with self._changed:
            self._changed.notify()

    def forget(self, request_id: str) -> None:
        """A request has ended: its id may be used again."""
        with self._changed:
            self._live.discard(request_id)

    def take(self, *, until: Callable[[], bool] | None = None) -> Taken:
        """All letters.

        Args:
            until: Waits for a letter, for the end, or for this; None: does not wait.
        """
        with self._changed:
            if until is not None:
                self._changed.wait_for(lambda: self._letters or self._closing or until())
            letters, self._letters = self._letters, []
            return Taken(letters, self._closing)
