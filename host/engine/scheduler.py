"""Decides what the next step computes; pure: no thread, no clock, no model.

Rules
* First come, first served: whoever runs came before everyone who waits (clause 2.4).
* Decode first, then prefill chunks into what is left of the budget (clause 2.3).
* A sequence is admitted when the pool has blocks for all its ids and one more for everyone who runs, so that admission
  itself does not cause a preemption; an empty house admits anyone, so nobody waits for ever.
* When a decoding sequence needs a block and none is free, the youngest gives way (clause 2.6).

Example:
    scheduler.add(sequence)
    for newcomer in scheduler.admit(): ...
    for run in scheduler.plan(): ...
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

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
        max_sequences: Most sequences that run.
        step_tokens: Most tokens in a step, at least max_sequences.
        chunk_beside_decode: Most prefill tokens in a step that also decodes.
    """

    def __init__(self, pool: KvPool, *, max_sequences: int, step_tokens: int, chunk_beside_decode: int) -> None:
        self.pool = pool
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
            if first.missing_blocks + len(self.running) > self.pool.free:
                break
            self.waiting.popleft()
            self._grow(first)
            self.running.append(first)
            admitted.append(first)
        return admitted

    def plan(self) -> list[Run]:
        """The next step's content; empty when nobody can run. Takes blocks and preempts as needed."""
        for one in self.running:  # preemption shortens the list at its end only, which iterating over it allows
            if not one.busy:
                self._make_room(one)
        ready = [one for one in self.running if not one.busy]
        runs = [Run(one, 1, draws=True) for one in ready if one.pending == 1]
        room = self._step_tokens - len(runs)
        if runs:
            room = min(room, self._chunk_beside_decode)
        for one in ready:
            length = min(one.pending, room)
            if one.pending == 1 or length == 0:
                continue
            runs.append(Run(one, length, draws=length == one.pending))
            room -= length
        return runs

    def trim(self, sequence: Sequence) -> None:
        """Frees blocks that a sequence no longer needs, because ids were taken back."""
        for _ in range(-sequence.missing_blocks):
            self.pool.release(sequence.blocks.pop())

    def _make_room(self, sequence: Sequence) -> None:
        """Takes blocks for all its pending ids, at the cost of younger sequences or of itself."""
        while sequence.missing_blocks > self.pool.free:
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return
        self._grow(sequence)

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
