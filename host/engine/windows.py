"""The KV blocks of layers with a window: a pool of their own, and which of them each sequence still needs.

Rules
* A sequence holds the blocks from the oldest position that one of its queries may still see to the last that was run
  (clause 2.22). Where a guest may take ids back, the last queries may run again, and see what they saw before.
* Blocks are taken for a run, not for a whole prompt: any length gets along with a window and a chunk.
* A model without windows has a pool of no blocks here, and every method is done at once.

Example:
    windows.slide(sequence)
    length = windows.take(sequence, 128)  # how many of the next 128 ids have room
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from ...kernels.backend import KV_BLOCK_TOKENS
from .kv_pool import KvPool
from .sequence import blocks_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..weights.loaded import LoadedModel
    from .sequence import Sequence


class Windows:
    """The second pool and its part of each sequence.

    Args:
        pool: Its blocks; at least `most`, so that a sequence that is alone can always run.
        window: Positions that a query of any such layer sees, its own included; 0: no layer has a window.
        most: Blocks that a sequence needs at most to run its next id.
        chunk: Most ids of one run.

    Raises:
        ValueError: the pool is smaller than that.
    """

    def __init__(self, pool: KvPool, *, window: int = 0, most: int = 0, chunk: int = 0) -> None:
        if pool.total < most:
            raise ValueError(f"expected at least {most} blocks for a window of {window}, got {pool.total}")
        self.pool = pool
        self.most = most
        self._window = window
        self._chunk_blocks = blocks_for(chunk) if window else 0

    @classmethod
    def none(cls) -> Windows:
        """Those of a model without windows."""
        return cls(KvPool(0))

    @classmethod
    def of(cls, loaded: LoadedModel, *, context: int, chunk: int) -> Windows:
        """Those of a model whose sequences have at most `context` ids, in runs of at most `chunk`."""
        again = max((sampler.max_backtrack for sampler in loaded.samplers.values()), default=0)
        most = min(loaded.spec.window_blocks(again), blocks_for(context))
        return cls(KvPool(loaded.window_blocks), window=loaded.spec.window, most=most, chunk=chunk)

    def has_room(self, newcomer: Sequence, running: Iterable[Sequence]) -> bool:
        """Whether a newcomer's window fits beside those of all who run, and a chunk, so that prefill stays whole.

        What choices share now does not count as shared: each window goes on by itself.
        """
        promised = sum(self._needs(one) for one in (newcomer, *running))
        return promised + self._chunk_blocks <= self.pool.total

    def slide(self, sequence: Sequence) -> None:
        """Gives back the blocks that nothing of a sequence will see again."""
        if not sequence.window_blocks:
            return
        count = self._first_seen(sequence.earliest) - sequence.window_start
        if count > 0:
            for block in sequence.window_blocks[:count]:
                self.pool.release(block)
            del sequence.window_blocks[:count]
            sequence.window_start += count

    def take(self, sequence: Sequence, length: int) -> int:
        """Takes blocks for the next ids while there are any; tells for how many ids they are enough, 0 to `length`."""
        if not self._window:
            return length
        end = sequence.window_start + len(sequence.window_blocks)
        for _ in range(min(blocks_for(sequence.cached + length) - end, self.pool.free)):
            sequence.window_blocks.append(self.pool.take())
            end += 1
        return min(length, end * KV_BLOCK_TOKENS - sequence.cached)

    def can_share(self, elder: Sequence, tokens: int) -> bool:
        """Whether a sequence that goes on behind the first `tokens` of an elder one finds all that it sees there."""
        return elder.window_start <= self._first_seen(tokens)

    def share(self, elder: Sequence, sequence: Sequence) -> None:
        """Holds, together with an elder one, what a sequence that holds nothing sees behind its `cached` ids."""
        first = self._first_seen(sequence.cached)
        last = blocks_for(sequence.cached) if self._window else first
        for block in elder.window_blocks[first - elder.window_start : last - elder.window_start]:
            self.pool.share(block)
            sequence.window_blocks.append(block)
        sequence.window_start = first

    def free(self, sequence: Sequence) -> None:
        """Gives back all that a sequence holds."""
        for block in sequence.window_blocks:
            self.pool.release(block)
        sequence.window_blocks, sequence.window_start = array("i"), 0

    def _first_seen(self, position: int) -> int:
        """The block in which the window of a position begins."""
        return max(0, position + 1 - self._window) // KV_BLOCK_TOKENS if self._window else 0

    def _needs(self, sequence: Sequence) -> int:
        """Blocks that a sequence will hold when all its ids have run, and one more id."""
        return min(self.most, blocks_for(len(sequence.ids) + 1))
