"""One choice of a session: its history in the guest's memory, and what its next row says (struct sealhost_row).

    slot = Slot(number=0, choice=0, history=…, prompt_length=5)
    slot.change((42,), backtrack=1)
    slot.tell()                                  # flags, ids taken back and ids appended since the last row

* What a row tells of the history is relative to the slot's last row, whatever happened in between.
* An id stands for good once `max_backtrack` ids have ever followed it: then its text may have been sent (clause 2.14 of
  plugins/README.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from . import abi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .decision import Answer

# plain integers: an enumeration's operators cost a microsecond each in the step
_NEW, _ACCEPT, _FORK = int(abi.RowFlag.NEW), int(abi.RowFlag.ACCEPT), int(abi.RowFlag.FORK)

FIRST: Final = 0
"""The slot that the others are forks of."""


class Slot:
    """State of one choice.

    Args:
        number: Of the slot.
        choice: Index of the choice; part of the randomness.
        history: The slot's area: uint32, as many as it has room for.
        prompt_length: Ids that stand there already.
        max_backtrack: Ids that are not settled at most.

    Attributes:
        length: Ids of the history.
        is_open: Whether it goes on.
        flags: What the next row says besides what it wants.
        word: Random u64 of the last row.
        candidates: Entries that the host offered for the next row.
        answer: What the guest said before the logits existed, not used yet.
    """

    __slots__ = (
        "answer", "candidates", "choice", "flags", "history", "is_open", "kept", "known", "length", "max_backtrack",
        "number", "settled", "word",
    )  # fmt: skip

    def __init__(self, number: int, choice: int, history: memoryview, prompt_length: int, max_backtrack: int) -> None:
        self.number = number
        self.choice = choice
        self.history = history
        self.max_backtrack = max_backtrack
        self.begin(prompt_length)

    def begin(self, prompt_length: int) -> None:
        """Goes back to the state before the first row."""
        self.answer: Answer | None = None
        self.is_open = True
        self.flags = _NEW if self.number == FIRST else _FORK
        self.length = self.known = self.kept = self.settled = prompt_length
        self.word = self.candidates = 0

    @property
    def room(self) -> int:
        """Ids that may be taken back now."""
        return self.length - self.settled

    def change(self, tokens: Sequence[int], backtrack: int) -> None:
        """Takes ids off the history and appends others; the caller has checked both."""
        length = self.length - backtrack
        self.kept = min(self.kept, length)
        for token in tokens:
            self.history[length] = token
            length += 1
        self.length = length
        self.settled = max(self.settled, length - self.max_backtrack)
        self.flags |= _ACCEPT
        self.answer = None  # it was given for another history

    def tell(self) -> tuple[int, int, int]:
        """Flags, ids taken back and ids appended since the last row; from now on the guest knows them."""
        told = (self.flags, self.known - self.kept, self.length - self.kept)
        self.flags = 0
        self.known = self.kept = self.length
        return told

    def past(self) -> NDArray[np.uint32]:
        """The history. Shape: (length,), uint32, a live view."""
        return np.frombuffer(self.history, np.uint32, self.length)
