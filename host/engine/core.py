"""The engine without its thread: one turn after another, each at most one model step.

A turn: admit who has room, open their sandboxes, plan, run the model (guests of the mask tier work meanwhile), let
guests draw, tell the clients.

Rules
* Whatever fails, fails for those it concerns: a guest for the choices it serves (clause 2.7), a step for those who ran
  (clause 2.9), a sink that raises for its own request.
* A sequence ends exactly once, and then holds no block; its sandbox is closed as soon as no choice needs it and no
  worker uses it (clause 2.8).

Example:
    core = Core(loaded, config)
    core.add(request, sink)
    while core.turn(): ...
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from ...kernels.backend import KV_BLOCK_TOKENS
from ...kernels.batch import StepBatch
from ...signing.errors import SealhostError
from ..errors import InternalError
from .detokenizer import TextStream, TokenTable
from .drawing import Ask, Drawn, Opened, Prepared, draw, prepare
from .groups import Groups
from .guest_calls import GuestCalls
from .kv_pool import KvPool
from .progress import progress
from .request import EngineStats, ErrorEvent
from .scheduler import Scheduler
from .sequence import Sequence, blocks_for
from .windows import Windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import EngineConfig
    from ..weights.loaded import LoadedModel, Sampler
    from .drawing import Reply
    from .guest import Guest
    from .guest_call import Answer
    from .progress import Accepted
    from .request import Event, FinishEvent, GenerationRequest
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
        self.windows = Windows.of(loaded, context=self.context, chunk=config.step_tokens)
        self._loaded = loaded
        self._ended = ended
        self.table = TokenTable(loaded.vocabulary)
        self._calls = GuestCalls(config.guest_threads, wake)
        self._groups = Groups()
        self._sequences: dict[str, Sequence] = {}
        self._scheduler = Scheduler(
            self.pool,
            self.windows,
            max_sequences=config.max_sequences,
            step_tokens=config.step_tokens,
            chunk_beside_decode=config.chunk_beside_decode,
        )
        self._batch = StepBatch.allocate(
            max_tokens=config.step_tokens,
            max_sequences=config.max_sequences,
            max_blocks=blocks_for(self.context),
            window=loaded.spec.window,
        )
        self._tally = _Tally()
        self._publish()

    def add(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        """Queues a request that `admission.check` has let through."""
        sampler, stream = self._sampler(request.sampler), TextStream(self.table, request.stop)
        limit = min(len(request.prompt_ids) + request.max_tokens, self.context, sampler.history_capacity)
        sequence = Sequence(request, sink, stream, limit, max_backtrack=sampler.max_backtrack)
        self._groups.seat(sequence, sampler)
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
        newcomers = self._scheduler.admit()
        for newcomer in newcomers:
            if newcomer.guest is not None and not newcomer.guest.opening:
                self._open(newcomer.guest, newcomer.request)
        answers = self._settle()
        runs = self._scheduler.plan()
        if runs:
            asks = _asks(runs)
            self._prepare(asks)
            if self._forward(runs):
                for guest, wanted in asks.items():
                    self._draw(guest, wanted)
                self._settle()
                self._tally.turn_seconds += time.perf_counter() - began
        self._publish()
        return bool(runs or answers or newcomers)  # an answer or a refusal may have made room for someone who waits

    @property
    def has_news(self) -> bool:
        """Whether a late guest has answered, so that a turn would find work."""
        return self._calls.answered

    def fail_all(self, error: SealhostError) -> None:
        """Ends every request with an error; everybody is told, whatever fault comes on the way: it is raised then."""
        faults = []
        for sequence in tuple(self._sequences.values()):
            try:
                self._fail(sequence, error)
            except Exception as fault:  # noqa: BLE001 — raised below
                faults.append(fault)
        self._publish()
        if faults:
            raise faults[0]

    def close(self, error: SealhostError) -> None:
        """Ends every request with an error, waits for guests and closes their sandboxes."""
        try:
            self.fail_all(error)
        finally:
            for guest, answer in self._calls.close():
                self._apply(guest, answer)
            self._publish()

    # ---- guests

    def _open(self, guest: Guest, request: GenerationRequest) -> None:
        guest.opening = True
        work = partial(
            guest.sampler.session,
            request.params,
            request.prompt_ids,
            choices=guest.choices,
            config=request.sampler_config,
        )
        self._ask(guest, lambda: Opened(work()))

    def _prepare(self, asks: dict[Guest, list[Ask]]) -> None:
        """Lets guests of the mask tier work beside the model's step (clause 2.18)."""
        for guest, wanted in asks.items():
            if guest.session is None or not guest.prepares:
                continue
            if slots := [ask.sequence.slot for ask in wanted if ask.forced is None]:
                guest.asks = wanted
                self._calls.start(guest, partial(prepare, guest.session, guest.take_ended(), slots))
        self._calls.launch()

    def _draw(self, guest: Guest, asks: list[Ask]) -> None:
        """Lets a guest draw, now that the logits are there; one that still prepares will when it is done."""
        wanted = [ask for ask in asks if not ask.sequence.done]
        if wanted and guest.session is not None and not guest.busy:
            self._ask(guest, partial(draw, guest.session, guest.take_ended(), wanted, self._loaded.spec.vocab))

    def _ask(self, guest: Guest, work: Callable[[], Opened | Drawn]) -> None:
        """Lets a guest work: here and now where that holds up nobody else, otherwise on a worker."""
        if len(self._groups) == 1 and self._calls.under_way == 0:
            self._apply(guest, self._calls.run(guest, work))
        else:
            self._calls.start(guest, work)

    def _sampler(self, name: str | None) -> Sampler:
        samplers = self._loaded.samplers
        return samplers[next(iter(samplers)) if name is None else name]

    def _settle(self) -> int:
        """Gives guests their grace, then applies the answers that are there, and tells how many."""
        if not self._calls.under_way:
            return 0
        began = time.perf_counter()
        answers = self._calls.collect()
        self._tally.guest_seconds += time.perf_counter() - began
        for guest, answer in answers:
            self._apply(guest, answer)
        if any(isinstance(answer, Prepared) for _, answer in answers):
            return len(answers) + self._settle()  # those draw now, which asks no guest
        return len(answers)

    def _apply(self, guest: Guest, answer: Answer) -> None:
        if isinstance(answer, Opened):
            guest.session = answer.session
        guest.tidy()  # choices may have ended while the guest was at work
        if isinstance(answer, SealhostError):
            self._fail_guest(guest, answer)
        elif isinstance(answer, Prepared):
            asks, guest.asks = guest.asks, []
            self._draw(guest, asks)
        elif isinstance(answer, Drawn):
            for reply in answer.replies:
                if not reply.sequence.done:
                    self._advance(guest, reply)

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
                logits_address=_logits_address(sequence) if draws else None,
                window_blocks=sequence.window_blocks,
                window_start=sequence.window_start,
            )

    # ---- a sequence's way

    def _advance(self, guest: Guest, reply: Reply) -> None:
        """Takes what was drawn for a choice, and tells its client and its guest what stands."""
        sequence = reply.sequence
        try:
            step = progress(sequence, reply)
        except SealhostError as error:
            self._fail_guest(guest, error)
            return
        self._scheduler.trim(sequence)
        self._tally.completion_tokens += step.drawn
        for event in step.events:
            self._emit(sequence, event)
        if sequence.done:  # the sink has just failed
            return
        if step.finish is not None:
            self._finish(sequence, step.finish)
        elif step.accepted is not None:
            self._accept(guest, sequence, step.accepted)

    def _accept(self, guest: Guest, sequence: Sequence, accepted: Accepted) -> None:
        """Tells the guest; its failure is this choice's."""
        try:
            if guest.session is not None:
                guest.session.accept(sequence.slot, accepted.tokens, accepted.backtrack)
        except SealhostError as error:
            self._fail(sequence, error)
        except Exception as error:  # noqa: BLE001 — clause 2.7: whatever it is, it concerns this choice alone
            self._fail(sequence, InternalError("sampler", f"expected it to accept ids, got: {error}"))

    def _finish(self, sequence: Sequence, event: FinishEvent) -> None:
        self._tally.finished += 1
        self._end(sequence)
        self._emit(sequence, event, last=True)

    def _fail_guest(self, guest: Guest, error: SealhostError) -> None:
        """Ends all choices that a sandbox serves (clause 2.7)."""
        for sequence in tuple(guest.members.values()):
            self._fail(sequence, error)

    def _fail(self, sequence: Sequence, error: SealhostError) -> None:
        if sequence.done:
            return
        self._tally.failed += 1
        try:
            self._end(sequence)
        finally:
            self._emit(sequence, ErrorEvent(sequence.request.id, error), last=True)

    def _end(self, sequence: Sequence) -> None:
        """Takes a sequence out of everything; its blocks are free when this returns."""
        sequence.done = True
        self._sequences.pop(sequence.request.id)
        self._scheduler.remove(sequence)
        self._groups.leave(sequence)
        self._ended(sequence.request.id)

    def _emit(self, sequence: Sequence, event: Event, *, last: bool = False) -> None:
        """Hands an event to its client; one that raises is gone, and its request with it."""
        if sequence.done and not last:
            return
        try:
            sequence.sink(event)
        except Exception:
            log.exception("the sink of request %s failed", sequence.request.id)
            if not sequence.done:
                self._tally.cancelled += 1
                self._end(sequence)

    def _publish(self) -> None:
        """Replaces the snapshot that other threads read."""
        self.stats = self._tally.snapshot(self._scheduler)


def _asks(runs: list[Run]) -> dict[Guest, list[Ask]]:
    """What each guest is asked for after a step, by slot."""
    asks: dict[Guest, list[Ask]] = {}
    for sequence, _, draws in runs:
        if draws and sequence.guest is not None:
            forced = sequence.forced[0] if sequence.forced else None
            asks.setdefault(sequence.guest, []).append(Ask(sequence, forced))
    for wanted in asks.values():
        wanted.sort(key=_slot)
    return asks


def _slot(ask: Ask) -> int:
    return ask.sequence.slot


def _logits_address(sequence: Sequence) -> int | None:
    session = None if sequence.guest is None else sequence.guest.session
    return None if session is None else session.logits_address(sequence.slot)


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

    def snapshot(self, scheduler: Scheduler) -> EngineStats:
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_free_blocks=scheduler.pool.free,
            kv_total_blocks=scheduler.pool.total,
            window_free_blocks=scheduler.windows.pool.free,
            window_total_blocks=scheduler.windows.pool.total,
            window_most_blocks=scheduler.windows.most,
            steps=self.steps,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            preemptions=scheduler.preemptions,
            finished=self.finished,
            failed=self.failed,
            cancelled=self.cancelled,
            model_seconds=self.model_seconds,
            guest_seconds=self.guest_seconds,
            turn_seconds=self.turn_seconds,
        )
