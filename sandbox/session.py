"""One request's instance of a sampler, with a slot for each of its choices (README §8).

    with sampler.session(params, prompt_ids, choices=(0, 1)) as session:
        …                                        # the last matrix product writes at session.logits_address(0) and (1)
        one, two = session.step((0, 1))          # Decision(tokens=(42,)), Decision(tokens=(), stop=True)
        session.accept(0, one.tokens, one.backtrack)
        session.close_slot(1)

A session is used by one thread at a time. Never call `step` or `prepare` on an event loop.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import numpy as np

from ..signing.errors import escape_for_terminal
from . import abi, sampling
from .candidates import CANDIDATE, best, checked
from .decision import AnswerError, AnswerReader, Decision, one
from .errors import GuestError, SandboxError
from .log_ring import LogRing
from .memory import host_rows
from .randomness import begun
from .slot import RowConstants, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from .decision import Answer, Draw
    from .instance import Instance
    from .record import Ticket
    from .terms import Guest, Terms

log = logging.getLogger(__name__)

# plain integers: an enumeration's operators cost a microsecond each in the step
_OK, _TOKEN = int(abi.Status.OK), int(abi.Action.TOKEN)
_SAMPLE, _CLOSE = int(abi.RowFlag.SAMPLE), int(abi.RowFlag.CLOSE)
_ROW = abi.ROW.size
_WORDS = abi.RESULT.size // 8
"""A result as u64: an item of a view costs a third of a slice or an unpacked struct."""

_LOW: Final = (1 << 32) - 1
_PLAIN: Final = abi.RESULT.size | _TOKEN << 32
"""First word of what nearly all results are: size and action of an id."""

_NOTHING: Final = memoryview(b"")
"""What a closed session holds instead of views of guest memory."""

LOG_TAIL: Final = 100
"""Characters of its log that are told when a guest fails: the end is what matters, and an error is one line."""

MAX_LOGGED_BYTES: Final = 64 << 10
"""Of one session's log that go to the host's debug log, however much the guest writes."""


class SamplerSession:
    """Made by `SamplerPlugin.session`.

    Args:
        instance: Fresh, of the plugin's program; closed with the session.
        guest: What all sessions of the plugin share.
        terms: What this one is about.
        ticket: Its place in the plugin's record; closed with the session.
    """

    def __init__(self, instance: Instance, guest: Guest, terms: Terms, ticket: Ticket) -> None:
        layout, memory = guest.layout, instance.memory
        self._instance = instance
        self._ticket = ticket
        self._guest = guest
        self._calling = threading.Lock()  # clause 4.2: from before a call of the guest until its answer has been read
        self._history_capacity = layout.history_capacity
        self._vocab_size = guest.vocab_size
        self._params = terms.params
        self._prompt_length = len(terms.prompt)
        self._rows = memory.buffer(layout.rows, layout.max_rows * _ROW)
        self._results = memory.buffer(layout.results, layout.max_rows * abi.RESULT.size).cast("Q")
        self._slots = self._make_slots(terms)
        self._closing: list[Slot] = []
        self._is_announced = len(self._slots) == 1  # one slot is announced by its first row that wants an answer
        for index, (token, bias) in enumerate(terms.params.logit_bias):
            memory.pack(abi.BIAS, layout.bias + index * abi.BIAS.size, token, bias)
        if terms.config:
            memory.write(layout.config, terms.config)
        self._reader = AnswerReader(memory, layout, guest.tier, guest.vocab_size)
        self._is_full = guest.tier.name == "full"
        self._host_logits = None if self._is_full else host_rows(len(terms.choices), guest.vocab_size)
        self._addresses = (
            [memory.base() + layout.logits + slot.number * layout.logits_stride for slot in self._slots]
            if self._host_logits is None
            else [row.ctypes.data for row in self._host_logits]
        )
        self._sole: Slot | None = self._slots[0] if self._is_full and len(self._slots) == 1 else None
        self._log = LogRing(memory, layout.log)
        self._may_log = MAX_LOGGED_BYTES if log.isEnabledFor(logging.DEBUG) else 0

    def _make_slots(self, terms: Terms) -> list[Slot]:
        layout = self._guest.layout
        size = 4 * layout.history_capacity
        constants = RowConstants.of(
            terms.params,
            vocab_size=self._guest.vocab_size,
            prompt_length=len(terms.prompt),
            config_length=len(terms.config),
            max_backtrack=self._guest.max_backtrack,
        )
        slots = []
        for number, choice in enumerate(terms.choices):
            history = self._instance.memory.buffer(layout.history + number * size, size).cast("I")
            history[: len(terms.prompt)] = terms.prompt.data
            slots.append(Slot(number, begun(terms.params.seed, choice), history, constants))
        return slots

    def logits_address(self, slot: int) -> int:
        """Where a slot's logits go: float32[vocab_size] in this process, page-aligned; valid until `close`.

        Guest memory in the full tier, the host's own in the others.
        """
        self._find(slot)
        return self._addresses[slot]

    def logits(self, slot: int) -> NDArray[np.float32]:
        """A live view of a slot's logits. Shape: (vocab_size,), float32. Take it anew, never keep it past `close`."""
        self._find(slot)
        if self._host_logits is not None:
            return self._host_logits[slot]
        layout = self._guest.layout
        at = layout.logits + slot * layout.logits_stride
        return self._instance.memory.array(at, self._guest.vocab_size, np.float32)

    def prepare(self, slots: Sequence[int]) -> None:
        """In the mask tier, asks the guest for its answers before the logits exist; in the others does nothing.

        May run while the model works. Slots whose answer is there already are not asked again.

        Raises:
            GuestError: When the guest fails, or answers what it may not.
            SandboxError: As in `step`.
        """
        if self._guest.tier.name != "mask":
            return
        if not self._calling.acquire(False):
            raise self._instance.in_use()
        try:
            self._prepare([self._find(slot) for slot in slots])
        except GuestError as error:
            raise self._failed(error) from None
        finally:
            self._calling.release()
        self._ticket.prove()

    def _prepare(self, slots: list[Slot]) -> list[Answer]:
        missing = [slot for slot in slots if slot.answer is None]
        if missing:
            for slot, answer in zip(missing, self._ask(missing), strict=True):
                slot.answer = answer
        return [slot.answer for slot in slots if slot.answer is not None]

    def step(self, slots: Sequence[int] = (0,)) -> list[Decision]:
        """Decides what these slots do next, from the logits that now lie in their rows.

        Args:
            slots: Each once, none of them closed.

        Returns:
            One decision for each slot, in their order.

        Raises:
            GuestError: When the guest fails, answers what it may not, or no token can be drawn: the session is dead.
            SandboxError: When the session is closed, dead, or in use on another thread, or a slot is not there.
        """
        if not self._calling.acquire(False):  # by name it costs half as much again
            raise self._instance.in_use()
        try:
            slot = self._sole
            if slot is None or not slot.is_open or len(slots) != 1 or slots[0] != 0:
                return self._step_all(slots)
            results = self._results
            slot.tell(self._rows, 0, _SAMPLE)
            results[0] = results[1] = 0  # clause 8.1
            status = self._instance.call("step", 1)
            first, second = results[0], results[1]  # once: what is checked is what is used
            token = second & _LOW
            if status == _OK and first == _PLAIN and token < self._vocab_size and not self._may_log:
                decision = one(token)
            else:
                decision = self._decide(slot, status, first, second)
        except GuestError as error:
            raise self._failed(error) from None
        finally:
            self._calling.release()
        if not self._ticket.is_proved:
            self._ticket.prove()
        return [decision]

    def _step_all(self, slots: Sequence[int]) -> list[Decision]:
        """`step` for any slots in any tier; one alone in the full tier, which most steps are of, looks up less."""
        wanted = [self._find(slot) for slot in slots]
        if len(set(slots)) < len(slots):
            raise self._misuse("expected each slot once, got one twice")
        decisions: list[Decision] = []
        for answer in self._ask(wanted) if self._is_full else self._answers(wanted):
            if isinstance(answer, Decision):
                decisions.append(answer)
            else:
                decisions.append(self._draw(wanted[len(decisions)], answer))
        if not self._ticket.is_proved:
            self._ticket.prove()
        return decisions

    def _decide(self, slot: Slot, status: int, first: int, second: int) -> Decision:
        """What an answer comes to that is not plainly an id; takes the result's words, which were copied."""
        self._look_at("step", status)
        answer = self._read(slot, (first & _LOW, first >> 32, second & _LOW, second >> 32))
        return answer if isinstance(answer, Decision) else self._draw(slot, answer)

    def _answers(self, slots: list[Slot]) -> list[Answer]:
        """What the guest says in the tiers in which it does not see all logits."""
        if self._guest.tier.name == "mask":
            answers = self._prepare(slots)
            for slot in slots:
                slot.answer = None
            return answers
        for slot in slots:
            self._offer(slot)
        return self._ask(slots)

    def _offer(self, slot: Slot) -> None:
        """Writes the best candidates of a slot into the guest's memory."""
        layout = self._guest.layout
        found = best(self.logits(slot.number), self._guest.tier.candidates)
        at = layout.candidates + slot.number * layout.candidate_capacity * abi.CANDIDATE.size
        self._instance.memory.write(at, found.tobytes())
        slot.candidates = len(found)

    def _ask(self, slots: list[Slot]) -> list[Answer]:
        """Calls the guest for these slots' answers, and tells it of those that have ended."""
        rows, results = self._rows, self._results
        if not self._is_announced:
            self._announce()
        at = 0
        for slot in slots:
            slot.tell(rows, at, _SAMPLE)
            at += _ROW
        if self._closing:
            for slot in self._closing:
                slot.tell(rows, at, _CLOSE)
                at += _ROW
            self._closing = []
        for word in range(len(slots) * _WORDS):
            results[word] = 0  # clause 8.1: no answer of an earlier step
        status = self._instance.call("step", at // _ROW)
        if status != _OK or self._may_log:
            self._look_at("step", status)
        vocab_size = self._vocab_size
        answers: list[Answer] = []
        at = 0
        for slot in slots:
            first, second = results[at], results[at + 1]  # once: what is checked is what is used
            at += _WORDS
            token = second & _LOW
            if first == _PLAIN and token < vocab_size:
                answers.append(one(token))
            else:
                answers.append(self._read(slot, (first & _LOW, first >> 32, token, second >> 32)))
        return answers

    def _announce(self) -> None:
        """Tells the guest of all slots before the first answer is asked for: the others are copies of the first."""
        for slot in self._slots:
            slot.tell(self._rows, slot.number * _ROW, 0)
        self._call("step", len(self._slots))
        self._is_announced = True

    def _read(self, slot: Slot, raw: tuple[int, int, int, int]) -> Answer:
        left = self._history_capacity - slot.length
        try:
            return self._reader.read(slot.number, raw, slot.room, left)
        except AnswerError as error:
            raise self._invalid(str(error)) from None

    def _call(self, function: str, *arguments: int) -> None:
        self._look_at(function, self._instance.call(function, *arguments))

    def _look_at(self, function: str, status: int) -> None:
        """What a call that came back has to say, in its log and by its status."""
        if self._may_log:
            self._log_news()
        if status == _OK:
            return
        if status > abi.ERROR:
            raise self._invalid(f"expected status 0 or an error from {function}, got {status}", function)
        layout = self._guest.layout
        raise self._instance.guest_error(function, status, layout.error, layout.error_capacity)

    def _draw(self, slot: Slot, how: Draw) -> Decision:
        """The host's own draw, as the answer says."""
        history = slot.past()
        if slot.length and int(history.max()) >= self._guest.vocab_size:  # the guest can write there too
            raise self._invalid("expected the history as the host wrote it, got another")
        past = (history, self._prompt_length, slot.word)
        try:
            if how.edited and self._guest.tier.candidates:
                return Decision((sampling.sample_among(self._edited_candidates(slot), self._params, *past),))
            logits = self.logits(slot.number)
            if how.edited and np.isnan(logits).any():
                raise self._invalid("expected numbers in the edited logits, got NaN")
            token = sampling.sample(logits, self._params, *past, bias=how.bias, allowed=how.allowed)
        except sampling.EmptyError:
            self._instance.fail("one without a candidate")
            who = "what the guest left of the logits" if how.edited or how.allowed is not None else "the logits"
            raise GuestError(self._plugin, "empty", f"no token can be drawn from {who}", "allow some token") from None
        return Decision((token,))

    def _edited_candidates(self, slot: Slot) -> NDArray[np.void]:
        layout = self._guest.layout
        at = layout.candidates + slot.number * layout.candidate_capacity * abi.CANDIDATE.size
        copied = self._instance.memory.read(at, slot.candidates * abi.CANDIDATE.size)
        try:
            return checked(np.frombuffer(copied, CANDIDATE), self._guest.vocab_size)
        except AnswerError as error:
            raise self._invalid(str(error)) from None

    def accept(self, slot: int, tokens: Sequence[int], backtrack: int = 0) -> None:
        """Takes `backtrack` generated ids off a slot's history, then appends ids: what stands, whoever chose it.

        Raises:
            SandboxError: When an id is out of range, the history is full, an id is taken back that stands for good, or
                the slot or the session is closed.
        """
        found = self._sole
        if found is None or slot != 0 or not found.is_open:
            found = self._find(slot)
        vocab_size = self._vocab_size
        if backtrack and not 0 <= backtrack <= found.room:
            raise self._misuse(f"expected to take back at most {found.room} ids, got {backtrack}")
        if found.length - backtrack + len(tokens) > self._history_capacity:
            raise self._misuse(f"expected at most {self._history_capacity} ids of history, got more")
        for token in tokens:
            if not 0 <= token < vocab_size:
                raise self._misuse(f"expected a token below {vocab_size}, got {token}")
        try:
            found.change(tokens, backtrack)
        except ValueError:  # closed meanwhile
            raise self._closed() from None

    def close_slot(self, slot: int) -> None:
        """Ends a choice; the guest is told with the next step. Idempotent.

        Raises:
            SandboxError: When there is no such slot, or the session is closed.
        """
        found = self._find(slot, closed=True)
        if found.is_open:
            found.is_open = False
            self._closing.append(found)

    def log(self) -> str:
        """What the guest has written into its log since the last time, unescaped."""
        return self._log.news()

    def reset(self) -> None:
        """Takes the guest to its state after `init`, all slots open, their histories back to the prompt.

        Raises:
            GuestError: When the guest fails.
            SandboxError: When the session is closed, dead, or in use on another thread.
        """
        if not self._slots:
            raise self._closed()
        try:
            self._call("reset")
        except GuestError as error:
            raise self._failed(error) from None
        for slot in self._slots:
            slot.begin()
        self._closing = []
        self._is_announced = len(self._slots) == 1

    def close(self) -> None:
        """Ends the session; views of its memory are dropped first. Idempotent.

        Waits for a `step` or `prepare` on another thread to its end: until then that reads the memory that goes here.
        """
        with self._calling:
            self._rows = self._results = _NOTHING
            self._host_logits = None
            self._sole = None
            while self._slots:  # none is how a closed session is told from an open one
                self._slots.pop().close()
            self._instance.close()
        self._ticket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, slot: int, *, closed: bool = False) -> Slot:
        """An open slot; with `closed` also one that has ended."""
        if 0 <= slot < len(self._slots):
            found = self._slots[slot]
            if found.is_open or closed:
                return found
            raise self._misuse(f"expected an open slot, got {slot}, which is closed")
        if not self._slots:
            raise self._closed()
        raise self._misuse(f"expected a slot below {len(self._slots)}, got {slot}")

    @property
    def _plugin(self) -> str:
        return self._instance.program.plugin

    def _failed(self, error: GuestError) -> GuestError:
        """Notes what the session ended by, and adds what the guest's log says last."""
        self._ticket.fail(error)
        said = self._log.tail(LOG_TAIL)
        if not said:
            return error
        told = f'{error.reason}; its log ends with "{said}"'
        return GuestError(error.plugin, error.kind, told, error.remedy)

    def _log_news(self) -> None:
        """Hands what the guest has to say to the host's debug log, line by line (clause 8.9)."""
        said = self._log.news()
        for line in said[: self._may_log].splitlines():
            log.debug("plugin %s: %s", self._plugin, escape_for_terminal(line))
        self._may_log = max(self._may_log - len(said), 0)

    def _invalid(self, problem: str, function: str = "step") -> GuestError:
        self._instance.fail("one that answered what it may not")
        return GuestError(self._plugin, "invalid", f"{function}: {problem}")

    def _misuse(self, problem: str) -> SandboxError:
        return SandboxError(f"plugin {self._plugin}", problem, "end the choice")

    def _closed(self) -> SandboxError:
        return SandboxError(f"plugin {self._plugin}", "expected an open session, got a closed one", "start a new one")
