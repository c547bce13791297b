"""One sandbox and the choices of a request that it serves (clause 2.15).

Rules
* While a call is under way (`busy`) nobody touches the session; slots that have ended are closed before the next one.
* The last choice that leaves closes the sandbox, at the latest when the call that is under way has answered.
* A slot serves one choice, once.

Example:
    guest = Guest(sampler, request)
    guest.join(sequence)
    guest.session = ...
    guest.leave(sequence)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .session import MASK_TIER

if TYPE_CHECKING:
    from ..weights.loaded import Sampler
    from .drawing import Ask
    from .request import GenerationRequest
    from .sequence import Sequence
    from .session import Session

log = logging.getLogger(__name__)


class Guest:
    """A sandbox's place in the engine, from the first choice that needs it to the last one that leaves.

    Args:
        sampler: The plugin.
        request: The first choice's; the others ask for the same.

    Attributes:
        choices: Index of the choice that each slot serves.
        members: Choices that have not ended, by slot.
        session: The sandbox, once it is open.
        opening: Whether its sandbox has been asked for.
        busy: Whether a call is under way.
        keeps_time: Whether it has answered, and never after the grace.
        seconds: What its last draw took, or less where that was a hiccup; None: it has not drawn.
        asks: What is to be drawn once the mask tier's answer is there.
    """

    __slots__ = (
        "_ended",
        "_request",
        "_taken",
        "asks",
        "busy",
        "choices",
        "keeps_time",
        "members",
        "opening",
        "sampler",
        "seconds",
        "session",
    )

    def __init__(self, sampler: Sampler, request: GenerationRequest) -> None:
        self.sampler = sampler
        self.choices = seats(request, sampler.max_rows)
        self.members: dict[int, Sequence] = {}
        self.session: Session | None = None
        self.opening = False
        self.busy = False
        self.keeps_time = False
        self.seconds: float | None = None
        self.asks: list[Ask] = []
        self._request = request
        self._taken: set[int] = set()
        self._ended: list[int] = []

    @property
    def prepares(self) -> bool:
        """Whether it is asked while the model steps."""
        return self.sampler.tier == MASK_TIER

    def takes(self, request: GenerationRequest) -> bool:
        """Whether a request is one of its choices, and the slot was never used."""
        mine = self._request
        return (
            request.choice in self.choices
            and self.choices.index(request.choice) not in self._taken
            and (request.params, request.sampler, request.sampler_config, request.prompt_ids)
            == (mine.params, mine.sampler, mine.sampler_config, mine.prompt_ids)
        )

    def join(self, sequence: Sequence) -> None:
        """Gives a choice its slot; it is one that `takes` lets in."""
        slot = self.choices.index(sequence.request.choice)
        sequence.guest, sequence.slot = self, slot
        self.members[slot] = sequence
        self._taken.add(slot)

    def leave(self, sequence: Sequence) -> None:
        """Ends a choice's part in it."""
        del self.members[sequence.slot]
        sequence.guest = None  # clause 2.21: no cycle outlives a request
        self._ended.append(sequence.slot)
        if not self.busy:
            self.tidy()

    def tidy(self) -> None:
        """Closes the sandbox when nobody is left; no call is under way."""
        if self.members:
            return
        self.asks, session = [], self.session
        if session is None:
            return
        self.session = None
        try:
            session.close()
        except Exception:
            log.exception("closing the sandbox of request %s failed", self._request.id)

    def drew(self, seconds: float) -> None:
        """Notes how long a draw took."""
        self.seconds = seconds if self.seconds is None else min(seconds, 2 * self.seconds)

    def take_ended(self) -> list[int]:
        """Slots that have ended since the last call; the next call closes them."""
        ended, self._ended = self._ended, []
        return ended


def seats(request: GenerationRequest, rows: int) -> tuple[int, ...]:
    """The choices that share a sandbox with this one, one for each slot.

    Args:
        request: Any of them.
        rows: Choices that a sandbox of its sampler holds.
    """
    group = request.group
    if group is None or rows <= 1:
        return (request.choice,)
    first = request.choice // rows * rows
    return tuple(range(first, min(first + rows, group.size)))
