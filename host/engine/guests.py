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

from concurrent.futures import Future, ThreadPoolExecutor, wait
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


class _Call(NamedTuple):
    sequence: Sequence
    future: Future[Opened | Drawn]


class GuestCalls:
    """Calls into guests that are under way.

    Args:
        threads: Worker threads.
        wake: Called, on a worker's thread, when a guest answers after the grace.
    """

    def __init__(self, threads: int, wake: Callable[[], None]) -> None:
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="sampler-guest")
        self._wake = wake
        self._fresh: list[_Call] = []
        self._late: list[_Call] = []

    @property
    def under_way(self) -> int:
        """Calls whose answer has not been collected."""
        return len(self._fresh) + len(self._late)

    @property
    def answered(self) -> bool:
        """Whether `collect` would find an answer."""
        return any(call.future.done() for call in self._late)

    def start(self, sequence: Sequence, work: Callable[[], Opened | Drawn], *, alone: bool) -> None:
        """Starts a call for a sequence that has none; runs it here and now when nobody else could be held up."""
        sequence.busy = True
        future = _run_here(work) if alone else self._workers.submit(work)
        self._fresh.append(_Call(sequence, future))

    def collect(self, grace: float | None = GUEST_GRACE_SECONDS) -> list[tuple[Sequence, Answer]]:
        """Waits at most `grace` seconds for the calls started since the last time; takes all answers that are there."""
        if any(not call.future.done() for call in self._fresh):
            wait([call.future for call in self._fresh], grace)
        calls = self._late + self._fresh
        answered = [call for call in calls if call.future.done()]
        for call in self._fresh:
            if call not in answered:
                call.future.add_done_callback(lambda _: self._wake())
        self._late = [call for call in calls if call not in answered]
        self._fresh = []
        return [_answer(call) for call in answered]

    def close(self) -> list[tuple[Sequence, Answer]]:
        """Waits for everything under way, which the sandbox's deadlines bound; stops the workers; takes the answers."""
        self._workers.shutdown(wait=True)
        return self.collect()


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


def _run_here(work: Callable[[], Opened | Drawn]) -> Future[Opened | Drawn]:
    future: Future[Opened | Drawn] = Future()
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 — what a worker thread would do with it too
        future.set_exception(error)
    return future


def _answer(call: _Call) -> tuple[Sequence, Answer]:
    call.sequence.busy = False
    error = call.future.exception()
    if error is None:
        return call.sequence, call.future.result()
    if isinstance(error, SealhostError):
        return call.sequence, error
    failure = InternalError("sampler", f"expected an answer or a refusal, got {type(error).__name__}: {error}")
    failure.__cause__ = error
    return call.sequence, failure
