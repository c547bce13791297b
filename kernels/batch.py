"""The input of one step, in arrays that are allocated once and refilled.

A batch mixes prefill chunks and decode rows: it is a flat list of tokens, each belonging to a sequence, each
with a position. Tokens of one sequence are contiguous and ascending in position.

Example:
    batch = StepBatch.allocate(max_tokens=512, max_sequences=32, max_blocks=512)
    batch.clear()
    batch.add([504, 3575], start=0, blocks=[7], logits_address=address)
    model.step(batch)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .backend import KV_BLOCK_TOKENS
from .errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(slots=True)
class StepBatch:
    """Tokens, positions, block tables and logits addresses of one step.

    Attributes:
        tokens: Token ids. Shape: (max_tokens,), int32.
        positions: Position of each token in its sequence. Shape: (max_tokens,), int32.
        sequences: Row of `block_tables` that each token belongs to. Shape: (max_tokens,), int32.
        block_tables: KV block ids of each sequence, in order. Shape: (max_sequences, max_blocks), int32.
        window_tables: The same for layers with a window; entries before the window of a run's first position are never
            read (clause 11.6). Shape as block_tables, which it is unless the batch was made for a `window`.
        logits_tokens: Index into `tokens` of each wanted row of logits. Shape: (max_sequences,), int32.
        logits_addresses: Where that row goes: address of float32[vocab]. Shape: (max_sequences,), uint64.
        token_count: Tokens in use.
        sequence_count: Sequences in use.
        logits_count: Rows of logits wanted.
        window: Positions that any layer with a window sees at most; 0: their blocks are those of all others.
    """

    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    sequences: NDArray[np.int32]
    block_tables: NDArray[np.int32]
    window_tables: NDArray[np.int32]
    logits_tokens: NDArray[np.int32]
    logits_addresses: NDArray[np.uint64]
    token_count: int = 0
    sequence_count: int = 0
    logits_count: int = 0
    window: int = 0

    @classmethod
    def allocate(cls, *, max_tokens: int, max_sequences: int, max_blocks: int, window: int = 0) -> StepBatch:
        """Makes an empty batch with room for these counts; `max_blocks` bounds one sequence's table.

        With a `window` layers that have one go by blocks of their own.
        """
        tables = np.zeros((max_sequences, max_blocks), np.int32)
        return cls(
            tokens=np.zeros(max_tokens, np.int32),
            positions=np.zeros(max_tokens, np.int32),
            sequences=np.zeros(max_tokens, np.int32),
            block_tables=tables,
            window_tables=np.zeros_like(tables) if window else tables,
            logits_tokens=np.zeros(max_sequences, np.int32),
            logits_addresses=np.zeros(max_sequences, np.uint64),
            window=window,
        )

    def clear(self) -> None:
        """Empties the batch; the arrays stay."""
        self.token_count = self.sequence_count = self.logits_count = 0

    def add(
        self,
        ids: Sequence[int],
        *,
        start: int,
        blocks: Sequence[int],
        logits_address: int | None,
        window_blocks: Sequence[int] = (),
        window_start: int = 0,
    ) -> None:
        """Appends a run of one sequence's tokens.

        Args:
            ids: Token ids, at least one.
            start: Position of the first of them.
            blocks: The sequence's KV blocks; they cover positions up to start + len(ids).
            logits_address: Where the logits after the last token go, None when they are not wanted.
            window_blocks: Where the batch has a `window`: the sequence's blocks of layers with a window.
            window_start: Which of the sequence's blocks the first of those is.

        Raises:
            BatchError: the batch is full or the blocks do not cover the positions.
        """
        first, row, end = self.token_count, self.sequence_count, start + len(ids)
        if not ids or first + len(ids) > len(self.tokens) or row >= len(self.block_tables):
            raise BatchError(f"expected room for {len(ids)} tokens in a batch of {len(self.tokens)}, {first} are used")
        if len(blocks) * KV_BLOCK_TOKENS < end or len(blocks) > self.block_tables.shape[1]:
            raise BatchError(f"expected KV blocks for {end} positions, got {len(blocks)} of {KV_BLOCK_TOKENS}")
        last = first + len(ids)
        if len(ids) == 1:  # decode: a slice costs as much as all else here
            self.tokens[first], self.positions[first], self.sequences[first] = ids[0], start, row
        else:
            self.tokens[first:last] = ids
            self.positions[first:last] = np.arange(start, end, dtype=np.int32)
            self.sequences[first:last] = row
        self.block_tables[row, : len(blocks)] = blocks
        if self.window:
            window_end = window_start + len(window_blocks)
            if window_start * KV_BLOCK_TOKENS > max(0, start + 1 - self.window) or window_end * KV_BLOCK_TOKENS < end:
                raise BatchError(
                    f"expected blocks of the {self.window} positions before {start} and of those to {end}, "
                    f"got {window_start} to {window_end}"
                )
            self.window_tables[row, window_start:window_end] = window_blocks
        if logits_address is not None:
            self.logits_tokens[self.logits_count] = last - 1
            self.logits_addresses[self.logits_count] = logits_address
            self.logits_count += 1
        self.token_count, self.sequence_count = last, row + 1
