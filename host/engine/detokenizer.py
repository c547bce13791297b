"""From ids to text, one at a time: UTF-8 that is never cut, stop texts that never leak.

Rules
* Bytes come from the host's own table (clause 1.6); control tokens have none.
* Text is decoded as Python's incremental "replace" decoder does it, so pieces joined equal the whole (clause 2.10).
* A stop text is found wherever token borders fall. What could be its beginning is held back (clause 2.11). Characters
  are looked at one by one, so how they are split into tokens can never change the outcome.
* A stream can go back to any place that it marked, for guests that take ids back (clause 2.17).

Example:
    table = TokenTable(vocabulary)
    stream = TextStream(table, stop=("END",))
    visible, stopped = stream.push(7042)
    tail = stream.finish()
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, NamedTuple

from ..weights.vocabulary import SILENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...sandbox import Vocabulary

_REPLACING = codecs.getincrementaldecoder("utf-8")


class TokenTable:
    """What every id adds to an answer; made once for a model.

    Args:
        vocabulary: The model's vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        silent = set(SILENT_TYPES)
        self.spelled: tuple[bytes, ...] = tuple(
            b"" if kind in silent else spelling
            for spelling, kind in zip(vocabulary.token_bytes, vocabulary.types.tolist(), strict=True)
        )

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids that are all there."""
        return b"".join(map(self.spelled.__getitem__, ids)).decode("utf-8", "replace")


class Pushed(NamedTuple):
    """What one id made visible, and whether a stop text is complete."""

    text: str
    stopped: bool


class TextMark(NamedTuple):
    """A place in a stream to go back to."""

    decoder: tuple[bytes, int]
    scanner: tuple[tuple[int, ...], str] | None


class TextStream:
    """The text of one answer.

    Args:
        table: The model's spellings.
        stop: Literal texts that end the answer, none of them empty.
    """

    def __init__(self, table: TokenTable, stop: Sequence[str] = ()) -> None:
        self._spelled = table.spelled
        self._decoder = _REPLACING("replace")
        self._scanner = StopScanner(stop) if stop else None

    def push(self, token: int) -> Pushed:
        """Adds one id."""
        return self._scan(self._decoder.decode(self._spelled[token]))

    def mark(self) -> TextMark:
        """The place that the stream has reached."""
        return TextMark(self._decoder.getstate(), None if self._scanner is None else self._scanner.mark())

    def rewind(self, mark: TextMark) -> None:
        """Goes back to a place of this stream, as if nothing had been added since."""
        self._decoder.setstate(mark.decoder)
        if self._scanner is not None and mark.scanner is not None:
            self._scanner.rewind(*mark.scanner)

    def finish(self) -> str:
        """The rest: bytes that never became a character, and text held back for a stop that did not come."""
        tail, stopped = self._scan(self._decoder.decode(b"", final=True))
        return tail if stopped or self._scanner is None else tail + self._scanner.flush()

    def _scan(self, text: str) -> Pushed:
        return Pushed(text, stopped=False) if self._scanner is None else self._scanner.push(text)


class StopScanner:
    """Looks for the first of several texts to be complete, and holds back what could become one.

    Each stop text has a Knuth-Morris-Pratt automaton, so the cost does not depend on what was held back. The text is
    cut where the completed one begins; of two that end at the same character, the longer.

    Args:
        stops: The texts to look for, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted(set(stops), key=len, reverse=True)
        self._borders = [_borders(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""

    def push(self, text: str) -> Pushed:
        """Adds text; answers what can be shown now."""
        held = self._held + text
        for index, character in enumerate(text, len(self._held) + 1):
            found = self._advance(character)
            if found:
                self._held = ""
                return Pushed(held[: index - found], stopped=True)
        keep = len(held) - max(self._matched)
        self._held = held[keep:]
        return Pushed(held[:keep], stopped=False)

    def mark(self) -> tuple[tuple[int, ...], str]:
        """How much of each text is there, and what is held back."""
        return tuple(self._matched), self._held

    def rewind(self, matched: tuple[int, ...], held: str) -> None:
        """Takes up what `mark` told."""
        self._matched[:] = matched
        self._held = held

    def flush(self) -> str:
        """What was held back; no more text will come."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> int:
        """Feeds one character; answers the length of the longest stop text that it completes, else 0."""
        for number, stop in enumerate(self._stops):
            length, borders = self._matched[number], self._borders[number]
            while length and stop[length] != character:
                length = borders[length - 1]
            if stop[length] == character:
                length += 1
            if length == len(stop):
                return length
            self._matched[number] = length
        return 0


def _borders(text: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = borders[length - 1]
        length += text[index] == text[length]
        borders[index] = length
    return borders
