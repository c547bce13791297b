"""Decides what the next step computes; pure: no thread, no clock, no model.

Rules
* First come, first served: whoever runs came before everyone who waits (clause 2.4).
* Decode first, then prefill chunks into what is left of the budget (clause 2.3).
* A sequence is admitted when the pool has blocks for all its ids and one more for everyone who runs, so that admission
  itself does not cause a preemption; an empty house admits anyone, so nobody waits for ever.
* When a sequence that runs needs a block and none is free, the youngest gives way (clause 2.6).
* Layers with a window have blocks of their own, which follow the same rules (clause 2.22); when few of them are left a
  chunk is as long as they are enough for.
* A choice waits while an elder one of its group computes the whole blocks of their prompt, and then shares them; the
  rest all of them run together, so that they draw in the same turns (clause 2.20).

Example:
    scheduler.add(sequence)
    for newcomer in scheduler.admit(): ...
    for run in scheduler.plan(): ...
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...kernels.backend import KV_BLOCK_TOKENS
from .windows import Windows

if TYPE_CHECKING:
    from .kv_pool import KvPool
    from .sequence import Sequence


class Run(NamedTuple):
    """Part of a step: the next `length` pending ids of a sequence; with `draws` its logits are wanted."""

    sequence: Sequence
    length: int
    draws: bool


class Scheduler:
    """Who runs, who waits, and what is next.

    Args:
        pool: The KV blocks.
        windows: Those of layers with a window; None: the model has no such layers.
        max_sequences: Most sequences that run.
        step_tokens: Most tokens in a step, at least max_sequences.
        chunk_beside_decode: Most prefill tokens in a step that also decodes.
    """

    def __init__(
        self,
        pool: KvPool,
        windows: Windows | None = None,
        *,
        max_sequences: int,
        step_tokens: int,
        chunk_beside_decode: int,
    ) -> None:
        self.pool = pool
        self.windows = windows or Windows.none()
        self.running: list[Sequence] = []
        self.waiting: deque[Sequence] = deque()
        self.preemptions = 0
        self._max_sequences = max_sequences
        self._step_tokens = step_tokens
        self._chunk_beside_decode = chunk_beside_decode

    def add(self, sequence: Sequence) -> None:
        """Puts a newcomer at the end of the queue."""
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Takes a sequence out, wherever it is, and frees its blocks."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self._free(sequence)

    def admit(self) -> list[Sequence]:
        """Moves sequences from the queue into the house while there is room; answers those moved."""
        admitted: list[Sequence] = []
        while self.waiting and len(self.running) < self._max_sequences:
            first = self.waiting[0]
            promised = sum(self._still_needs(one) for one in self.running if not one.blocks)
            if self._still_needs(first) + promised + len(self.running) > self.pool.free:
                break
            if self.running and not self.windows.has_room(first, self.running):
                break
            self.waiting.popleft()
            if self._elder(first) is None:
                self._grow(first)
            self.running.append(first)
            admitted.append(first)
        return admitted

    def plan(self) -> list[Run]:
        """The next step's content; empty when nobody can run. Takes blocks and preempts as needed."""
        for one in self.running:
            self.windows.slide(one)
        ready, leaders = self._ready()
        runs = [Run(one, 1, draws=True) for one in ready if one.pending == 1]
        room = self._step_tokens - len(runs)
        if runs:
            room = min(room, self._chunk_beside_decode)
        for one in ready:
            length = min(one.pending, room)
            if one in leaders:
                length = min(length, shareable(one) - one.cached)
            if one.pending == 1 or length == 0:
                continue
            length = self.windows.take(one, length)
            runs.append(Run(one, length, draws=length == one.pending))
            room -= length
        return runs

    def trim(self, sequence: Sequence) -> None:
        """Frees blocks that a sequence no longer needs, because ids were taken back."""
        for _ in range(-sequence.missing_blocks):
            self.pool.release(sequence.blocks.pop())

    def _elder(self, sequence: Sequence) -> Sequence | None:
        """The first choice with the same prompt that runs, when it is another one and its blocks are worth sharing."""
        if sequence.request.group is None or sequence.cached >= shareable(sequence):
            return None
        for other in self.running:
            if other is sequence:
                return None
            if (
                other.request.group == sequence.request.group
                and other.request.prompt_ids == sequence.request.prompt_ids
                and self.windows.can_share(other, shareable(sequence))
            ):
                return other
        return None

    def _ready(self) -> tuple[list[Sequence], set[Sequence]]:
        """Those that can take part in the next step, and those among them whose prompt others wait for."""
        ready: list[Sequence] = []
        leaders: set[Sequence] = set()
        for one in self.running:  # preemption shortens the list at its end only, which iterating over it allows
            if one.busy:
                continue
            elder = self._elder(one)
            if elder is not None and elder.cached < shareable(one):
                leaders.add(elder)
                continue
            if elder is not None:
                self._take_over(one, elder)
            if self._make_room(one):
                ready.append(one)
        return ready, leaders

    def _take_over(self, sequence: Sequence, elder: Sequence) -> None:
        """Holds what an elder choice has computed of their prompt together with it."""
        self._free(sequence)
        sequence.cached = shareable(sequence)
        for block in elder.blocks[: sequence.cached // KV_BLOCK_TOKENS]:
            self.pool.share(block)
            sequence.blocks.append(block)
        self.windows.share(elder, sequence)

    def _still_needs(self, sequence: Sequence) -> int:
        """Blocks that it will take for its pending ids, those apart that it will share."""
        shared = 0 if self._elder(sequence) is None else shareable(sequence) // KV_BLOCK_TOKENS
        return sequence.missing_blocks - shared

    def _make_room(self, sequence: Sequence) -> bool:
        """Takes blocks for all its pending ids, at the cost of younger ones or of itself; whether it still runs."""
        while sequence.missing_blocks > self.pool.free or not self.windows.take(sequence, 1):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        self._grow(sequence)
        return True

    def _preempt(self, youngest: Sequence) -> None:
        self.running.pop()
        self._free(youngest)
        self.waiting.appendleft(youngest)
        self.preemptions += 1

    def _grow(self, sequence: Sequence) -> None:
        for _ in range(sequence.missing_blocks):
            sequence.blocks.append(self.pool.take())

    def _free(self, sequence: Sequence) -> None:
        for block in sequence.blocks:
            self.pool.release(block)
        sequence.blocks = array("i")
        sequence.cached = 0
        self.windows.free(sequence)


def shareable(sequence: Sequence) -> int:
    """Positions of its prompt that choices share: whole blocks, but for the last id, whose logits each needs."""
    return (len(sequence.request.prompt_ids) - 1) // KV_BLOCK_TOKENS * KV_BLOCK_TOKENS
