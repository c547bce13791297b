"""Runs sampler guests beside each other, so that a slow one holds up its own sequence only.

Rules
* A sandbox is used by one thread at a time: from `start` until its answer is collected, the worker's (`sequence.busy`).
* Answers are collected in the order in which the calls were started, whichever worker was faster.
* After a grace the engine goes on without those that have not answered (clause 2.7); the sandbox's deadline ends them.

Example:
    calls.start(sequence, partial(draw, session, 5, vocab))
    for sequence, answer in calls.collect(): ...
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...signing.errors import Code, SealhostError
from ..errors import HostError, InternalError
from .logprobs import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from .request import TokenLogprobs
    from .sequence import Sequence

GUEST_GRACE_SECONDS = 0.005
"""How long a step waits for guests: many times what a well-made one takes, and about one step of a small model."""


class Decision(Protocol):
    """A sampler's answer: an id, or the wish to stop."""

    @property
    def token(self) -> int | None:
        """The id that was drawn; None with `stop`."""

    @property
    def stop(self) -> bool:
        """The answer ends here."""


class Session(Protocol):
    """What is used of a sampler's sandbox."""

    @property
    def logits_address(self) -> int:
        """Where the model writes this choice's logits: float32[vocab]."""

    @property
    def logits(self) -> NDArray[np.float32]:
        """The same, as a live view; not kept past `close`."""

    def step(self) -> Decision:
        """Draws from the logits."""

    def accept(self, token: int) -> None:
        """Tells the guest that the drawn id stands."""

    def close(self) -> None:
        """Throws the sandbox away."""


class Opened(NamedTuple):
    """A sandbox is ready."""

    session: Session


class Drawn(NamedTuple):
    """An id was drawn, or the guest wants to stop (None)."""

    token: int | None
    logprobs: TokenLogprobs | None


Answer = Opened | Drawn | SealhostError


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

    __slots__ = ("_round", "_work", "answer", "late", "sequence")

    def __init__(self, sequence: Sequence, work: Callable[[], Opened | Drawn]) -> None:
        self.sequence = sequence
        self.answer: Answer | None = None
        self.late = False
        self._work = work
        self._round: _Round | None = None

    def join(self, round_: _Round) -> None:
        self._round = round_

    def run(self) -> None:
        try:
            self.answer = self._work()
        except SealhostError as error:
            self.answer = error
        except Exception as error:  # noqa: BLE001 — clause 2.7: whatever it is, it concerns this request alone
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
        self._inbox: SimpleQueue[_Call | None] = SimpleQueue()
        self._fresh: list[_Call] = []
        self._late: list[_Call] = []

    @property
    def under_way(self) -> int:
        """Calls whose answer has not been collected."""
        return len(self._fresh) + len(self._late)

    @property
    def answered(self) -> bool:
        """Whether a late guest has answered, so that `collect` would find something."""
        return any(call.answer is not None for call in self._late)

    def start(self, sequence: Sequence, work: Callable[[], Opened | Drawn], *, alone: bool) -> None:
        """Starts a call for a sequence that has none.

        It runs on a worker from the next `collect` on; `alone`, when nobody else could be held up, here and now.
        """
        sequence.busy = True
        call = _Call(sequence, work)
        self._fresh.append(call)
        if alone:
            call.run()

    def collect(self, grace: float = GUEST_GRACE_SECONDS) -> list[tuple[Sequence, Answer]]:
        """Waits at most `grace` seconds for the calls started since the last time; takes all answers that are there."""
        self._hand_over([call for call in self._fresh if call.answer is None], grace)
        answers: list[tuple[Sequence, Answer]] = []
        late: list[_Call] = []
        for call in self._late + self._fresh:
            call.late = True  # before looking: a worker that answers from now on wakes the engine
            if call.answer is None:
                late.append(call)
            else:
                call.sequence.busy = False
                answers.append((call.sequence, call.answer))
        self._late, self._fresh = late, []
        return answers

    def close(self) -> list[tuple[Sequence, Answer]]:
        """Waits for everything under way, which the sandbox's deadlines bound; stops the workers; takes the answers."""
        answers = self.collect()
        for _ in self._threads:
            self._inbox.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []
        return answers + self.collect()

    def _hand_over(self, calls: list[_Call], grace: float) -> None:
        if not calls:
            return
        while len(self._threads) < self._count + len(self._late):  # slow guests occupy workers of their own
            self._threads.append(threading.Thread(target=self._work, name="sampler-guest", daemon=True))
            self._threads[-1].start()
        together = _Round(len(calls))
        for call in calls:
            call.join(together)
            self._inbox.put(call)
        together.gate.acquire(timeout=grace)

    def _work(self) -> None:
        while (call := self._inbox.get()) is not None:
            call.run()
            if call.late:
                self._wake()


def draw(session: Session, logprobs: int | None, vocab: int) -> Drawn:
    """One guest step; runs on a worker's thread.

    Args:
        session: The choice's sandbox, its logits written.
        logprobs: Alternatives to report, None for no report.
        vocab: Ids are below this.

    Raises:
        SealhostError: the guest failed, or answered an id that does not exist.
    """
    raw = None if logprobs is None else session.logits.copy()  # before the guest can edit them (clause 2.12)
    decision = session.step()
    token = decision.token
    if decision.stop or token is None:
        return Drawn(None, None)
    if not 0 <= token < vocab:
        raise HostError(Code.PLUGIN, "sampler", f"expected an id below {vocab}, got {token}", "use another sampler")
    return Drawn(token, None if raw is None or logprobs is None else token_logprobs(raw, token, logprobs))
