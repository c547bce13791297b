r"""SentencePiece's own normaliser, as a GGUF file carries it: which characters become which others before encoding.

Rules
* At each place the longest known run of characters is replaced, from left to right; what is replaced is not looked at
  again.
* The blob is walked for each text and never expanded (NFKC's has 225,000 keys). Every place and offset is checked
  before it is used; one that lies outside ends the match there, so that a malformed blob costs no more than a good one.

Example:
    Charsmap(blob).normalize("\uff28\uff45llo\t")  # "Hello "

Format (sentencepiece, `normalizer.cc`): uint32, the bytes of a double-array trie (darts-clone) over UTF-8; the trie, in
units of 32 bits; the replacements, UTF-8, each ended by NUL. A key's value is its replacement's offset.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import WeightsError

KEY = "tokenizer.ggml.precompiled_charsmap"

MAX_BYTES = 4 << 20
"""Largest blob that is read; that of NFKC with case folding has 0.3 MiB."""

MAX_RUN = 64
"""Longest run of characters that is replaced as one; NFKC's longest has four."""

MAX_REPLACEMENT_BYTES = 64
"""Longest replacement, so that a text grows by no more than that; NFKC's longest has 33. A longer one is none."""

REMEMBERED = 1 << 16
"""Steps of the trie that are kept ready: more than a language has."""

_LABEL = (1 << 31) | 0xFF
_VALUE = (1 << 31) - 1
_HAS_LEAF = 1 << 8
_FAR = 1 << 9
_NOWHERE = -1


class Step(NamedTuple):
    """Where one more character leads.

    Args:
        node: Where its children lie; -1: no key goes on so.
        replacement: What the run up to here becomes, None: it is no key.
    """

    node: int
    replacement: str | None


_DEAD = Step(_NOWHERE, None)


class Charsmap:
    """A normaliser.

    Args:
        blob: As the file has it.

    Raises:
        WeightsError: Its parts do not fit together.
    """

    def __init__(self, blob: bytes) -> None:
        if not 4 <= len(blob) <= MAX_BYTES:
            raise _malformed(f"expected 4 to {MAX_BYTES} bytes, got {len(blob)}")
        (size,) = struct.unpack_from("<I", blob)
        if size % 4 or not 4 <= size < len(blob) - 4:
            raise _malformed(f"expected a trie within {len(blob) - 4} bytes, got one of {size}")
        self._units: list[int] = np.frombuffer(blob, "<u4", size // 4, 4).tolist()
        self._texts = blob[4 + size :]
        self._root = _base(self._units[0])
        self._step = lru_cache(REMEMBERED)(self._walk)
        self._ascii = self._ascii_table()

    def normalize(self, text: str) -> str:
        """The text with everything replaced; time is linear in its length."""
        if self._ascii is not None and text.isascii():
            return text.translate(self._ascii)
        made, at, last = [], 0, len(text) - 1
        while at <= last:
            node, replacement = self._step(self._root, text[at])
            if node != _NOWHERE and at < last and self._step(node, text[at + 1]) != _DEAD:
                taken, replacement = self._at(text, at)
            else:  # most characters by far: no run goes on
                taken = 1
            made.append(text[at] if replacement is None else replacement)
            at += taken
        return "".join(made)

    def _at(self, text: str, at: int) -> tuple[int, str]:
        """How many characters are replaced at a place, and by what; one stays as it is where none are."""
        taken, found, node = 1, text[at], self._root
        for size in range(1, min(MAX_RUN, len(text) - at) + 1):
            node, replacement = self._step(node, text[at + size - 1])
            if replacement is not None:
                taken, found = size, replacement
            if node == _NOWHERE:
                break
        return taken, found

    def _walk(self, node: int, character: str) -> Step:
        replacement = None
        for byte in character.encode("utf-8", "surrogatepass"):
            place = node ^ byte
            if not byte or place >= len(self._units) or self._units[place] & _LABEL != byte:
                return _DEAD
            unit = self._units[place]
            node = place ^ _base(unit)
            replacement = self._value(node) if unit & _HAS_LEAF else None
        return Step(node, replacement)

    def _value(self, leaf: int) -> str | None:
        offset = self._units[leaf] & _VALUE if leaf < len(self._units) else len(self._texts)
        end = self._texts.find(b"\0", offset, offset + MAX_REPLACEMENT_BYTES + 1)
        return self._texts[offset:end].decode("utf-8", "replace") if end >= 0 else None

    def _ascii_table(self) -> dict[int, str] | None:
        """What each ASCII character becomes alone; None when some become others in a run."""
        letters = list(map(chr, range(128)))
        steps = [self._step(self._root, letter) for letter in letters]
        if any(self._step(one.node, letter).node != _NOWHERE for one in steps if one.node >= 0 for letter in letters):
            return None
        return {
            ord(letter): one.replacement
            for letter, one in zip(letters, steps, strict=True)
            if one.replacement is not None
        }


def _base(unit: int) -> int:
    """Where the children of a unit lie, relative to it."""
    return (unit >> 10) << ((unit & _FAR) >> 6)


def _malformed(problem: str) -> WeightsError:
    return WeightsError(KEY, problem, "convert the model again")
