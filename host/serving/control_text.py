"""Finds the texts of control tokens in a prompt, in time that grows with the prompt alone (clause 5.3).

Rules
* A vocabulary has up to thousands of control tokens that begin alike; a client chooses the prompt. So nothing is tried
  token by token: one automaton reads every letter once (Aho and Corasick, doi:10.1145/360825.360855).
* For each end of an occurrence the longest one is told; every other lies within it.

Example:
    texts = ControlTexts(("<|im_start|>", "<|im_end|>"))
    list(texts.spans("a<|im_end|>"))    # [(1, 11)]
    texts.any_rewritten("A <|IM _END|>")  # True
"""

from __future__ import annotations

import re
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT = 0

MAX_LETTERS = 1 << 18
"""Of all control texts together: three times what Gemma 3's 6,250 have; each costs some 300 bytes of the automaton."""


class ControlTexts:
    """The texts of a vocabulary's control tokens; any thread may ask.

    Args:
        texts: As tokens spell them; empty ones are left out.

    Raises:
        WeightsError: they are too long to be looked for.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(filter(None, texts))
        if (letters := sum(map(len, self._texts))) > MAX_LETTERS:
            problem = f"expected control tokens of at most {MAX_LETTERS} letters together, got {letters}"
            raise WeightsError("tokenizer.ggml.tokens", problem, "use a model with fewer or shorter ones")

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where control texts stand: (first letter, one past the last), by ascending ends."""
        return self._plain.spans(text)

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Those that a tokenizer finds, which never overlap: at each place the longest, from left to right.

        For a template's own text: where texts begin alike it may read each letter once for every place.
        """
        return self._plain.matches(text)

    def any_rewritten(self, text: str) -> bool:
        """Whether one stands there in any case of letters and with any blanks, as a template could have made it."""
        return next(self._rewritten.spans(_rewritten(text)), None) is not None

    @cached_property
    def _plain(self) -> _Automaton:
        return _Automaton(self._texts)

    @cached_property
    def _rewritten(self) -> _Automaton:
        return _Automaton(frozenset(filter(None, map(_rewritten, self._texts))))


class _Automaton:
    """Aho and Corasick's: a trie whose nodes know the longest proper suffix that is in it, too."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._longest = [0]  # letters of the longest text that ends at a node
        for text in texts:
            node = _ROOT
            for letter in text:
                node = self._next[node].setdefault(letter, len(self._next))
                if node == len(self._next):
                    self._next.append({})
                    self._longest.append(0)
            self._longest[node] = len(text)
        self._suffix = [_ROOT] * len(self._next)
        waiting = deque(self._next[_ROOT].values())
        while waiting:  # nearer nodes first: a suffix is nearer than its node
            node = waiting.popleft()
            for letter, inner in self._next[node].items():
                self._suffix[inner] = self._follow(self._suffix[node], letter)
                self._longest[inner] = self._longest[inner] or self._longest[self._suffix[inner]]
                waiting.append(inner)
        # common prose has few letters that any control text begins with: what lies between is skipped
        first = "".join(map(re.escape, self._next[_ROOT]))
        self._first = re.compile(f"[{first}]") if first else None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        if self._first is None:
            return
        following, longest, node, at = self._next, self._longest, _ROOT, 0
        while at < len(text):
            if node == _ROOT:
                if (found := self._first.search(text, at)) is None:
                    return
                at = found.start()
            inner = following[node].get(text[at])
            node = self._follow(self._suffix[node], text[at]) if inner is None else inner
            at += 1
            if size := longest[node]:
                yield at - size, at

    def matches(self, text: str) -> Iterator[tuple[int, int]]:
        at = 0
        while self._first is not None and (found := self._first.search(text, at)) is not None:
            start, node, stop = found.start(), _ROOT, 0
            for end in range(start, len(text)):
                if (inner := self._next[node].get(text[end])) is None:
                    break
                node = inner
                if self._longest[node] == end + 1 - start:  # else a shorter one ends here
                    stop = end + 1
            if stop:
                yield start, stop
            at = stop or start + 1

    def _follow(self, node: int, letter: str) -> int:
        """Where a letter leads from a node, or from the longest of its suffixes that knows it."""
        while (inner := self._next[node].get(letter)) is None:
            if node == _ROOT:
                return _ROOT
            node = self._suffix[node]
        return inner


def _rewritten(text: str) -> str:
    """Without blanks and without the difference of cases."""
    return "".join(text.split()).casefold()
