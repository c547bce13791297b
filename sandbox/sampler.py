"""A sampler in the sandbox (README §8).

    with sampler.session(SamplingParams(temperature=0.7, seed=1), prompt_ids) as session:
        …                                 # the last matrix product writes at session.logits_address
        decision = session.step()         # Decision(token=42, stop=False)
        session.accept(decision.token)

A session is used by one thread at a time. Never call `step` on an event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import abi, sampling
from .admission import refusal
from .config_schema import WHERE, bad_config, serialised
from .errors import GuestError, SandboxError
from .instance import Instance
from .layout import LayoutError, SamplerLayout
from .randomness import draw
from .record import PluginRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from .config_schema import ConfigSchema
    from .instance import Program
    from .limits import Limits
    from .params import SamplingParams
    from .record import PluginStats, Ticket

_ONE_ROW = 1
"""A session is one choice: other choices of the request have instances of their own."""


_NO_RESULT = bytes(abi.RESULT.size)

# plain integers: an enumeration's operators cost a microsecond each in the step
_OK = int(abi.Status.OK)
_NEW, _ACCEPT, _SAMPLE = int(abi.RowFlag.NEW), int(abi.RowFlag.ACCEPT), int(abi.RowFlag.SAMPLE)
_TOKEN, _PASS = int(abi.Action.TOKEN), int(abi.Action.PASS)
_EDITED, _STOP = int(abi.Action.EDITED), int(abi.Action.STOP)


class Decision(NamedTuple):
    """What a step decided: a token, or the end of this choice."""

    token: int | None
    stop: bool


class SamplerPlugin:
    """A loaded sampler.

    Args:
        name: Of the plugin.
        sha256: Hex digest of its wasm.
        program: The snapshot after `init`.
        layout: What the guest published, checked.
        vocab_size: Logits of the model.
        schema: Of its configuration; None: it takes none.

    Raises:
        AdmissionError: When a row of the guest is too short for the vocabulary.
    """

    def __init__(
        self,
        name: str,
        sha256: str,
        program: Program,
        layout: SamplerLayout,
        vocab_size: int,
        schema: ConfigSchema | None = None,
    ) -> None:
        if vocab_size > layout.vocab_capacity:
            problem = f"expected room for {vocab_size} logits, got vocab_capacity {layout.vocab_capacity}"
            raise refusal(name, "1.15", problem)
        self.name = name
        self.sha256 = sha256
        self.vocab_size = vocab_size
        self._program = program
        self._layout = layout
        self._schema = schema
        self._record = PluginRecord(name, program.engine.allowed, program.engine.clock)

    def stats(self) -> PluginStats:
        """What it did so far (clause 10.4)."""
        return self._record.stats()

    @property
    def limits(self) -> Limits:
        """Effective limits."""
        return self._program.limits

    @property
    def history_capacity(self) -> int:
        """Ids that a session can hold: prompt and generated."""
        return self._layout.history_capacity

    @property
    def vocab_capacity(self) -> int:
        """Logits that the guest has room for."""
        return self._layout.vocab_capacity

    def config_bytes(self, config: Mapping[str, Any] | None) -> bytes:
        """Checks the configuration of a request (clauses 9.2 to 9.4).

        Args:
            config: A JSON object; None: the request has none.

        Returns:
            What `session` takes as `config`.

        Raises:
            SandboxError: Naming the value that does not fit.
        """
        if self._schema is None:
            if config is not None:
                raise bad_config(WHERE, f"expected none, because {self.name} takes no configuration, got one")
            return b""
        if config is None:
            self._schema.check({})
            return b""
        raw = serialised(config)
        if len(raw) > self._layout.config_capacity:
            capacity = self._layout.config_capacity
            raise bad_config(WHERE, f"expected at most {capacity} bytes of JSON for {self.name}, got {len(raw)}")
        self._schema.check(config)
        return raw

    def session(
        self, params: SamplingParams, prompt_ids: Sequence[int], *, choice: int = 0, config: bytes = b""
    ) -> SamplerSession:
        """Starts a fresh instance for one choice of one request.

        Args:
            params: Of the request.
            prompt_ids: The prompt.
            choice: Index of the choice; part of the randomness.
            config: Bytes for the guest: what `config_bytes` made.

        Raises:
            SandboxError: When an id is out of range or something exceeds the guest's capacity.
            GuestError: When no instance can be started, the plugin is quarantined, or it has no place left.
        """
        history = self._checked_history(prompt_ids)
        self._require("bytes of config", len(config), self._layout.config_capacity)
        self._require("logit_bias entries", len(params.logit_bias), self._layout.bias_capacity)
        for token, _ in params.logit_bias:
            if token >= self.vocab_size:
                problem = f"expected logit_bias ids below {self.vocab_size}, got {token}"
                raise SandboxError(f"plugin {self.name}", problem, "change the request")
        request = _Request(params, history, choice, config, self._record.admit())
        try:
            return SamplerSession(Instance(self._program), self._layout, self.vocab_size, request)
        except BaseException:
            request.ticket.close()
            raise

    def _checked_history(self, prompt_ids: Sequence[int]) -> NDArray[np.uint32]:
        self._require("ids of history", len(prompt_ids), self._layout.history_capacity)
        ids = np.asarray(prompt_ids, dtype=np.int64)
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocab_size:
            problem = f"expected prompt ids within 0..{self.vocab_size - 1}, got {int(ids.min())}..{int(ids.max())}"
            raise SandboxError(f"plugin {self.name}", problem, "change the request")
        return ids.astype(np.uint32)

    def _require(self, what: str, found: int, capacity: int) -> None:
        if found > capacity:
            problem = f"expected at most {capacity} {what}, got {found}"
            raise SandboxError(f"plugin {self.name}", problem, "shorten the request, or use a sampler with more room")


class _Request(NamedTuple):
    params: SamplingParams
    prompt: NDArray[np.uint32]
    choice: int
    config: bytes
    ticket: Ticket


class SamplerSession:
    """One choice of one request; made by `SamplerPlugin.session`."""

    def __init__(self, instance: Instance, layout: SamplerLayout, vocab_size: int, request: _Request) -> None:
        self._instance = instance
        self._ticket = request.ticket
        self._layout = layout
        self._vocab_size = vocab_size
        self._params = request.params
        self._choice = request.choice
        self._prompt_length = len(request.prompt)
        self._length = len(request.prompt)
        self._flags = _NEW
        memory = instance.memory
        self._history: NDArray[np.uint32] | None = memory.array(layout.history, layout.history_capacity, np.uint32)
        self._history[: self._length] = request.prompt
        for index, (token, bias) in enumerate(request.params.logit_bias):
            memory.pack(abi.BIAS, layout.bias + index * abi.BIAS.size, token, bias)
        memory.write(layout.config, request.config)
        self._row: memoryview | None = memory.array(layout.rows, abi.ROW.size, np.uint8).data
        self._result: memoryview | None = memory.array(layout.results, abi.RESULT.size, np.uint8).data
        self._constants = self._row_constants(request)

    def _row_constants(self, request: _Request) -> tuple[tuple[int, int], tuple[float, ...]]:
        """The fields of the row that stay the same: (bias_count, config_length) and the parameters."""
        p = request.params
        penalties = (p.repetition_penalty, p.presence_penalty, p.frequency_penalty)
        counts = (len(p.logit_bias), len(request.config))
        return counts, (p.temperature, p.row_top_k, p.top_p, p.min_p, *penalties, 0)

    @property
    def logits_address(self) -> int:
        """Address of the row of logits in this process: float32[vocab_size], page-aligned; valid until `close`."""
        return self._instance.memory.base() + self._layout.logits

    @property
    def logits(self) -> NDArray[np.float32]:
        """A live view of the row. Shape: (vocab_size,), float32. Take it anew, never keep it past `close`."""
        return self._instance.memory.array(self._layout.logits, self._vocab_size, np.float32)

    def step(self) -> Decision:
        """Asks for the next token, from the logits that now lie in the row.

        Raises:
            GuestError: When the guest fails, answers what it may not, or no token can be drawn.
            SandboxError: When the session is closed, dead, or in use on another thread.
        """
        try:
            decision = self._step()
        except GuestError as error:
            self._ticket.fail(error)
            raise
        self._ticket.prove()
        return decision

    def _step(self) -> Decision:
        if self._row is None or self._result is None:
            raise self._closed()
        words = draw(self._params.seed, self._choice, self._length)
        counts, parameters = self._constants
        abi.ROW.pack_into(
            self._row, 0, abi.ROW.size, 0, self._flags | _SAMPLE, self._vocab_size, *words,
            self._prompt_length, self._length, *counts, *parameters,
        )  # fmt: skip
        self._flags = 0
        self._result[:] = _NO_RESULT  # clause 8.1: no answer of an earlier step
        status = self._ticket.call(self._instance, "step", _ONE_ROW)
        if status != _OK:
            raise self._status_error("step", status)
        size, action, token, _ = abi.RESULT.unpack_from(self._result)
        return self._decide(size, action, token, words[0])

    def accept(self, token: int) -> None:
        """Appends a token to the history: the answer that stands, whoever chose it.

        Raises:
            SandboxError: When the id is out of range, the history is full, or the session is closed.
        """
        if self._history is None:
            raise self._closed()
        if not 0 <= token < self._vocab_size:
            raise self._misuse(f"expected a token below {self._vocab_size}, got {token}")
        if self._length == self._layout.history_capacity:
            raise self._misuse(f"expected at most {self._layout.history_capacity} ids of history, got one more")
        self._history[self._length] = token
        self._length += 1
        self._flags |= _ACCEPT

    def reset(self) -> None:
        """Takes the guest to its state after `init`, and the history back to the prompt.

        Raises:
            GuestError: When the guest fails.
            SandboxError: When the session is closed, dead, or in use on another thread.
        """
        if self._row is None:
            raise self._closed()
        try:
            status = self._ticket.call(self._instance, "reset")
            if status != _OK:
                raise self._status_error("reset", status)
        except GuestError as error:
            self._ticket.fail(error)
            raise
        self._length = self._prompt_length
        self._flags = _NEW

    def close(self) -> None:
        """Ends the session; views of its memory are dropped first. Idempotent."""
        self._history = self._row = self._result = None
        self._instance.close()
        self._ticket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decide(self, size: int, action: int, token: int, random_word: int) -> Decision:
        if size < abi.RESULT.size:
            raise self._invalid(f"expected a result of {abi.RESULT.size} bytes, got size {size}")
        if action == _TOKEN:
            if token >= self._vocab_size:
                raise self._invalid(f"expected a token below {self._vocab_size}, got {token}")
            return Decision(token, stop=False)
        if action == _STOP:
            return Decision(None, stop=True)
        if action in {_PASS, _EDITED}:
            return self._sample(random_word, edited=action == _EDITED)
        raise self._invalid(f"expected TOKEN, PASS, EDITED or STOP, got action {action}")

    def _sample(self, random_word: int, *, edited: bool) -> Decision:
        logits = self.logits
        if edited and np.isnan(logits).any():
            raise self._invalid("expected numbers in the edited logits, got NaN")
        history = self._instance.memory.array(self._layout.history, self._length, np.uint32)
        if self._length and int(history.max()) >= self._vocab_size:  # the guest can write there too
            raise self._invalid("expected the history as the host wrote it, got another")
        try:
            return Decision(
                sampling.sample(logits, self._params, history, self._prompt_length, random_word), stop=False
            )
        except sampling.EmptyError:
            self._instance.fail("one without a candidate")
            who = "the edited logits" if edited else "the logits"
            raise GuestError(self._plugin, "empty", f"no token can be drawn from {who}", "allow some token") from None

    def _status_error(self, function: str, status: int) -> GuestError:
        if status > abi.ERROR:
            return self._invalid(f"expected status 0 or an error from {function}, got {status}", function)
        return self._instance.guest_error(function, status, self._layout.error, self._layout.error_capacity)

    @property
    def _plugin(self) -> str:
        return self._instance.program.plugin

    def _invalid(self, problem: str, function: str = "step") -> GuestError:
        self._instance.fail("one that answered what it may not")
        return GuestError(self._plugin, "invalid", f"{function}: {problem}")

    def _misuse(self, problem: str) -> SandboxError:
        return SandboxError(f"plugin {self._plugin}", problem, "end the choice")

    def _closed(self) -> SandboxError:
        return SandboxError(f"plugin {self._plugin}", "expected an open session, got a closed one", "start a new one")


def prepare(instance: Instance) -> SamplerLayout:
    """Takes a first instance through `sealhost_sampler_v1`, `init` and `layout`.

    Raises:
        AdmissionError: Clauses 1.14 and 1.15.
        GuestError: When a call traps or takes too long.
    """
    name = instance.program.plugin
    minor = instance.call("sealhost_sampler_v1")
    if not 0 <= minor <= abi.ABI_MINOR:
        raise refusal(name, "1.14", f"expected ABI minor 0..{abi.ABI_MINOR}, got {minor}")
    status = instance.call("init")
    if status != abi.Status.OK:
        raise refusal(name, "1.15", f"expected status 0 from init, got {status}")
    at = instance.call("layout") & 0xFFFFFFFF
    try:
        SamplerLayout.check_offset(at, instance.memory.size)
        return SamplerLayout.parse(instance.memory.read(at, abi.SAMPLER_LAYOUT.size), at, instance.memory.size)
    except LayoutError as error:
        raise refusal(name, "1.15", str(error)) from None
