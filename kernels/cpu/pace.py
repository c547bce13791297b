"""Chooses, step by step, how many threads work and how long they spin, from how long the last steps took.

On a calm machine all threads work and spin. Beside a busy neighbour the thread that shares its core is away for
milliseconds at a time, and the others wait for it at each barrier. Then it is faster to sleep at once, or to let one
thread work alone. Results do not depend on the choice (README clause 4), so it may change at any step.

Rules
* A trial of another way lasts until it is not faster, at most TRIAL_STEPS. One that was faster all the time wins at
  once, whatever was measured before: a calm machine is used as soon as it is calm, and one lucky step proves nothing.
* Each way is tried at the beginning. While all goes as fast as it ever did, hardly anything is tried after that; when
  it does not, a trial starts every PROBE_STEPS steps.

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
TRIAL_STEPS = 3
"""Steps in which a trial must be faster, or the present way slower, one after another, for a change."""
COLD_STEPS = 2
"""First steps, which find caches cold and memory untouched and say nothing."""
SETTLED_STEPS = 4
"""Steps after which the first way is known well enough to compare others with."""
CALM_PROBE_STEPS = 500
"""The same while all is well."""
MOST_DOUBLINGS = 3
"""Each trial that was lost doubles the steps to the next one, so often, while all threads work and a step takes no
longer than at the last trial: the memory alone can be slow for minutes, and then no other way is faster."""
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
        self._present = 0
        self._slower = 0
        self._trial: int | None = None
        self._tried: list[float] = []
        self._fastest = float("inf")
        self._lost, self._lost_at = 0, 0.0
        self._since = -COLD_STEPS
        self._turn = 0

    def choose(self) -> Mode:
        """The way to run the next step."""
        if self._trial is None and len(self._modes) > 1 and self._since >= self._patience():
            self._trial = self._next_trial()
        return self._modes[self._present if self._trial is None else self._trial]

    def record(self, seconds: float) -> None:
        """Notes how long the chosen step took, per token."""
        self._since += 1
        if self._since <= 0:
            return
        self._fastest = min(self._fastest * FORGET, seconds)
        self._seconds = [None if known is None else known * FORGET for known in self._seconds]
        if self._trial is None:
            self._note(self._present, seconds)
            best = min(range(len(self._modes)), key=self._known)
            self._slower = self._slower + 1 if self._known(best) < BETTER * self._known(self._present) else 0
            if self._slower == TRIAL_STEPS:
                self._present, self._slower = best, 0
        else:
            self._judge(self._trial, seconds)

    def _judge(self, trial: int, seconds: float) -> None:
        """Goes on with a trial, ends it, or takes it for the way from now on."""
        self._tried.append(seconds)
        if seconds >= BETTER * self._known(self._present):
            self._note(trial, seconds)
            self._lost = 1 if self._worse() else self._lost + 1
            self._lost_at = self._known(self._present)
        elif len(self._tried) < TRIAL_STEPS:
            return
        else:
            self._seconds[trial] = sum(self._tried) / len(self._tried)
            self._present, self._slower = trial, 0
        self._trial, self._tried, self._since = None, [], 1

    def _note(self, mode: int, seconds: float) -> None:
        """Takes a time into a way's average: one hiccup says little, several in a row say much."""
        before = self._seconds[mode]
        if before is not None:
            seconds = before + _NEWEST * (min(seconds, _STEEPEST * before) - before)
        self._seconds[mode] = seconds

    def _next_trial(self) -> int:
        if None in self._seconds:
            return self._seconds.index(None)
        others = [mode for mode in range(len(self._modes)) if mode != self._present]
        self._turn += 1
        return others[self._turn % len(others)]

    def _patience(self) -> int:
        """Steps since the last trial after which the next one begins."""
        if None in self._seconds:
            return SETTLED_STEPS
        if self._present != 0:
            return PROBE_STEPS
        if self._known(0) <= CALM * self._fastest:
            return CALM_PROBE_STEPS
        return PROBE_STEPS << (0 if self._worse() else min(self._lost, MOST_DOUBLINGS))

    def _worse(self) -> bool:
        """Whether steps take longer than when the last trial was lost."""
        return self._known(self._present) > CALM * self._lost_at

    def _known(self, mode: int) -> float:
        seconds = self._seconds[mode]
        return float("inf") if seconds is None else seconds
