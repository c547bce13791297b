"""One choice of a session: its history in the guest's memory, and what its next row says (struct sealhost_row).

    slot = Slot(number=0, choice=0, history=…, terms=…, …)
    slot.change((42,), backtrack=1)
    slot.tell(rows, at, SAMPLE)                  # writes a row: ids taken back and appended since the last one, …

* What a row tells of the history is relative to the slot's last row, whatever happened in between.
* An id stands for good once `max_backtrack` ids have ever followed it: then its text may have been sent (clause 2.14 of
  plugins/README.md).
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from . import abi
from .randomness import ahead

if TYPE_CHECKING:
    from collections.abc import Sequence
    from hashlib import blake2b

    from numpy.typing import NDArray

    from .decision import Answer
    from .params import SamplingParams

# plain integers: an enumeration's operators cost a microsecond each in the step
_NEW, _ACCEPT, _FORK = int(abi.RowFlag.NEW), int(abi.RowFlag.ACCEPT), int(abi.RowFlag.FORK)
_SAMPLE = int(abi.RowFlag.SAMPLE)

FIRST: Final = 0
"""The slot that the others are forks of."""

_HEAD = struct.Struct("<2I")
_ASKED = struct.Struct("<2Ifi5f")
_PARTS = struct.Struct(f"<{_HEAD.size}s2I16s2I{_ASKED.size}s5I")
"""abi.ROW, with what stays the same, and with the random words, as bytes."""

_NO_WORDS = bytes(16)
"""Of a row that asks for nothing."""

AHEAD = 16
"""Positions whose randomness is made at a time. Behind a model's step the code of a hash has left the caches, and to
bring it back takes many times what a hash takes."""


class RowConstants(NamedTuple):
    """What all rows of a session say.

    Attributes:
        vocab_size: Ids are below it.
        prompt_length: Ids of the prompt.
        asked: The fields bias_count to frequency_penalty.
        max_backtrack: Ids that are not settled at most.
    """

    vocab_size: int
    prompt_length: int
    asked: bytes
    max_backtrack: int

    @classmethod
    def of(
        cls, params: SamplingParams, *, vocab_size: int, prompt_length: int, config_length: int, max_backtrack: int
    ) -> RowConstants:
        """Packs what a request asks for."""
        p = params
        penalties = (p.repetition_penalty, p.presence_penalty, p.frequency_penalty)
        chain = (p.temperature, p.row_top_k, p.top_p, p.min_p, *penalties)
        asked = _ASKED.pack(len(p.logit_bias), config_length, *chain)
        return cls(vocab_size, prompt_length, asked, max_backtrack)


class Slot:
    """State of one choice.

    Args:
        number: Of the slot.
        begun: The choice's randomness, `randomness.begun`.
        history: The slot's area: uint32, as many as it has room for; the prompt stands there already.
        constants: What all rows say.

    Attributes:
        length: Ids of the history.
        is_open: Whether it goes on.
        flags: What the next row says besides what it wants.
        words: Randomness of the last row: two little-endian u64.
        candidates: Entries that the host offered for the next row.
        answer: What the guest said before the logits existed, not used yet.
    """

    __slots__ = (
        "_ahead", "_ahead_from", "_begun", "_constants", "_head", "_max_backtrack", "answer", "candidates", "flags",
        "history", "is_open", "kept", "known", "length", "number", "settled", "words",
    )  # fmt: skip

    def __init__(self, number: int, begun: blake2b, history: memoryview, constants: RowConstants) -> None:
        self.number = number
        self.history = history
        self._begun = begun
        self._constants = constants
        self._max_backtrack = constants.max_backtrack
        self._head = _HEAD.pack(abi.ROW.size, number)
        self._ahead: list[bytes] = []
        self._ahead_from = 0
        self.begin()

    def begin(self) -> None:
        """Goes back to the state before the first row."""
        self.answer: Answer | None = None
        self.is_open = True
        self.flags = _NEW if self.number == FIRST else _FORK
        self.length = self.known = self.kept = self.settled = self._constants.prompt_length
        self.words = _NO_WORDS
        self.candidates = 0

    @property
    def room(self) -> int:
        """Ids that may be taken back now."""
        return self.length - self.settled

    @property
    def word(self) -> int:
        """Random u64 of the last row."""
        return int.from_bytes(self.words[:8], "little")

    def change(self, tokens: Sequence[int], backtrack: int) -> None:
        """Takes ids off the history and appends others; the caller has checked both."""
        length = self.length - backtrack
        if backtrack:
            self.kept = min(self.kept, length)
        history = self.history
        for token in tokens:
            history[length] = token
            length += 1
        self.length = length
        if (settled := length - self._max_backtrack) > self.settled:
            self.settled = settled
        self.flags |= _ACCEPT
        self.answer = None  # it was given for another history

    def tell(self, rows: memoryview, at: int, wanted: int) -> None:
        """Writes a row: what stays the same, and what changed since the last one, which the guest knows from now on.

        Args:
            rows: The guest's area.
            at: Byte where the row begins.
            wanted: Flags of what is asked for; with SAMPLE the row has randomness.
        """
        vocab_size, prompt_length, asked, _ = self._constants
        length, kept = self.length, self.kept
        words = _NO_WORDS
        if wanted == _SAMPLE:
            later = length - self._ahead_from
            words = self._ahead[later] if 0 <= later < len(self._ahead) else self._more_words()
        self.words = words
        _PARTS.pack_into(
            rows, at, self._head, self.flags | wanted, vocab_size, words, prompt_length, length, asked,
            self.candidates, FIRST, self.known - kept, length - kept, length - self.settled,
        )  # fmt: skip
        self.flags = 0
        self.known = self.kept = length

    def _more_words(self) -> bytes:
        """Randomness of the next position, and of some that follow: clause 8.3."""
        self._ahead_from = self.length
        self._ahead = ahead(self._begun, self.length, AHEAD)
        return self._ahead[0]

    def close(self) -> None:
        """Drops the history's area before its memory goes: who still writes, on another thread, gets a ValueError."""
        with suppress(BufferError):  # a failed draw's traceback may hold a view of it, which nobody writes to
            self.history.release()

    def past(self) -> NDArray[np.uint32]:
        """The history. Shape: (length,), uint32, a live view."""
        return np.frombuffer(self.history, np.uint32, self.length)
