"""Draws from a softmax over a large vocabulary without sorting it, and yet draws what sorting would.

Candidates are counted into bins by how far they lie below the best one. The bins' weights tell in which bin a
cumulative probability is reached, and only that bin is sorted.

Rules
* The answer is that of the plain way (sort, add up one after the other, search) to the bit, or none at all: sums here
  are added in another order, so whenever the target lies closer to a boundary than both ways' rounding errors
  together, `select` answers None and the caller takes the plain way. That happens about once in 10,000 draws.
* Of candidates with equal scores the one with the lower index comes first.

    index = select(scores, Filters(temperature=0.7, top_p=0.9, min_p=0.0), unit)

Error bound: a sum of n positive float64 numbers, in whatever order, is off by at most n·2^-53 of itself (Higham,
Accuracy and Stability of Numerical Algorithms, §4.2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Side: TypeAlias = Literal["left", "right"]

_RANGE: Final = 40.0
"""Nats below the best candidate, beyond which weights only count as an error: e^-40 each."""

_PER_NAT: Final = 64.0
"""Least bins of a nat; always a power of two, so that distances to a bin's edge are exact."""

_BINS: Final = int(_RANGE * _PER_NAT) + 1
"""Bins at most; the last one of the full range takes what lies beyond it."""

_BLOCK: Final = 8192
"""Candidates that are worked on at a time: their few temporary arrays of 64 KiB stay in a core's cache."""

_SORTED: Final = 1024
"""Candidates that are sorted as they are; also the bins of a bin that holds more."""

_TERMS: Final = (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
"""e^x within a bin, Horner's order: the next term is below (1/64)^6 / 720 = 2e-14."""

_SERIES_ERROR: Final = 1e-13
"""Relative error of a bin's weight, with room to spare."""

_ROUNDINGS: Final = 8
"""Sums of n numbers that a comparison rests on: two totals and two cumulative ones, twice over for safety."""

_FLATTEST: Final = 2.0**-100
"""Spread, in nats, below which bins get no finer."""


class Filters(NamedTuple):
    """What of a sampler's parameters acts on the softmax."""

    temperature: float
    top_p: float
    min_p: float


class _Place(NamedTuple):
    """A candidate, and the cumulative weight up to and with it."""

    at: int
    cumulative: float


def select(scores: NDArray[np.float64], filters: Filters, unit: float) -> int | None:
    """Draws a candidate.

    Args:
        scores: At least one finite, none +inf or NaN; -inf: not a candidate. Shape: (n,), float64.
        filters: Temperature above 0, and the others.
        unit: In [0, 1).

    Returns:
        Its index; None when rounding might decide otherwise.
    """
    bins = _Bins(scores, filters.temperature)
    total = bins.total
    if filters.top_p < 1:
        last = bins.locate(filters.top_p * total, "left")
        if last is None:
            return None
        total = last.cumulative
    if filters.min_p > 0:
        total = min(total, bins.at_least(filters.min_p))  # prefixes of one order: the shorter one has the smaller sum
    drawn = bins.locate(unit * total, "right")
    return None if drawn is None else drawn.at


class _Bins:
    """Candidates by their distance to the best one.

    Args:
        scores: As in `select`.
        temperature: Above 0.
    """

    def __init__(self, scores: NDArray[np.float64], temperature: float) -> None:
        self._scores = scores
        self._temperature = temperature
        self._best = float(scores.max())
        spread = -float(self._gaps(scores.min(keepdims=True))[0])
        self._per_nat = _PER_NAT
        if spread < _RANGE / 2:  # flatter than usual: finer bins
            self._per_nat *= 2.0 ** math.floor(math.log2(_RANGE / max(spread, _FLATTEST)))
        self._bins = np.empty(len(scores), np.int16)
        self._ends: NDArray[np.float64] = np.cumsum(self._weights())
        self.total = float(self._ends[-1])
        relative = _ROUNDINGS * len(scores) * 2.0**-53 + _SERIES_ERROR
        self._slack = self.total * relative + len(scores) * math.exp(-_RANGE)

    def _gaps(self, scores: NDArray[np.float64], out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Nats from the best one, 0 or less, by the very operations of the plain way."""
        with np.errstate(over="ignore"):
            gaps = np.subtract(scores, self._best, out=out)
            return gaps if self._temperature == 1 else np.divide(gaps, self._temperature, out=gaps)

    def _weights(self) -> NDArray[np.float64]:
        """Sorts all into bins; answers each bin's weight, by a short series instead of an exponential for each."""
        weights = np.zeros(_BINS)
        room = np.empty((3, _BLOCK))  # taken once: new arrays in each block would cost more than what is computed
        for start in range(0, len(self._scores), _BLOCK):
            scores, bins = self._scores[start : start + _BLOCK], self._bins[start : start + _BLOCK]
            gaps, edges, series = room[:, : len(scores)]
            np.maximum(self._gaps(scores, gaps), -_RANGE, out=gaps)
            np.floor(np.multiply(gaps, -self._per_nat, out=edges), out=edges)
            bins[:] = edges
            edges /= self._per_nat
            gaps += edges  # now the distance to the bin's edge
            np.multiply(gaps, _TERMS[0], out=series)
            for term in _TERMS[1:-1]:
                series += term
                series *= gaps
            series += _TERMS[-1]
            found = np.bincount(bins, weights=series)
            weights[: len(found)] += found
        weights *= np.exp(np.arange(_BINS) / -self._per_nat)
        if self._per_nat == _PER_NAT:
            weights[-1] = 0
        return weights

    def at_least(self, weight: float) -> float:
        """Sum of the weights of `weight` and more."""
        near = int(min(-math.log(weight) * self._per_nat, _BINS))
        reach = 1 + int(min(self._per_nat * 2.0**-50, _BINS))  # bins finer than a weight's rounding
        around = np.flatnonzero(np.abs(self._bins - np.int16(near)) <= reach)
        weights = np.exp(self._gaps(self._scores[around]))
        before = float(self._ends[near - reach - 1]) if near > reach else 0.0
        return before + float(weights[weights >= weight].sum())

    def locate(self, target: float, side: Side) -> _Place | None:
        """The first candidate whose cumulative weight reaches ("left") or exceeds ("right") the target.

        Returns:
            None when rounding might decide otherwise.
        """
        number = int(np.searchsorted(self._ends, target, side))
        if number == len(self._ends):
            return None
        before = float(self._ends[number - 1]) if number else 0.0
        members = np.flatnonzero(self._bins == number)
        while len(members) > _SORTED:
            gaps = self._gaps(self._scores[members])
            low, high = float(gaps.min()), float(gaps.max())
            if low == high:
                break
            inner = ((high - gaps) * (_SORTED / (high - low))).astype(np.int32)
            ends = before + np.cumsum(np.bincount(inner, weights=np.exp(gaps)))
            number = min(int(np.searchsorted(ends, target, side)), len(ends) - 1)
            before = float(ends[number - 1]) if number else before
            members = members[inner == number]
        return self._among(members, before, target, side)

    def _among(self, members: NDArray[np.intp], before: float, target: float, side: Side) -> _Place | None:
        """The same among few or equal ones, of which `before` is the weight of all that come earlier."""
        scores = self._scores[members]
        if scores[0] == scores.min() == scores.max():  # maybe a great many: nothing to sort, nothing to add up
            weight = float(np.exp(self._gaps(scores[:1]))[0])
            at = max(int((target - before) / weight), 0)
            lower = before + at * weight
            upper = lower + weight
        else:
            order = np.argsort(-scores, kind="stable")
            members = members[order]
            ends = before + np.cumsum(np.exp(self._gaps(scores[order])))
            at = int(np.searchsorted(ends, target, side))
            lower = float(ends[at - 1]) if at else before
            upper = float(ends[min(at, len(ends) - 1)])
        is_sure = upper - target > self._slack and (lower == 0 or target - lower > self._slack)
        return _Place(int(members[at]), upper) if is_sure and at < len(members) else None
