"""Chooses, step by step, how many threads work and how long they spin, from how long the last steps took.

On a calm machine all threads work and spin. Beside a busy neighbour the thread that shares its core is away for
milliseconds at a time, and the others wait for it at each barrier. Then it is faster to sleep at once, or to let one
thread work alone. Results do not depend on the choice (README clause 4), so it may change at any step.

Rules
* The first steps try each way once. While all goes as fast as it ever did, hardly anything else is tried after that.
* When it does not, every PROBE_STEPS-th step tries another way, and the fastest way known goes on.

Example:
    mode = pace.choose()
    seconds = run(mode)
    pace.record(seconds)
"""

from __future__ import annotations

from typing import NamedTuple

from .program import SMALL
from .sync import LONG_SPINS, SHORT_SPINS

CALM = 1.25
"""A step that takes less than this times the fastest is as fast as ever."""
PROBE_STEPS = 16
"""Steps from one trial to the next: a trial may cost three steps' time, so trials cost less than a fifth."""
CALM_PROBE_STEPS = 500
"""The same while all is well."""
FORGET = 1.002
"""What was measured before grows by this factor a step: contexts get longer, and old times say less."""
BETTER = 0.92
"""Another way must beat the present one by this factor."""
_NEWEST = 0.5
"""Weight of the newest time in a way's average."""
_STEEPEST = 1.5
"""A time counts as at most this many times the average."""


def size_class(tokens: int) -> int:
    """Steps of one class are alike enough to compare their times per token: one class each up to 8, then doubling."""
    return tokens if tokens <= SMALL else 1 << (tokens - 1).bit_length()


class Mode(NamedTuple):
    """A way to run a step: threads that work, and pauses before one sleeps in a barrier."""

    threads: int
    spins: int


class Pace:
    """Times of the ways to run one kind of step.

    Args:
        threads: Most threads.
    """

    def __init__(self, threads: int) -> None:
        calm, polite, alone = Mode(threads, LONG_SPINS), Mode(threads, SHORT_SPINS), Mode(1, LONG_SPINS)
        self._modes = (calm, polite, alone) if threads > 1 else (calm,)
        self._seconds: list[float | None] = [None] * len(self._modes)
        self._present = self._running = 0
        self._fastest = float("inf")
        self._since = 0
        self._turn = 0

    def choose(self) -> Mode:
        """The way to run the next step."""
        self._running = self._present
        self._since += 1
        if None in self._seconds:
            self._running = self._seconds.index(None)
        elif len(self._modes) > 1 and self._since >= (PROBE_STEPS if self._disturbed() else CALM_PROBE_STEPS):
            self._since = 0
            others = [mode for mode in range(len(self._modes)) if mode != self._present]
            self._running = others[self._turn % len(others)]
            self._turn += 1
        return self._modes[self._running]

    def record(self, seconds: float) -> None:
        """Notes how long the chosen step took, per token."""
        self._fastest = min(self._fastest * FORGET, seconds)
        self._seconds = [None if known is None else known * FORGET for known in self._seconds]
        before = self._seconds[self._running]
        if before is not None:  # one hiccup says little, several in a row say much
            seconds = before + _NEWEST * (min(seconds, _STEEPEST * before) - before)
        self._seconds[self._running] = seconds
        best = min(range(len(self._modes)), key=self._known)
        if best != self._present and self._known(best) < BETTER * self._known(self._present):
            self._present = best

    def _known(self, mode: int) -> float:
        seconds = self._seconds[mode]
        return float("inf") if seconds is None else seconds

    def _disturbed(self) -> bool:
        seconds = self._seconds[self._present]
        return self._present != 0 or (seconds is not None and seconds > CALM * self._fastest)
