"""Runs calls into sandboxes beside each other, so that a slow one holds up its own choices only.

Rules
* A sandbox is used by one thread at a time: from `start` until its answer is collected, the worker's (`guest.busy`).
* Answers are collected in the order in which the calls were started, whichever worker was faster.
* After a grace the engine goes on without those that have not answered (clause 2.7); the sandbox's deadline ends them.
  Meanwhile the calls of their plugins have a lane of their own (clause 2.19).
* A call that nobody waits for any more is not begun.
* No more workers are woken than there is work for: two threads that take the interpreter from each other every few
  microseconds spend more on that than a quick guest on its answer. When those that were woken take longer than guests
  like these should, the others are woken as well, so that no call waits long behind a slow one.

Example:
    calls.start(guest, partial(draw, session, ended, asks, vocab))
    for guest, answer in calls.collect(): ...
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ..errors import InternalError
from .drawing import Opened
from .guest_call import GuestCall, Round, answer_of
from .lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from .drawing import Drawn, Prepared
    from .guest import Guest
    from .guest_call import Answer

GUEST_GRACE_SECONDS = 0.005
"""How long a step waits for guests: many times what a well-made one takes, and about one step of a small model."""

INTERPRETER_SECONDS = 0.00004
"""Of each call, what holds the interpreter, with caches as cold as they are after a model's step: no thread beside it
shortens that."""

WORTH_A_WORKER_SECONDS = 0.0003
"""Work beyond it for which one more thread is woken: several times what waking it and sharing the interpreter cost."""

PAUSE_SECONDS = 0.002
"""After which all are woken: several times what the work was thought to be, and well within the grace."""


class GuestCalls:
    """Calls into guests that are under way.

    Args:
        threads: Worker threads for guests that keep time; at most as many again for others. They start when needed.
        wake: Called, on a worker's thread, when a guest answers after the grace.
    """

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._count = threads
        self._wake = wake
        self._threads: list[threading.Thread] = []
        self._workers = 0
        self._lanes = Lanes(threads)
        self._fresh: list[GuestCall] = []
        self._late: list[GuestCall] = []
        self._rounds: list[Round] = []

    @property
    def under_way(self) -> int:
        """Calls whose answer has not been collected."""
        return len(self._fresh) + len(self._late)

    @property
    def late(self) -> int:
        """Calls that have outlasted the grace."""
        return len(self._late)

    @property
    def workers(self) -> int:
        """Threads that take calls."""
        return self._workers

    @property
    def answered(self) -> bool:
        """Whether a late guest has answered, so that `collect` would find something."""
        return any(call.answer is not None for call in self._late)

    def run(self, guest: Guest, work: Callable[[], Opened | Prepared | Drawn]) -> Answer:
        """Makes a call on this very thread, when nobody else could be held up; the guest has none under way."""
        answer = answer_of(work)
        guest.keeps_time = guest.keeps_time or not isinstance(answer, Opened)
        return answer

    def start(self, guest: Guest, work: Callable[[], Opened | Prepared | Drawn]) -> None:
        """Starts a call for a guest that has none: it runs on a worker from the next `launch` or `collect` on."""
        guest.busy = True
        self._fresh.append(GuestCall(guest, work))

    def launch(self) -> None:
        """Hands what was started to the workers, without waiting for it."""
        self._launch(frugal=False)

    def _launch(self, *, frugal: bool) -> None:
        """With `frugal` somebody waits, and will wake all workers when that takes too long."""
        calls = [call for call in self._fresh if not call.is_launched]
        if not calls:
            return
        workers = _workers_for(calls) if frugal else len(calls)
        together = Round(len(calls), workers)
        self._rounds.append(together)
        for call in calls:
            call.join(together)
        self._lanes.put(calls, workers)
        self._hire()

    def collect(self, grace: float = GUEST_GRACE_SECONDS) -> list[tuple[Guest, Answer]]:
        """Waits at most `grace` seconds for the calls started since the last time; takes all answers that are there."""
        self._launch(frugal=True)
        until = time.monotonic() + grace
        for together in self._rounds:
            if together.is_frugal:
                if together.gate.acquire(timeout=min(grace, PAUSE_SECONDS)):
                    continue
                self._lanes.hurry()
            together.gate.acquire(timeout=max(until - time.monotonic(), 0))
        answers: list[tuple[Guest, Answer]] = []
        late: list[GuestCall] = []
        for call in self._late + self._fresh:
            was_late, call.late = call.late, True  # before looking: who answers from now on wakes the engine
            if call.answer is None and not call.guest.members and self._lanes.withdraw(call):
                call.end(InternalError("sampler", "expected someone to wait for the answer, got nobody"))
            if call.answer is None:
                call.guest.keeps_time = call.guest.keeps_time and not call.started
                late.append(call)
            else:
                call.guest.keeps_time = call.guest.keeps_time or not (was_late or isinstance(call.answer, Opened))
                call.guest.busy = False
                answers.append((call.guest, call.answer))
        if late or self._late:
            self._lanes.overran(late)
            self._hire()
        self._late, self._fresh, self._rounds = late, [], []
        return answers

    def close(self) -> list[tuple[Guest, Answer]]:
        """Waits for everything under way, which the sandbox's deadlines bound; stops the workers; takes the answers."""
        answers = self.collect()
        self._lanes.dismiss(self._workers)
        for thread in self._threads:
            thread.join()
        self._threads, self._workers = [], 0
        return answers + self.collect()

    def _hire(self) -> None:
        """Starts workers that are wanted; lets those go that are not, but for as many again as there are always."""
        wanted = self._lanes.workers_wanted
        while self._workers < wanted:
            thread = threading.Thread(target=self._work, name="sampler-guest", daemon=True)
            thread.start()
            self._threads.append(thread)
            self._workers += 1
        surplus = self._workers - max(wanted, 2 * self._count)
        if surplus > 0:
            self._lanes.dismiss(surplus)
            self._workers -= surplus
            self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _work(self) -> None:
        while (call := self._lanes.take()) is not None:
            call.run()
            self._lanes.done(call)
            if call.late:
                self._wake()
            del call  # clause 2.21: who waits for the next one holds nothing of the last


def _workers_for(calls: list[GuestCall]) -> int:
    """As many as the calls are worth, by what their guests took last, and how much of that another could go on beside.

    One that has not drawn is worth nothing yet: opening a sandbox is short, and hardly any of it goes on without the
    interpreter; a first draw that is long will be noticed.
    """
    work = sum(max((call.guest.seconds or 0.0) - INTERPRETER_SECONDS, 0.0) for call in calls)
    return min(max(round(work / WORTH_A_WORKER_SECONDS), 1), len(calls))
