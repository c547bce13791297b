"""What may follow a text under a GBNF grammar, by sets of stacks over characters: slow, and with nothing of the guest's ways.

A grammar becomes plain rules (repetitions are rules that hold themselves, as llama.cpp's guide describes them). Whatever
no text can complete is taken out first, so "some text completes this" means "a stack is left".

Source: llama.cpp, grammars/README.md, for the notation.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from grammar_reference import LAST, _lowest

Ranges = tuple[tuple[int, int], ...]
Item = Ranges | str
"""A character of these ranges, or the name of a rule."""

Stack = tuple[Item, ...]
"""What has to follow, the next thing last."""

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t]|\#[^\r\n]*)+) | (?P<line>\r\n|\r|\n) | (?P<name>[A-Za-z0-9_-]+(?P<defines>(?:[ \t]|\#[^\r\n]*)*::=)?)
    | "(?P<text>(?:\\.|[^"\\])*)" | \[(?P<set>\^?(?:\\.|[^\]\\])*)\] | (?P<repeat>[*+?]|\{[^}]*\}) | (?P<mark>[|().])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"t": 9, "r": 13, "n": 10, **{mark: ord(mark) for mark in '\\"[]-'}}
_DIGITS = {"x": 2, "u": 4, "U": 8}


def _letters(raw: str) -> list[tuple[int, bool]]:
    """Code points, and whether each was escaped."""
    found, at = [], 0
    while at < len(raw):
        if raw[at] != "\\":
            found.append((ord(raw[at]), False))
            at += 1
        elif raw[at + 1] in _DIGITS:
            end = at + 2 + _DIGITS[raw[at + 1]]
            found.append((int(raw[at + 2 : end], 16), True))
            at = end
        else:
            found.append((_ESCAPES[raw[at + 1]], True))
            at += 2
    return found


def _whole(ranges: list[tuple[int, int]]) -> Ranges:
    """Sorted, without surrogates, which UTF-8 does not spell."""
    cut = [part for low, high in ranges for part in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))]
    return tuple(sorted((low, high) for low, high in cut if low <= high))


def _class(raw: str) -> Ranges:
    inverted = raw.startswith("^")
    letters, ranges, at = _letters(raw[inverted:]), [], 0
    while at < len(letters):
        low = high = letters[at][0]
        if letters[at + 1 : at + 2] == [(45, False)] and at + 2 < len(letters):
            high, at = letters[at + 2][0], at + 2
        ranges.append((low, high))
        at += 1
    if not inverted:
        return _whole(ranges)
    others, start = [], 0
    for low, high in sorted(ranges):
        others.append((start, low - 1))
        start = max(start, high + 1)
    return _whole([*others, (start, LAST)])


class Grammar:
    """The rules of a grammar text, which must be a valid one."""

    def __init__(self, raw: str) -> None:
        self.rules: dict[str, list[list[Item]]] = {}
        self._tokens = [(m.lastgroup or "", m) for m in _TOKEN.finditer(raw)]
        assert sum(len(m[0]) for _, m in self._tokens) == len(raw), raw
        self._tokens = [(kind, m) for kind, m in self._tokens if kind != "blank"]
        self._at = 0
        while self._at < len(self._tokens):
            if self._tokens[self._at][0] == "line":
                self._at += 1
                continue
            match = self._tokens[self._at][1]
            assert match["defines"], match
            self._at += 1
            self._skip()
            self.rules[re.split(r"[ \t#:]", match["name"])[0]] = self._sequences(nested=False)
        self._prune()

    def _look(self) -> str:
        if self._at == len(self._tokens):
            return "end"
        kind, match = self._tokens[self._at]
        return match[0] if kind == "mark" else "rule" if match["defines"] else kind

    def _skip(self) -> None:
        while self._look() == "line":
            self._at += 1

    def _sequences(self, *, nested: bool) -> list[list[Item]]:
        found: list[list[Item]] = [[]]
        starts = 0  # where the last thing of the sequence begins
        while True:
            if nested:
                self._skip()
            ahead = self._at
            while not nested and self._look() == "line":
                self._at += 1
            if self._look() == "|":
                self._at += 1
                self._skip()
                found.append([])
                starts = 0
                continue
            self._at = ahead
            kind = self._look()
            if kind in ("end", "rule", "line", ")"):
                return found
            match = self._tokens[self._at][1]
            self._at += 1
            if kind == "repeat":
                found[-1][starts:] = self._repeated(found[-1][starts:], match[0])
                continue
            starts = len(found[-1])
            found[-1] += self._part(kind, match)

    def _part(self, kind: str, match: re.Match[str]) -> list[Item]:
        if kind == "(":
            inner = self._new(self._sequences(nested=True))
            assert self._look() == ")"
            self._at += 1
            return [inner]
        if kind == ".":
            return [_whole([(0, LAST)])]
        if kind == "name":
            return [match["name"]]
        if match["text"] is not None:
            return [_whole([(c, c)]) for c, _ in _letters(match["text"])]
        return [_class(match["set"])]

    def _new(self, sequences: list[list[Item]]) -> str:
        name = f"{len(self.rules)} made"
        self.rules[name] = sequences
        return name

    def _repeated(self, part: list[Item], quantifier: str) -> list[Item]:
        numbers = re.findall(r"\d+", quantifier)
        least = {"*": 0, "?": 0, "+": 1}.get(quantifier) if not numbers else int(numbers[0])
        assert least is not None
        endless = quantifier in "*+" or (len(numbers) == 1 and "," in quantifier)
        most = 1 if quantifier == "?" else int(numbers[-1]) if numbers else 0
        whole = part * least
        if endless:
            name = self._new([])
            self.rules[name] = [[*part, name], []]
            return [*whole, name]
        tail: list[Item] = []
        for _ in range(most - least):
            tail = [self._new([[*part, *tail], []])]
        return whole + tail

    def _prune(self) -> None:
        """Takes out what no text can complete."""
        alive: set[str] = set()
        before = -1

        def fits(item: Item) -> bool:
            return item in alive if isinstance(item, str) else bool(item)

        while before != len(alive):
            before = len(alive)
            alive |= {name for name, sequences in self.rules.items() if any(all(map(fits, one)) for one in sequences)}
        assert "root" in alive
        self.rules = {
            name: [one for one in sequences if all(map(fits, one))]
            for name, sequences in self.rules.items()
            if name in alive
        }

    def open(self, stacks: set[Stack]) -> frozenset[Stack]:
        """The same, with a character next, or nothing."""
        seen, todo = set(stacks), list(stacks)
        while todo:
            stack = todo.pop()
            if stack and isinstance(stack[-1], str):
                for sequence in self.rules[stack[-1]]:
                    made = (*stack[:-1], *reversed(sequence))
                    if made not in seen:
                        seen.add(made)
                        todo.append(made)
        return frozenset(stack for stack in seen if not stack or not isinstance(stack[-1], str))


class State(NamedTuple):
    """Where a text is: what may follow, and the bytes of a character that is not complete."""

    stacks: frozenset[Stack]
    pending: bytes = b""


class Follower:
    """Texts of one grammar, byte by byte."""

    def __init__(self, raw: str) -> None:
        self.grammar = Grammar(raw)
        self.start = State(self.grammar.open({("root",)}))
        self.take = cache(self._take)

    def _take(self, state: State, raw: bytes) -> State:
        for byte in raw:
            pending = state.pending + bytes([byte])
            found = _lowest(pending)
            if found is None:
                return State(frozenset())
            low, high = found
            fits = {s for s in state.stacks if s and any(a <= high and low <= b for a, b in s[-1])}  # type: ignore[misc]
            state = State(frozenset(fits), pending) if low < high else State(self.grammar.open({s[:-1] for s in fits}))
        return state

    @staticmethod
    def ends(state: State) -> bool:
        """Whether the text may end here."""
        return not state.pending and () in state.stacks
