"""What a plugin did so far, and whether it may go on: strikes, quarantine, places and figures (README §10).

    ticket = record.admit()          # GuestError "quarantined" or "busy": no place for now
    instance = Instance(program, record)         # notes what its calls take
    ticket.prove()                   # its answer was taken; or: ticket.fail(error)
    ticket.close()                   # the session's end

Rules
* A session is one instance: the sampler of a request, or one encode. It ends well or with one failure.
* Traps, timeouts and invalid answers are strikes; what a guest says itself ("config", "error", "empty") is not.
* All of it is thread-safe; time comes from the clock that was handed in.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from .errors import GuestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .limits import OperatorLimits

STRIKES: Final = frozenset(("trap", "timeout", "invalid"))
"""Kinds of failure that a well-made plugin never has."""

_PER_OCTAVE: Final = 4
"""Buckets of the histogram for each doubling, so that a quantile is at most 19 % too high."""

_BUCKETS: Final = 40 * _PER_OCTAVE
"""From 1 to 2^40 nanoseconds, 18 minutes, or units of fuel: no call takes more."""

MOST_UNSORTED: Final = 256
"""Figures of calls that wait for the histograms, so that a call takes no lock; sorting as many takes some tens of
microseconds."""


@dataclass(frozen=True, slots=True)
class PluginStats:
    """A snapshot of what a plugin did since it was loaded.

    Attributes:
        sessions: Instances that were started.
        live: Those that have not ended.
        refused: Sessions that were refused: quarantined, or no place left.
        calls: Calls into the guest.
        failures: Failed sessions by kind.
        strikes: Strikes in a row.
        quarantined_s: Seconds until the next session is let in; 0: it is now.
        p50_us: Half of the calls took no longer, microseconds; 0 before the first one.
        p99_us: All but a hundredth of the calls took no longer, microseconds.
        p50_fuel: Half of the calls spent no more; 0 where fuel is not counted.
        p99_fuel: All but a hundredth of the calls spent no more.
    """

    sessions: int
    live: int
    refused: int
    calls: int
    failures: Mapping[str, int]
    strikes: int
    quarantined_s: float
    p50_us: float
    p99_us: float
    p50_fuel: float = 0.0
    p99_fuel: float = 0.0


class PluginRecord:
    """The record of one loaded plugin.

    Args:
        plugin: Its name.
        allowed: Places, strikes and back-off.
        clock: Seconds that never go back.

    Attributes:
        times: Nanoseconds of calls, not sorted yet; who appends needs no lock, and sorts when they are MOST_UNSORTED.
        fuels: Fuel of calls where it is counted, in the same way.
    """

    def __init__(self, plugin: str, allowed: OperatorLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._plugin = plugin
        self._allowed = allowed
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions = self._live = self._refused = self._strikes = self._quarantines = 0
        self._until = 0.0
        self._probation = False
        self._unproved = 0
        self._failures: Counter[str] = Counter()
        self._histogram = [0] * _BUCKETS
        self._fuel = [0] * _BUCKETS
        self.times: deque[int] = deque()
        self.fuels: deque[int] = deque()

    def admit(self) -> Ticket:
        """A place for one session.

        Raises:
            GuestError: "quarantined" or "busy".
        """
        with self._lock:
            left = self._until - self._clock()
            if left > 0 or (self._probation and self._unproved):
                self._refused += 1
                until = f"for another {left:.1f} s" if left > 0 else "until one session that tries it has an answer"
                problem = f"refused after {self._strikes} failures in a row, {until}"
                raise GuestError(self._plugin, "quarantined", problem, "try again later, or use another plugin")
            if self._live >= self._allowed.max_sessions:
                self._refused += 1
                problem = f"expected at most {self._allowed.max_sessions} live sessions, got one more"
                raise GuestError(self._plugin, "busy", problem, "try again later, or raise max_sessions")
            self._sessions += 1
            self._live += 1
            self._unproved += 1
        return Ticket(self)

    def stats(self) -> PluginStats:
        """What it did so far."""
        with self._lock:
            self._sort()
            return PluginStats(
                sessions=self._sessions,
                live=self._live,
                refused=self._refused,
                calls=sum(self._histogram),
                failures=dict(self._failures),
                strikes=self._strikes,
                quarantined_s=max(self._until - self._clock(), 0.0),
                p50_us=_quantile(self._histogram, 0.5) / 1000,
                p99_us=_quantile(self._histogram, 0.99) / 1000,
                p50_fuel=_quantile(self._fuel, 0.5),
                p99_fuel=_quantile(self._fuel, 0.99),
            )

    def sort(self) -> None:
        """Takes what was noted into the histograms."""
        with self._lock:
            self._sort()

    def _sort(self) -> None:
        for noted, histogram in ((self.times, self._histogram), (self.fuels, self._fuel)):
            for _ in range(len(noted)):
                histogram[min((noted.popleft() ** _PER_OCTAVE).bit_length(), _BUCKETS - 1)] += 1

    def proved(self) -> None:
        """Notes that a session's first call came back well."""
        with self._lock:
            self._unproved -= 1

    def end(self, ticket: Ticket) -> None:
        """Takes a session's place back and judges it: failed, good, or ended before its first call. Idempotent."""
        with self._lock:
            if ticket.ended:
                return
            ticket.ended = True
            self._live -= 1
            self._unproved -= not ticket.is_proved
            if ticket.failure is not None:
                self._failures[ticket.failure] += 1
                if ticket.failure in STRIKES:
                    self._strike()
            elif ticket.is_proved and self._clock() >= self._until:
                self._strikes = self._quarantines = 0
                self._probation = False

    def _strike(self) -> None:
        self._strikes += 1
        now = self._clock()
        if now >= self._until and (self._probation or self._strikes >= self._allowed.strikes):
            wait_ms = min(self._allowed.backoff_ms << min(self._quarantines, 32), self._allowed.max_backoff_ms)
            self._until = now + wait_ms / 1000
            self._quarantines += 1
            self._probation = True


class Ticket:
    """One session's place; used by one thread at a time.

    Attributes:
        failure: Kind of what the session failed by.
        is_proved: Whether a call of it came back well.
        ended: Whether its place was given back.
    """

    __slots__ = ("_record", "ended", "failure", "is_proved")

    def __init__(self, record: PluginRecord) -> None:
        self._record = record
        self.failure: str | None = None
        self.is_proved = False
        self.ended = False

    def prove(self) -> None:
        """An answer was taken."""
        if not self.is_proved:
            self.is_proved = True
            self._record.proved()

    def fail(self, error: GuestError) -> None:
        """Notes what the session failed by."""
        self.failure = error.kind

    def close(self) -> None:
        """Gives the place back; idempotent."""
        self._record.end(self)


def _quantile(histogram: Sequence[int], share: float) -> float:
    """Upper edge of the bucket that holds the quantile."""
    reached = list(accumulate(histogram))
    if reached[-1] == 0:
        return 0.0
    return math.exp2(bisect_left(reached, share * reached[-1]) / _PER_OCTAVE)
