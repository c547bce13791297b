"""What may follow a text, by derivatives of regular expressions over characters: slow, and with nothing of the guests' ways.

Source: J. Brzozowski, "Derivatives of regular expressions", 1964. `NEVER` is the only language that is empty, for what is
empty is never built, so "some text completes this" means "is not NEVER".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Protocol, Self


class Language(tuple):
    """A kind and its parts; equal ones are one object, so that tables find it by its address."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __new__(cls, *parts: Any) -> Self:
        if (found := _MADE.get(parts)) is None:
            found = _MADE[parts] = super().__new__(cls, parts)
        return found


_MADE: dict[tuple, Language] = {}


class Own(Protocol):
    """The state of a language that is none of those below; equal ones are one, and some text completes each."""

    ends: bool
    edges: frozenset[int]

    def after(self, character: int) -> Language:
        """What may follow a character."""
        ...


NEVER: Language = Language("never")
EMPTY: Language = Language("empty")
LAST = 0x10FFFF
_ENDLESS = 1 << 30


def chars(*ranges: tuple[int, int]) -> Language:
    """One character of these ranges, with no surrogates."""
    parts = [part for low, high in ranges for part in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))]
    kept = tuple(sorted((low, high) for low, high in parts if low <= high))
    return Language("chars", kept) if kept else NEVER


def others(*ranges: tuple[int, int]) -> Language:
    """One character outside of these ranges."""
    found, start = [], 0
    for low, high in sorted(ranges):
        found.append((start, low - 1))
        start = max(start, high + 1)
    return chars(*found, (start, LAST))


def cat(*parts: Language) -> Language:
    """One after another."""
    whole = EMPTY
    for part in reversed(parts):
        if NEVER in (part, whole):
            whole = NEVER
        elif whole == EMPTY:
            whole = part
        elif part[0] == "cat":
            whole = cat(part[1], cat(part[2], whole))
        elif part != EMPTY:
            whole = Language("cat", part, whole)
    return whole


def alt(*parts: Language) -> Language:
    """Any of them."""
    flat = {one for part in parts for one in (part[1] if part[0] == "alt" else (part,))} - {NEVER}
    if len(flat) < 2:
        return flat.pop() if flat else NEVER
    return Language("alt", frozenset(flat))


def repeat(part: Language, least: int, most: int = _ENDLESS) -> Language:
    """So many of it."""
    if most == 0 or part == EMPTY:
        return EMPTY
    if part == NEVER:
        return NEVER if least else EMPTY
    return part if least == most == 1 else Language("repeat", part, least, most)


def both(*parts: Language) -> Language:
    """What is in all of them; they hold no rules."""
    flat = {one for part in parts for one in (part[1] if part[0] == "both" else (part,))}
    if NEVER in flat:
        return NEVER
    whole = flat.pop() if len(flat) == 1 else Language("both", frozenset(flat))
    return whole if _inhabited(whole) else NEVER


def neither(part: Language) -> Language:
    """What is not in it, as a part of `both`, which sees to it that something is left."""
    return Language("not", part)


@functools.cache
def _inhabited(language: Language) -> bool:
    """Whether some text is in it, by a search over what may follow."""
    seen, todo = {language}, [language]
    while todo:
        at = todo.pop()
        if ends(at):
            return True
        for character in sorted(edges(at)):
            if (found := _raw_after(at, character)) != NEVER and found not in seen:
                seen.add(found)
                todo.append(found)
    return False


def _raw_after(language: Language, character: int) -> Language:
    """The same as `after`, without a look whether something is in it."""
    if language[0] != "both":
        return after(language, character)
    parts = frozenset(_raw_after(part, character) for part in language[1])
    return NEVER if NEVER in parts else Language("both", parts)


def own(state: Own) -> Language:
    """A language that knows itself what may follow."""
    return Language("own", state)


def rule(make: Callable[[], Language]) -> Language:
    """What `make` gives, when it is looked at: for languages that hold themselves. It must not be empty."""
    return Language("rule", make)


def text(raw: str) -> Language:
    """Just this."""
    return cat(*(chars((ord(c), ord(c))) for c in raw))


@functools.cache
def ends(language: Language) -> bool:  # noqa: PLR0911 -- one case for each kind
    """Whether the empty text is in it."""
    kind = language[0]
    if kind == "cat":
        return ends(language[1]) and ends(language[2])
    if kind == "alt":
        return any(map(ends, language[1]))
    if kind == "rule":
        return ends(language[1]())
    if kind == "both":
        return all(map(ends, language[1]))
    if kind == "not":
        return not ends(language[1])
    if kind == "own":
        return language[1].ends
    return kind == "empty" or (kind == "repeat" and (language[2] == 0 or ends(language[1])))


@functools.cache
def after(language: Language, character: int) -> Language:  # noqa: PLR0911 -- one case for each kind
    """What may follow a character."""
    kind = language[0]
    if kind == "chars":
        return EMPTY if any(low <= character <= high for low, high in language[1]) else NEVER
    if kind == "cat":
        first = cat(after(language[1], character), language[2])
        return alt(first, after(language[2], character)) if ends(language[1]) else first
    if kind == "alt":
        return alt(*(after(part, character) for part in language[1]))
    if kind == "repeat":
        _, part, least, most = language
        rest = repeat(part, max(0, least - 1), most - 1 if most < _ENDLESS else most)
        return cat(after(part, character), rest)
    if kind == "both":
        return both(*(after(part, character) for part in language[1]))
    if kind == "not":
        return neither(after(language[1], character))
    if kind == "own":
        return language[1].after(character)
    return after(language[1](), character) if kind == "rule" else NEVER


@functools.cache
def edges(language: Language) -> frozenset[int]:
    """A character of each kind that the language tells apart."""
    if language[0] == "chars":
        near = {edge + step for ends_ in language[1] for edge in ends_ for step in (-1, 0, 1)}
        return frozenset(c for c in near if 0 <= c <= LAST)
    if language[0] in ("alt", "both"):
        return frozenset().union(*map(edges, language[1]))
    if language[0] == "own":
        return language[1].edges
    if language[0] == "not":
        return edges(language[1]) | {0, LAST}
    if language[0] == "rule":  # it may hold itself; what begins a value is ASCII
        return frozenset()
    return frozenset().union(*(edges(part) for part in language[1:] if isinstance(part, tuple)))


class Read:
    """A language after some bytes: what may follow, and the bytes of a character that is not complete."""

    def __init__(self, language: Language, pending: bytes = b"") -> None:
        self.language = language
        self.pending = pending

    def take(self, raw: bytes) -> Read:
        """After these bytes, too."""
        language, pending = self.language, self.pending
        for byte in raw:
            pending += bytes([byte])
            if (low := _lowest(pending)) is None:
                return Read(NEVER)
            if low[1] == low[0]:
                language, pending = after(language, low[0]), b""
        return Read(language, pending)

    @property
    def lives(self) -> bool:
        """Whether some text completes it."""
        if not self.pending or self.language == NEVER:
            return self.language != NEVER
        found = _lowest(self.pending)
        assert found
        low, high = found
        tried = {low, high, *(c for c in edges(self.language) if low <= c <= high)}
        return any(after(self.language, c) != NEVER for c in tried)

    @property
    def ends(self) -> bool:
        """Whether the text may end here."""
        return not self.pending and ends(self.language)


def _lowest(pending: bytes) -> tuple[int, int] | None:
    """The first and last character that begin with these bytes; None: none does."""
    lead = pending[0]
    length = (
        1
        if lead < 0x80
        else 2
        if 0xC2 <= lead < 0xE0
        else 3
        if 0xE0 <= lead < 0xF0
        else 4
        if 0xF0 <= lead < 0xF5
        else 0
    )
    if len(pending) > length or any(byte & 0xC0 != 0x80 for byte in pending[1:]):
        return None
    value = lead if length == 1 else lead & (0x7F >> length)
    for byte in pending[1:]:
        value = value << 6 | (byte & 0x3F)
    bits = 6 * (length - len(pending))
    least = (0, 0, 0x80, 0x800, 0x10000)[length]
    low, high = max(least, value << bits), min(LAST, (value + 1 << bits) - 1)
    if low > high or (low >= 0xD800 and high <= 0xDFFF):
        return None
    return low, high


# ---- regular expressions, as Python's own parser reads them ----

_CATEGORIES = {
    names.CATEGORY_DIGIT: ((48, 57),),
    names.CATEGORY_SPACE: ((9, 13), (32, 32)),
    names.CATEGORY_WORD: ((48, 57), (65, 90), (95, 95), (97, 122)),
}
_INVERTED = {
    names.CATEGORY_NOT_DIGIT: names.CATEGORY_DIGIT,
    names.CATEGORY_NOT_SPACE: names.CATEGORY_SPACE,
    names.CATEGORY_NOT_WORD: names.CATEGORY_WORD,
}


def pattern(raw: str) -> Language:
    """The texts that a pattern matches whole."""
    return _sequence(parser.parse(raw, re.ASCII))


def _sequence(items: Any) -> Language:
    return cat(*(_item(kind, value) for kind, value in items))


def _item(kind: Any, value: Any) -> Language:  # noqa: PLR0911 -- one case for each kind
    if kind is names.LITERAL:
        return chars((value, value))
    if kind is names.NOT_LITERAL:
        return others((value, value))
    if kind is names.ANY:
        return others((10, 10))
    if kind is names.IN:
        return _class(value)
    if kind is names.SUBPATTERN:
        return _sequence(value[3])
    if kind is names.BRANCH:
        return alt(*map(_sequence, value[1]))
    if kind in (names.MAX_REPEAT, names.MIN_REPEAT):
        least, most, part = value
        return repeat(_sequence(part), least, _ENDLESS if most is names.MAXREPEAT else most)
    assert kind is names.AT, kind
    return EMPTY


def _class(items: Any) -> Language:
    inverted, ranges = False, []
    for kind, value in items:
        if kind is names.NEGATE:
            inverted = True
        elif kind is names.LITERAL:
            ranges.append((value, value))
        elif kind is names.RANGE:
            ranges.append(value)
        elif value in _INVERTED:
            ranges += others(*_CATEGORIES[_INVERTED[value]])[1]
        else:
            ranges += _CATEGORIES[value]
    return others(*ranges) if inverted else chars(*ranges)
