"""Events of ids that a guest may still take back (clause 2.17).

Rules
* An id stands for good once `depth` others have followed it; only then does its client learn of it.
* With each goes the place that the text had reached before it, so that taking it back leaves no trace.

Example:
    held = HeldBack(depth=2)
    for event in held.add(event, stream.mark()): sink(event)
    stream.rewind(held.take_back(1))
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .detokenizer import TextMark
    from .request import TokenEvent


class _Held(NamedTuple):
    event: TokenEvent
    before: TextMark


class HeldBack:
    """The last ids of one choice; `len` is how many can be taken back.

    Args:
        depth: Most ids that are held.
    """

    __slots__ = ("_depth", "_last")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._last: deque[_Held] = deque()

    def __len__(self) -> int:
        return len(self._last)

    def add(self, event: TokenEvent, before: TextMark) -> list[TokenEvent]:
        """Holds an event back; answers those that stand now."""
        self._last.append(_Held(event, before))
        return [self._last.popleft().event] if len(self._last) > self._depth else []

    def take_back(self, count: int) -> TextMark:
        """Drops the last `count` events, 1 to `len`; answers the text's place before them."""
        for _ in range(count - 1):
            self._last.pop()
        return self._last.pop().before

    def release(self) -> list[TokenEvent]:
        """All that is held: nothing can be taken back any more."""
        events = [held.event for held in self._last]
        self._last.clear()
        return events
