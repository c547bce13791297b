"""One request on its way: its ids, its KV blocks, its text and its sandbox.

Rules
* `ids` is the prompt and what was drawn; `cached` of them have their keys and values in `blocks`.
* The rest is pending: more than one is prefill, exactly one is decode, and nothing else tells the two apart. So a
  preempted sequence needs no special treatment: its `cached` is 0 again.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ...kernels.backend import KV_BLOCK_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .detokenizer import TextStream
    from .guests import Session
    from .request import Event, GenerationRequest


class Sequence:
    """A request's state; only the engine's thread touches it.

    Args:
        request: What was asked for.
        sink: Where its events go.
        stream: Its text.
        limit: Most ids, prompt and answer together.
    """

    __slots__ = ("blocks", "busy", "cached", "done", "ids", "limit", "request", "session", "sink", "stream")

    def __init__(
        self, request: GenerationRequest, sink: Callable[[Event], None], stream: TextStream, limit: int
    ) -> None:
        self.request = request
        self.sink = sink
        self.stream = stream
        self.limit = limit
        self.ids = array("i", request.prompt_ids)
        self.cached = 0
        self.blocks = array("i")
        self.session: Session | None = None
        self.busy = False
        """A guest is working for it: it takes part in no step."""
        self.done = False
        """It has ended; a guest that is still working will be closed when it answers."""

    @property
    def pending(self) -> int:
        """Ids whose keys and values are not in the pool."""
        return len(self.ids) - self.cached

    @property
    def missing_blocks(self) -> int:
        """Blocks that it needs, and does not hold, to run all pending ids."""
        return blocks_for(len(self.ids)) - len(self.blocks)

    @property
    def generated(self) -> int:
        """Ids drawn so far."""
        return len(self.ids) - len(self.request.prompt_ids)


def blocks_for(tokens: int) -> int:
    """KV blocks that hold this many positions."""
    return -(-tokens // KV_BLOCK_TOKENS)
