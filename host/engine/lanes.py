"""Two queues of calls for the workers: one for guests that keep time, one for those whose plugin is overrunning.

Rules
* Calls of a plugin that has a call under way beyond the grace wait in the slow lane, for one of as many places as the
  other lane has. So nobody else waits behind them, nor do they take more than their share of the processor
  (clause 2.19).
* Sandboxes that kept time so far stay in the fast lane, unless their plugin overruns as often as both lanes have
  places; then they go first in the slow one.
* The fast lane keeps its places whatever the slow one holds.
* A call is taken by one worker, or withdrawn before.

Example:
    lanes = Lanes(places=2)
    lanes.put(calls)
    while (call := lanes.take()) is not None: ...     # each worker
    lanes.overran(late)                               # the engine's thread
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..weights.loaded import Sampler
    from .guest_call import GuestCall


class Lanes:
    """Calls that no worker has taken, and how many places those hold that overrun.

    Args:
        places: Calls of each lane that run beside each other.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._guard = threading.Lock()  # taken by name: a condition's own way to it is a call of Python's more
        self._changed = threading.Condition(self._guard)
        self._fast: deque[GuestCall] = deque()
        self._slow: deque[GuestCall] = deque()
        self._overrunning: dict[Sampler, int] = {}
        self._held = 0
        self._leave = 0

    @property
    def workers_wanted(self) -> int:
        """Workers that both lanes can use now."""
        with self._guard:
            waiting = min(len(self._slow), max(self._places - self._held, 0))
            return self._places + self._held + waiting

    def put(self, calls: Iterable[GuestCall], workers: int) -> None:
        """Queues calls, each in the lane of its plugin, and wakes so many workers for them."""
        with self._guard:
            for call in calls:
                self._lane_of(call).append(call)
            self._changed.notify(workers)

    def hurry(self) -> None:
        """Wakes everyone: what waits shall wait no longer."""
        with self._guard:
            self._changed.notify_all()

    def take(self) -> GuestCall | None:
        """Waits for a call; None: this worker is not needed any more."""
        with self._guard:
            while True:
                if self._fast:
                    call = self._fast.popleft()
                elif self._slow and self._held < self._places:
                    call = next((one for one in self._slow if one.guest.keeps_time), self._slow[0])
                    self._slow.remove(call)
                    call.slow = True
                    self._held += 1
                elif self._leave and not self._slow:
                    self._leave -= 1
                    self._changed.notify()  # the next one may have waited for the last slow call, too
                    return None
                else:
                    self._changed.wait()
                    continue
                call.started = True
                return call

    def done(self, call: GuestCall) -> None:
        """A worker is free again."""
        with self._guard:
            call.ended = True
            if call.slow:
                self._held -= 1
                self._changed.notify()

    def overran(self, late: Iterable[GuestCall]) -> None:
        """Sorts what waits anew, by the calls that the engine has gone on without."""
        with self._guard:
            under_way = [call for call in late if call.started and not call.ended]
            self._overrunning = {call.plugin: 0 for call in self._slow} | Counter(call.plugin for call in under_way)
            for call in under_way:
                self._held += not call.slow
                call.slow = True
            if self._overrunning:
                waiting, self._fast = self._fast, deque()
                for call in waiting:
                    self._lane_of(call).append(call)
            self._changed.notify_all()

    def withdraw(self, call: GuestCall) -> bool:
        """Takes a call back that no worker has taken; answers whether that was so."""
        with self._guard:
            if call.started:
                return False
            (self._slow if call in self._slow else self._fast).remove(call)
            return True

    def _lane_of(self, call: GuestCall) -> deque[GuestCall]:
        if not self._overrunning:
            return self._fast
        if call.guest.keeps_time:
            is_fast = self._overrunning.get(call.plugin, 0) < 2 * self._places
        else:
            is_fast = call.plugin not in self._overrunning
        return self._fast if is_fast else self._slow

    def dismiss(self, workers: int) -> None:
        """Lets so many workers go, as soon as they find nothing to take."""
        with self._guard:
            self._leave += workers
            self._changed.notify_all()
