"""JSON strings for the brute-force acceptor: with all escapes, and such that a pattern tells of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grammar_reference import (
    EMPTY,
    NEVER,
    Language,
    after,
    alt,
    both,
    cat,
    edges,
    ends,
    neither,
    others,
    own,
    pattern,
    repeat,
    text,
)

HEX = "[0-9a-fA-F]"
ESCAPE = pattern(
    rf"\\(?:[\"\\/bfnrt]|u(?:[0-9a-cA-CefEF]{HEX}{{3}}|[dD][0-7]{HEX}{{2}}|[dD][89abAB]{HEX}{{2}}\\u[dD][c-fC-F]{HEX}{{2}}))"
)
LETTER = alt(others((0, 31), (34, 34), (92, 92)), ESCAPE)
TAIL = cat(repeat(LETTER, 0), text('"'))
STRING = cat(text('"'), TAIL)
SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
"""What has a short escape."""
WITHIN = repeat(others((0, 7), (11, 11), (14, 31)), 0)
"""Texts that short escapes are enough for (clause 2.2)."""


def sized(least: int, most: int | None) -> Language:
    """Any string of so many letters."""
    return cat(text('"'), repeat(LETTER, least) if most is None else repeat(LETTER, least, most), text('"'))


def finds(raw: str) -> Language:
    """The texts in which a pattern is found: ^ and $ stand at the beginning and the end of its alternatives."""
    return alt(*map(_found, _alternatives(raw)))


def _found(way: str) -> Language:
    anything = repeat(others(), 0)
    if way.startswith(("^(?=", "^(?!")):
        close = _close(way, 4)
        inner = alt(*(_found("^" + one.removeprefix("^")) for one in _alternatives(way[4:close])))
        return both(inner if way[3] == "=" else neither(inner), _found("^" + way[close + 1 :].removeprefix("^")))
    is_first, is_last = way.startswith("^"), way.endswith("$") and not way.endswith("\\$")
    core = pattern(way[is_first : len(way) - is_last])
    return cat(EMPTY if is_first else anything, core, EMPTY if is_last else anything)


def _close(raw: str, start: int) -> int:
    """Where the group ends whose first character stands at `start`."""
    depth = 1
    for found in re.finditer(r"\\.|\[(?:\\.|[^\]])*\]|.", raw[start:], re.DOTALL):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return start + found.start()
    raise ValueError(raw)


def _alternatives(raw: str) -> list[str]:
    """Cut at each | that is in no group or class."""
    parts, depth, start = [], 0, 0
    for found in re.finditer(r"\\.|\[(?:\\.|[^\]])*\]|.", raw, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if found[0] == "|" and depth == 0:
            parts.append(raw[start : found.start()])
            start = found.end()
    return [*parts, raw[start:]]


@dataclass(frozen=True)
class _Spelled:
    """What spells the texts of a language between quotes; all of them are WITHIN."""

    language: Language
    escapes: bool = False

    @property
    def ends(self) -> bool:
        return not self.escapes and ends(self.language)

    @property
    def edges(self) -> frozenset[int]:
        return edges(self.language)

    def after(self, character: int) -> Language:
        if self.escapes:
            meant = [ord(one) for one, written in SHORT.items() if written == chr(character)]
            found = after(self.language, meant[0]) if meant else NEVER
        elif chr(character) == "\\":
            lives = any(after(self.language, ord(one)) != NEVER for one in SHORT)
            return own(_Spelled(self.language, escapes=True)) if lives else NEVER
        else:
            found = NEVER if chr(character) in SHORT or character < 0x20 else after(self.language, character)
        return own(_Spelled(found)) if found != NEVER else NEVER


def quoted(language: Language) -> Language:
    """These texts as strings."""
    return NEVER if language == NEVER else cat(text('"'), own(_Spelled(language)), text('"'))
