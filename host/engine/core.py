"""The engine without its thread: one turn after another, each at most one model step.

A turn: admit who has room, open their sandboxes, plan, run the model, let guests draw, tell the clients.

Rules
* Whatever fails, fails for those it concerns: a guest for its request (clause 2.7), a step for those who ran
  (clause 2.9), a sink that raises for its own request.
* A sequence ends exactly once, and then holds no block; its sandbox is closed as soon as no worker uses it
  (clause 2.8).

Example:
    core = Core(loaded, config)
    core.add(request, sink)
    while core.turn(): ...
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Literal

from ...kernels.backend import KV_BLOCK_TOKENS
from ...kernels.batch import StepBatch
from ...signing.errors import SealhostError
from ..errors import InternalError
from .detokenizer import TextStream, TokenTable
from .guests import Drawn, GuestCalls, Opened, draw
from .kv_pool import KvPool
from .request import EngineStats, ErrorEvent, FinishEvent, TokenEvent
from .scheduler import Scheduler
from .sequence import Sequence, blocks_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import EngineConfig
    from ..weights.loaded import LoadedModel, Sampler
    from .guests import Answer
    from .request import Event, GenerationRequest
    from .scheduler import Run

log = logging.getLogger(__name__)


class Core:
    """All sequences of one model; one thread at a time may call it.

    Args:
        loaded: The model, its vocabulary and its samplers; not closed here.
        config: Limits of a step.
        wake: Called, on any thread, when a late guest has answered.
        ended: Called with the id of every request that has ended.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        config: EngineConfig,
        *,
        wake: Callable[[], None] = lambda: None,
        ended: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.pool = KvPool(loaded.kv_blocks)
        self.context = min(loaded.context, loaded.kv_blocks * KV_BLOCK_TOKENS)
        self.stats = EngineStats(kv_free_blocks=self.pool.free, kv_total_blocks=self.pool.total)
        self._loaded = loaded
        self._ended = ended
        self.table = TokenTable(loaded.vocabulary)
        self._guests = GuestCalls(config.guest_threads, wake)
        self._sequences: dict[str, Sequence] = {}
        self._scheduler = Scheduler(
            self.pool,
            max_sequences=config.max_sequences,
            step_tokens=config.step_tokens,
            chunk_beside_decode=config.chunk_beside_decode,
        )
        self._batch = StepBatch.allocate(
            max_tokens=config.step_tokens,
            max_sequences=config.max_sequences,
            max_blocks=blocks_for(self.context),
        )
        self._tally = _Tally()

    def add(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        """Queues a request that `admission.check` has let through."""
        limit = min(len(request.prompt_ids) + request.max_tokens, self.context)
        sequence = Sequence(request, sink, TextStream(self.table, request.stop), limit)
        self._sequences[request.id] = sequence
        self._scheduler.add(sequence)

    def cancel(self, request_id: str) -> None:
        """Ends a request without an event; ids that are unknown or have ended are ignored."""
        sequence = self._sequences.get(request_id)
        if sequence is not None:
            self._tally.cancelled += 1
            self._end(sequence)

    def turn(self) -> bool:
        """Does the work that can be done now, at most one model step; answers False when there was nothing to do."""
        began = time.perf_counter()
        for newcomer in self._scheduler.admit():
            if newcomer.session is None:
                self._open(newcomer)
        answers = self._settle()
        runs = self._scheduler.plan()
        if runs and self._forward(runs):
            for run in runs:
                if run.draws:
                    self._draw(run.sequence)
            self._settle()
            self._tally.turn_seconds += time.perf_counter() - began
        self._publish()
        return bool(runs or answers)  # an answer may have made room for someone who waits

    @property
    def has_news(self) -> bool:
        """Whether a late guest has answered, so that a turn would find work."""
        return self._guests.answered

    def fail_all(self, error: SealhostError) -> None:
        """Ends every request with an error."""
        for sequence in tuple(self._sequences.values()):
            self._fail(sequence, error)
        self._publish()

    def close(self, error: SealhostError) -> None:
        """Ends every request with an error, waits for guests and closes their sandboxes."""
        self.fail_all(error)
        for sequence, answer in self._guests.close():
            self._apply(sequence, answer)
        self._publish()

    # ---- guests

    def _open(self, sequence: Sequence) -> None:
        request, sampler = sequence.request, self._sampler(sequence.request.sampler)

        def opened() -> Opened:
            config = request.sampler_config
            return Opened(sampler.session(request.params, request.prompt_ids, choice=request.choice, config=config))

        self._guests.start(sequence, opened, alone=self._alone)

    def _draw(self, sequence: Sequence) -> None:
        if sequence.session is not None:
            work = partial(draw, sequence.session, sequence.request.logprobs, self._loaded.spec.vocab)
            self._guests.start(sequence, work, alone=self._alone)

    @property
    def _alone(self) -> bool:
        """Whether a guest that runs on this very thread would hold up nobody else."""
        return len(self._sequences) == 1 and self._guests.under_way == 0

    def _sampler(self, name: str | None) -> Sampler:
        samplers = self._loaded.samplers
        return samplers[next(iter(samplers)) if name is None else name]

    def _settle(self) -> int:
        """Gives guests their grace, then applies the answers that are there, and tells how many."""
        if not self._guests.under_way:
            return 0
        began = time.perf_counter()
        answers = self._guests.collect()
        self._tally.guest_seconds += time.perf_counter() - began
        for sequence, answer in answers:
            self._apply(sequence, answer)
        return len(answers)

    def _apply(self, sequence: Sequence, answer: Answer) -> None:
        if isinstance(answer, Opened):
            sequence.session = answer.session
        if sequence.done:  # cancelled or failed while the guest was at work
            self._close_session(sequence)
        elif isinstance(answer, SealhostError):
            self._fail(sequence, answer)
        elif isinstance(answer, Drawn):
            self._advance(sequence, answer)

    # ---- the model

    def _forward(self, runs: list[Run]) -> bool:
        """Runs the model over these; on failure all who run end with an error (clause 2.9)."""
        began = time.perf_counter()
        try:
            self._fill(runs)
            self._loaded.model.step(self._batch)
        except Exception as error:
            log.exception("a model step over %d sequences failed", len(runs))
            failure = InternalError("model step", f"expected a step over {len(runs)} sequences, got: {error}")
            for sequence in tuple(self._scheduler.running):
                self._fail(sequence, failure)
            return False
        for run in runs:
            run.sequence.cached += run.length
            self._tally.prompt_tokens += run.length - (run.draws and run.sequence.generated > 0)
        self._tally.steps += 1
        self._tally.model_seconds += time.perf_counter() - began
        return True

    def _fill(self, runs: list[Run]) -> None:
        self._batch.clear()
        for sequence, length, draws in runs:
            first = sequence.cached
            self._batch.add(
                sequence.ids[first : first + length],
                start=first,
                blocks=sequence.blocks,
                logits_address=sequence.session.logits_address if draws and sequence.session is not None else None,
            )

    # ---- a sequence's way

    def _advance(self, sequence: Sequence, drawn: Drawn) -> None:
        """Takes what was drawn: an id, an id that ends the answer, or the guest's wish to stop."""
        token = drawn.token
        if token is None:
            self._finish(sequence, "stop", sequence.generated)
            return
        self._tally.completion_tokens += 1
        if token in sequence.request.stop_ids:
            self._finish(sequence, "stop", sequence.generated + 1)
            return
        text, stopped = sequence.stream.push(token)
        sequence.ids.append(token)
        self._emit(sequence, TokenEvent(sequence.request.id, token, text, drawn.logprobs))
        if stopped:
            self._finish(sequence, "stop", sequence.generated, flush=False)
        elif len(sequence.ids) >= sequence.limit:
            self._finish(sequence, "length", sequence.generated)
        else:
            self._accept(sequence, token)

    def _accept(self, sequence: Sequence, token: int) -> None:
        """Tells the guest; its failure is its request's."""
        if sequence.done or sequence.session is None:  # the sink may just have failed
            return
        try:
            sequence.session.accept(token)
        except SealhostError as error:
            self._fail(sequence, error)
        except Exception as error:  # noqa: BLE001 — clause 2.7: whatever it is, it concerns this request alone
            self._fail(sequence, InternalError("sampler", f"expected it to accept an id, got: {error}"))

    def _finish(
        self, sequence: Sequence, reason: Literal["stop", "length"], completion_tokens: int, *, flush: bool = True
    ) -> None:
        if sequence.done:
            return
        tail = sequence.stream.finish() if flush else ""
        prompt_tokens = len(sequence.request.prompt_ids)
        self._tally.finished += 1
        self._end(sequence)
        self._emit(sequence, FinishEvent(sequence.request.id, reason, tail, prompt_tokens, completion_tokens))

    def _fail(self, sequence: Sequence, error: SealhostError) -> None:
        if sequence.done:
            return
        self._tally.failed += 1
        self._end(sequence)
        self._emit(sequence, ErrorEvent(sequence.request.id, error))

    def _end(self, sequence: Sequence) -> None:
        """Takes a sequence out of everything; its blocks are free when this returns."""
        sequence.done = True
        self._sequences.pop(sequence.request.id)
        self._scheduler.remove(sequence)
        if not sequence.busy:
            self._close_session(sequence)
        self._ended(sequence.request.id)

    def _close_session(self, sequence: Sequence) -> None:
        session, sequence.session = sequence.session, None
        if session is not None:
            try:
                session.close()
            except Exception:
                log.exception("closing the sandbox of request %s failed", sequence.request.id)

    def _emit(self, sequence: Sequence, event: Event) -> None:
        """Hands an event to its client; one that raises is gone, and its request with it."""
        try:
            sequence.sink(event)
        except Exception:
            log.exception("the sink of request %s failed", sequence.request.id)
            if not sequence.done:
                self._tally.cancelled += 1
                self._end(sequence)

    def _publish(self) -> None:
        """Replaces the snapshot that other threads read."""
        self.stats = self._tally.snapshot(self._scheduler, self.pool)


class _Tally:
    """Counts since the start; fields as in EngineStats."""

    __slots__ = (
        "cancelled",
        "completion_tokens",
        "failed",
        "finished",
        "guest_seconds",
        "model_seconds",
        "prompt_tokens",
        "steps",
        "turn_seconds",
    )

    def __init__(self) -> None:
        self.steps = self.prompt_tokens = self.completion_tokens = 0
        self.finished = self.failed = self.cancelled = 0
        self.model_seconds = self.guest_seconds = self.turn_seconds = 0.0

    def snapshot(self, scheduler: Scheduler, pool: KvPool) -> EngineStats:
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_free_blocks=pool.free,
            kv_total_blocks=pool.total,
            preemptions=scheduler.preemptions,
            **{name: getattr(self, name) for name in self.__slots__},
        )
