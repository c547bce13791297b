"""Deadlines of guests that a busy machine does not shorten: rule 1 of tests/README.md.

A deadline is wall time (clause 3.1 of sandbox/README.md), which also passes while other processes, or the machine's own
host, have the processor: there a guest of one millisecond can miss 50. In the tests the sandbox's ticker goes by the time
that this process has worked, and slower. A guest that loops works, so it ends as ever; one that only waits for the
processor does not come closer to its deadline.

`install()` does it for this process; tests of the deadlines themselves ask for the fixture `wall_deadlines`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

from sealhost.sandbox import engine, tokenizer
from sealhost.sandbox.engine import Ticker

PATIENCE = 4
"""Times its milliseconds that a guest gets: a processor may be shared with the sibling of its core, and a host may hide
what it takes away. More of it would make each looping guest of the tests last longer."""

GRAIN_S = 0.001
"""The kernel may learn so late what the other threads of a process have used."""


class WorkingTime:
    """Seconds that have passed and in which this process had a processor; less than both the clock's and the processors'."""

    def __init__(
        self, wall: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.process_time
    ) -> None:
        self._lock = threading.Lock()
        self._clocks = wall, worked
        self._wall, self._worked, self._total = wall(), worked(), 0.0

    def __call__(self) -> float:
        """Never goes back, from whichever thread it is asked."""
        with self._lock:
            wall, worked = (clock() for clock in self._clocks)
            if wall - self._wall >= GRAIN_S:
                self._total += min(wall - self._wall, worked - self._worked)
                self._wall, self._worked = wall, worked
            return self._total


class PatientTicker(Ticker):
    """Ticks by working time, and PATIENCE times slower."""

    def __init__(self, tick: Callable[[], object], interval: float) -> None:
        super().__init__(tick, interval * PATIENCE, WorkingTime())


def install(put: Callable[[object, str, object], object] = setattr) -> None:
    """Gives all sandboxes of this process that are made from now on such deadlines.

    Args:
        put: `setattr`, or a monkeypatch's.
    """
    clock = WorkingTime()
    put(engine, "Ticker", PatientTicker)
    put(tokenizer, "time", SimpleNamespace(monotonic=lambda: clock() / PATIENCE))
