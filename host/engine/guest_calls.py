"""Runs calls into sandboxes beside each other, so that a slow one holds up its own choices only.

Rules
* A sandbox is used by one thread at a time: from `start` until its answer is collected, the worker's (`guest.busy`).
* Answers are collected in the order in which the calls were started, whichever worker was faster.
* After a grace the engine goes on without those that have not answered (clause 2.7); the sandbox's deadline ends them.
  Each occupies a worker of its own, so no call ever waits behind one that overruns (clause 2.19).

Example:
    calls.start(guest, partial(draw, session, ended, asks, vocab))
    for guest, answer in calls.collect(): ...
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from ...signing.errors import SealhostError
from ..errors import InternalError
from .drawing import Drawn, Opened, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from .guest import Guest

GUEST_GRACE_SECONDS = 0.005
"""How long a step waits for guests: many times what a well-made one takes, and about one step of a small model."""

Answer = Opened | Prepared | Drawn | SealhostError


class _Round:
    """Calls that were handed to the workers together: the last to finish opens the gate, so the engine wakes once."""

    __slots__ = ("_guard", "_left", "gate")

    def __init__(self, calls: int) -> None:
        self._left = calls
        self._guard = threading.Lock()
        self.gate = threading.Lock()
        self.gate.acquire()

    def finished_one(self) -> None:
        with self._guard:
            self._left -= 1
            if self._left == 0:
                self.gate.release()


class _Call:
    """One call into a guest; `answer` is None until it has come."""

    __slots__ = ("_round", "_work", "answer", "guest", "late")

    def __init__(self, guest: Guest, work: Callable[[], Opened | Prepared | Drawn]) -> None:
        self.guest = guest
        self.answer: Answer | None = None
        self.late = False
        self._work = work
        self._round: _Round | None = None

    @property
    def is_with_a_worker(self) -> bool:
        return self._round is not None

    def join(self, round_: _Round) -> None:
        self._round = round_

    def run(self) -> None:
        try:
            self.answer = self._work()
        except SealhostError as error:
            self.answer = error
        except Exception as error:  # noqa: BLE001 — clause 2.7: whatever it is, it concerns this sandbox alone
            self.answer = InternalError("sampler", f"expected an answer, got {type(error).__name__}: {error}")
            self.answer.__cause__ = error
        if self._round is not None:
            self._round.finished_one()


class GuestCalls:
    """Calls into guests that are under way.

    Args:
        threads: Worker threads beside those that late guests occupy; they start when they are needed.
        wake: Called, on a worker's thread, when a guest answers after the grace.
    """

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._count = threads
        self._wake = wake
        self._threads: list[threading.Thread] = []
        self._workers = 0
        self._inbox: SimpleQueue[_Call | None] = SimpleQueue()
        self._fresh: list[_Call] = []
        self._late: list[_Call] = []
        self._rounds: list[_Round] = []

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

    def start(self, guest: Guest, work: Callable[[], Opened | Prepared | Drawn], *, alone: bool = False) -> None:
        """Starts a call for a guest that has none.

        It runs on a worker from the next `launch` or `collect` on; `alone`, when nobody else could be held up, here
        and now.
        """
        guest.busy = True
        call = _Call(guest, work)
        self._fresh.append(call)
        if alone:
            call.run()

    def launch(self) -> None:
        """Hands what was started to the workers, without waiting for it."""
        calls = [call for call in self._fresh if call.answer is None and not call.is_with_a_worker]
        if not calls:
            return
        while self._workers < self._count + len(self._late):  # clause 2.19: a slow guest has a worker of its own
            thread = threading.Thread(target=self._work, name="sampler-guest", daemon=True)
            thread.start()
            self._threads.append(thread)
            self._workers += 1
        together = _Round(len(calls))
        self._rounds.append(together)
        for call in calls:
            call.join(together)
            self._inbox.put(call)

    def collect(self, grace: float = GUEST_GRACE_SECONDS) -> list[tuple[Guest, Answer]]:
        """Waits at most `grace` seconds for the calls started since the last time; takes all answers that are there."""
        self.launch()
        until = time.monotonic() + grace
        for together in self._rounds:
            together.gate.acquire(timeout=max(until - time.monotonic(), 0))
        answers: list[tuple[Guest, Answer]] = []
        late: list[_Call] = []
        for call in self._late + self._fresh:
            call.late = True  # before looking: a worker that answers from now on wakes the engine
            if call.answer is None:
                late.append(call)
            else:
                call.guest.busy = False
                answers.append((call.guest, call.answer))
        self._late, self._fresh, self._rounds = late, [], []
        self._retire()
        return answers

    def close(self) -> list[tuple[Guest, Answer]]:
        """Waits for everything under way, which the sandbox's deadlines bound; stops the workers; takes the answers."""
        answers = self.collect()
        for _ in range(self._workers):
            self._inbox.put(None)
        for thread in self._threads:
            thread.join()
        self._threads, self._workers = [], 0
        return answers + self.collect()

    def _retire(self) -> None:
        """Lets workers go that late guests no longer need, but for as many again as there are always."""
        surplus = self._workers - 2 * self._count - len(self._late)
        if surplus <= 0:
            return
        for _ in range(surplus):
            self._inbox.put(None)
        self._workers -= surplus
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _work(self) -> None:
        while (call := self._inbox.get()) is not None:
            call.run()
            if call.late:
                self._wake()
            del call  # clause 2.21: who waits for the next one holds nothing of the last
