"""The decimal numbers within bounds, by arithmetic on fractions: for each text, whether some longer one has a value that fits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from grammar_reference import NEVER, Language, own

DIGITS = 16
_TEXT = re.compile(r"-?(?:(0|[1-9][0-9]{0,15})(\.[0-9]{0,16})?)?")


@dataclass(frozen=True)
class Bounds:
    """What a number has to fit: `low` and `high` with whether they are outside, multiples of each step, no point in whole ones."""

    low: tuple[Fraction, bool] | None
    high: tuple[Fraction, bool] | None
    steps: tuple[Fraction, ...]
    is_whole: bool

    @classmethod
    def of(cls, schemas: list[dict[str, Any]], *, is_whole: bool) -> Bounds:
        """Of several schemas at once; a list without numeric keywords has no bounds."""

        def said(word: str) -> list[Fraction]:
            return [Fraction(str(schema[word])) for schema in schemas if word in schema]

        lows = [(at, False) for at in said("minimum")] + [(at, True) for at in said("exclusiveMinimum")]
        highs = [(-at, False) for at in said("maximum")] + [(-at, True) for at in said("exclusiveMaximum")]
        high = max(highs, default=None)
        return cls(
            max(lows, default=None), high and (-high[0], high[1]), tuple(sorted(said("multipleOf"))), is_whole=is_whole
        )

    def takes(self, value: Fraction) -> bool:
        """Whether a value fits."""
        return self._one_in(value, value, Fraction(1, 10**DIGITS))

    def _one_in(self, first: Fraction, last: Fraction, grid: Fraction) -> bool:
        """Whether one of first, first + grid, … last fits: all are multiples of the grid."""
        for step in self.steps:
            grid = Fraction(
                math.lcm(grid.numerator * step.denominator, step.numerator * grid.denominator),
                grid.denominator * step.denominator,
            )
        if self.low:
            first = max(first, self.low[0])
        if self.high:
            last = min(last, self.high[0])
        at = math.ceil(first / grid) * grid
        if self.low and at == self.low[0] and self.low[1]:
            at += grid
        return at < last or (at == last and not (self.high and self.high[0] == last and self.high[1]))


@dataclass(frozen=True)
class Number:
    """A number of which some text was read."""

    bounds: Bounds
    text: str = ""

    edges = frozenset(map(ord, "-.0123456789"))

    @cached_property
    def ends(self) -> bool:
        """Whether the number is complete."""
        if not self.text[-1:].isdigit():
            return False
        value = Fraction(self.text)
        return self.bounds.takes(value) and not (self.text[0] == "-" and value == 0)

    def after(self, character: int) -> Language:
        """What may follow."""
        text = self.text + chr(character)
        if chr(character) not in "-.0123456789" or not (found := _TEXT.fullmatch(text)):
            return NEVER
        if self.bounds.is_whole and found[2]:
            return NEVER
        longer = Number(self.bounds, text)
        return own(longer) if longer._lives(found[1], found[2]) else NEVER

    def _lives(self, whole: str | None, fraction: str | None) -> bool:
        sign = -1 if self.text[0] == "-" else 1
        places = 0 if self.bounds.is_whole else DIGITS
        if whole is None:
            return any(self._some(sign, digit, places) for digit in ("0", *map(str, range(1, 10))))
        if fraction is None:
            return self._some(sign, whole, places)
        value = Fraction(self.text if self.text[-1] != "." else self.text + "0")
        return self._between(sign, abs(value), DIGITS - (len(fraction) - 1), DIGITS)

    def _some(self, sign: int, whole: str, places: int) -> bool:
        """Whether a number with these first digits fits, with any more digits before the point."""
        more = range(1 if whole == "0" else DIGITS - len(whole) + 1)
        return any(self._between(sign, Fraction(int(whole) * 10**n), n + places, places) for n in more)

    def _between(self, sign: int, least: Fraction, free: int, scale: int) -> bool:
        """Whether one of the numbers fits that differ from the least in their last `free` digits, of `scale` after the point."""
        grid = Fraction(1, 10**scale)
        most = least + (10**free - 1) * grid
        if sign > 0:
            return self.bounds._one_in(least, most, grid)
        least = max(least, grid)  # 0 has no sign
        return least <= most and self.bounds._one_in(-most, -least, grid)


def number(schemas: list[dict[str, Any]], *, is_whole: bool) -> Language:
    """The numbers that fit the schemas."""
    bounds = Bounds.of(schemas, is_whole=is_whole)
    start = Number(bounds)
    return own(start) if any(start.after(ord(c)) != NEVER for c in "-0123456789") else NEVER
