"""One call into a sandbox, from the engine's thread to a worker and back.

Rules
* `started`, `ended` and `slow` belong to the lanes, `late` to the engine's thread, `answer` to whoever runs it.

Example:
    call = GuestCall(guest, partial(draw, session, ended, asks, vocab))
    call.run()
    call.answer
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ...signing.errors import SealhostError
from ..errors import InternalError
from .drawing import Drawn, Opened, Prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..weights.loaded import Sampler
    from .guest import Guest

Answer = Opened | Prepared | Drawn | SealhostError


def answer_of(work: Callable[[], Opened | Prepared | Drawn]) -> Answer:
    """What a call comes to; whatever it raises is the answer."""
    try:
        return work()
    except SealhostError as error:
        return error
    except Exception as error:  # noqa: BLE001 — clause 2.7: whatever it is, it concerns this sandbox alone
        failure = InternalError("sampler", f"expected an answer, got {type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure


class Round:
    """Calls that were handed to the workers together: the last to finish opens the gate, so the engine wakes once.

    Args:
        calls: How many.
        woken: Workers that were woken for them, at most.
    """

    __slots__ = ("_guard", "_left", "gate", "is_frugal")

    def __init__(self, calls: int, woken: int) -> None:
        self._left = calls
        self.is_frugal = woken < calls
        """Some may wait behind others, although there are workers that sleep."""
        self._guard = threading.Lock()
        self.gate = threading.Lock()
        self.gate.acquire()

    def finished_one(self) -> None:
        """One of its calls has an answer."""
        with self._guard:
            self._left -= 1
            if self._left == 0:
                self.gate.release()


class GuestCall:
    """A call that has been started.

    Args:
        guest: Whose sandbox it uses.
        work: What is done with it.

    Attributes:
        answer: None until it has come.
        late: The engine has gone on without it.
        started: A worker has taken it.
        ended: That worker is done with it.
        slow: It holds one of the slow lane's places.
    """

    __slots__ = ("_round", "_work", "answer", "ended", "guest", "late", "slow", "started")

    def __init__(self, guest: Guest, work: Callable[[], Opened | Prepared | Drawn]) -> None:
        self.guest = guest
        self.answer: Answer | None = None
        self.late = self.started = self.ended = self.slow = False
        self._work = work
        self._round: Round | None = None

    @property
    def plugin(self) -> Sampler:
        """Whose guest it calls."""
        return self.guest.sampler

    @property
    def is_launched(self) -> bool:
        """Whether it was handed to the workers."""
        return self._round is not None

    def join(self, round_: Round) -> None:
        """It is handed to the workers with others."""
        self._round = round_

    def run(self) -> None:
        """Does the work."""
        began = time.thread_time()
        answer = answer_of(self._work)
        if isinstance(answer, Drawn):
            self.guest.drew(time.thread_time() - began)
        self.end(answer)

    def end(self, answer: Answer) -> None:
        """Gives it its answer."""
        self.answer = answer
        if self._round is not None:
            self._round.finished_one()
