"""One request on its way: its ids, its KV blocks, its text and its slot in a sandbox.

Rules
* `ids` is the prompt and what stands of the answer; `cached` of them have their keys and values in `blocks`.
* The rest is pending: more than one is prefill, exactly one is decode, and nothing else tells the two apart. So a
  preempted sequence needs no special treatment (its `cached` is 0 again), and neither do ids that a guest appended
  several at a time or took back.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING

from ...kernels.backend import KV_BLOCK_TOKENS
from .held_back import HeldBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from .detokenizer import TextStream
    from .guest import Guest
    from .request import Event, GenerationRequest


class Sequence:
    """A request's state; only the engine's thread touches it.

    Args:
        request: What was asked for.
        sink: Where its events go.
        stream: Its text.
        limit: Most ids, prompt and answer together.
        max_backtrack: Most ids that its guest takes back at a time.
    """

    __slots__ = (
        "blocks",
        "cached",
        "done",
        "forced",
        "guest",
        "held",
        "ids",
        "limit",
        "request",
        "sink",
        "slot",
        "stream",
        "taken_back",
        "window_blocks",
        "window_start",
    )

    def __init__(
        self,
        request: GenerationRequest,
        sink: Callable[[Event], None],
        stream: TextStream,
        limit: int,
        *,
        max_backtrack: int = 0,
    ) -> None:
        self.request = request
        self.sink = sink
        self.stream = stream
        self.limit = limit
        self.ids = array("i", request.prompt_ids)
        self.cached = 0
        self.blocks = array("i")
        self.window_blocks = array("i")
        """Its blocks of layers with a window, from its block number `window_start` on (clause 2.22)."""
        self.window_start = 0
        self.guest: Guest | None = None
        """Its sandbox, with those that share it."""
        self.slot = 0
        self.forced: deque[int] = deque()
        """Ids that its guest has decided on, and that wait for the model's log-probabilities (clause 2.16)."""
        self.held = HeldBack(max_backtrack) if max_backtrack else None
        """Events of ids that may be taken back; None: none ever is."""
        self.taken_back = 0
        """Ids taken back so far."""
        self.done = False
        """It has ended; a guest that is still working will be closed when it answers."""

    @property
    def busy(self) -> bool:
        """Whether its guest is at work: then it takes part in no step."""
        return self.guest is not None and self.guest.busy

    @property
    def pending(self) -> int:
        """Ids whose keys and values are not in the pool."""
        return len(self.ids) - self.cached

    @property
    def earliest(self) -> int:
        """The first position that may run, now or when its guest takes back all that it can."""
        held = 0 if self.held is None else len(self.held)
        return min(self.cached, len(self.ids) - held - 1)

    @property
    def missing_blocks(self) -> int:
        """Blocks that it needs, and does not hold, to run all pending ids; below 0: blocks too many."""
        return blocks_for(len(self.ids)) - len(self.blocks)

    @property
    def generated(self) -> int:
        """Ids of the answer that stand."""
        return len(self.ids) - len(self.request.prompt_ids)


def blocks_for(tokens: int) -> int:
    """KV blocks that hold this many positions."""
    return -(-tokens // KV_BLOCK_TOKENS)
