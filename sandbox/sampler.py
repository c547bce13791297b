"""A sampler in the sandbox: loaded once, with an instance for each request (README §8).

sampler.tier, sampler.max_rows                     # "full", 4
with sampler.session(SamplingParams(temperature=0.7, seed=1), prompt_ids, choices=(0, 1)) as session: …
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from . import abi
from .admission import refusal
from .config_schema import WHERE, ConfigSchema, bad_config, serialised
from .errors import AdmissionError, GuestError, SandboxError
from .instance import Instance
from .layout import LayoutError, SamplerLayout
from .record import PluginRecord
from .recording import RecordedSession, head_of
from .session import SamplerSession
from .terms import Guest, Terms
from .tier import Tier
from .token_table import TAKES_VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from .instance import Program
    from .limits import Limits
    from .params import SamplingParams
    from .plugin import Plugin
    from .record import PluginStats
    from .recording import Recorder


class SamplerPlugin:
    """A loaded sampler.

    Args:
        plugin: What was admitted.
        program: The snapshot after `init`.
        layout: What the guest published, checked; here it is held to the tier that the manifest says.
        vocab_size: Logits of the model.
        takes_vocabulary: Whether it was given the vocabulary when it was loaded.

    Raises:
        AdmissionError: When the guest's areas do not fit its tier or the vocabulary.
    """

    def __init__(
        self, plugin: Plugin, program: Program, layout: SamplerLayout, *, vocab_size: int, takes_vocabulary: bool
    ) -> None:
        name, tier = plugin.name, Tier.parse(plugin.tier)
        try:
            layout.check_tier(tier)
        except LayoutError as error:
            raise refusal(name, "1.15", str(error)) from None
        if vocab_size > layout.vocab_capacity:
            problem = f"expected room for {vocab_size} logits, got vocab_capacity {layout.vocab_capacity}"
            raise refusal(name, "1.15", problem)
        self.name = name
        self.sha256 = plugin.sha256
        self.vocab_size = vocab_size
        self.tier = str(tier)
        self.takes_vocabulary = takes_vocabulary
        self.max_rows = layout.max_rows
        self.max_backtrack = min(layout.max_backtrack, program.engine.allowed.max_backtrack)
        self._program = program
        self._layout = layout
        self._guest = Guest(layout, tier, vocab_size, self.max_backtrack)
        self._schema = None if plugin.config_schema is None else ConfigSchema(plugin.config_schema)
        self._record = PluginRecord(name, program.engine.allowed, program.engine.clock)
        self._recorder: Recorder | None = None

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
        self, params: SamplingParams, prompt_ids: Sequence[int], *, choices: Sequence[int] = (0,), config: bytes = b""
    ) -> SamplerSession:
        """Starts a fresh instance for one request.

        Args:
            params: Of the request.
            prompt_ids: The prompt.
            choices: Which choice each slot serves, at least one and at most `max_rows`; part of the randomness.
            config: Bytes for the guest: what `config_bytes` made.

        Raises:
            SandboxError: When an id is out of range or something exceeds the guest's capacity.
            GuestError: When no instance can be started, the plugin is quarantined, or it has no place left.
        """
        prompt = self._checked_history(prompt_ids)
        if not 1 <= len(choices) <= self.max_rows:
            problem = f"expected 1 to {self.max_rows} choices in a session, got {len(choices)}"
            raise SandboxError(f"plugin {self.name}", problem, "start a session for each")
        self._require("bytes of config", len(config), self._layout.config_capacity)
        self._require("logit_bias entries", len(params.logit_bias), self._layout.bias_capacity)
        for token, _ in params.logit_bias:
            if token >= self.vocab_size:
                problem = f"expected logit_bias ids below {self.vocab_size}, got {token}"
                raise SandboxError(f"plugin {self.name}", problem, "change the request")
        ticket = self._record.admit()
        try:
            terms = Terms(params, prompt, tuple(choices), config)
            recorder, self._recorder = self._recorder, None
            if recorder is None:
                return SamplerSession(Instance(self._program, self._record), self._guest, terms, ticket)
            head = head_of(self.name, self.sha256, self.tier, self.vocab_size, terms)
            return RecordedSession((Instance(self._program, self._record), self._guest, terms, ticket), recorder, head)
        except BaseException:
            ticket.close()
            raise

    def record(self, recorder: Recorder) -> None:
        """Lets the next session be recorded (README §11)."""
        self._recorder = recorder

    def _checked_history(self, prompt_ids: Sequence[int]) -> NDArray[np.uint32]:
        self._require("ids of history", len(prompt_ids), self._layout.history_capacity)
        least, most = min(prompt_ids, default=0), max(prompt_ids, default=0)
        if not 0 <= least <= most < self.vocab_size:
            problem = f"expected prompt ids within 0..{self.vocab_size - 1}, got {least}..{most}"
            raise SandboxError(f"plugin {self.name}", problem, "change the request")
        return np.frombuffer(
            array("I", prompt_ids), np.uint32
        )  # reductions of numpy cost a short prompt several times this

    def _require(self, what: str, found: int, capacity: int) -> None:
        if found > capacity:
            problem = f"expected at most {capacity} {what}, got {found}"
            raise SandboxError(f"plugin {self.name}", problem, "shorten the request, or use a sampler with more room")


def prepare(instance: Instance, words: bytes | None = None) -> SamplerLayout:
    """Takes a first instance through `sealhost_sampler_v1`, `vocabulary`, `init` and `layout`.

    Args:
        instance: Fresh.
        words: `token_table` for a guest that asks for it; None: this one does not.

    Raises:
        AdmissionError: Clauses 1.14 and 1.15.
        GuestError: When a call traps or takes too long.
    """
    name = instance.program.plugin
    minor = instance.call("sealhost_sampler_v1")
    if not 0 <= minor <= abi.ABI_MINOR:
        raise refusal(name, "1.14", f"expected ABI minor 0..{abi.ABI_MINOR}, got {minor}")
    given = (0, 0) if words is None else (_give(instance, words), len(words))
    status = instance.call("init")
    if status != abi.Status.OK:
        raise refusal(name, "1.15", _why_not(instance, given, status))
    return _layout(instance, given)


def _why_not(instance: Instance, given: tuple[int, int], status: int) -> str:
    """What a guest says of its failed `init`, if its layout tells where that stands."""
    if status <= abi.ERROR:
        with suppress(AdmissionError, GuestError):
            layout = _layout(instance, given)
            return instance.guest_error("init", status, layout.error, layout.error_capacity).reason
    return f"expected status 0 from init, got {status}"


def _layout(instance: Instance, given: tuple[int, int]) -> SamplerLayout:
    """What the guest publishes, checked; `given`: offset and size of the vocabulary that it has."""
    at = instance.call("layout") & 0xFFFFFFFF
    size = instance.memory.size
    try:
        SamplerLayout.check_offset(at, size)
        return SamplerLayout.parse(instance.memory.read(at, abi.SAMPLER_LAYOUT.size), at, size, given)
    except LayoutError as error:
        raise refusal(instance.program.plugin, "1.15", str(error)) from None


def _give(instance: Instance, words: bytes) -> int:
    """Writes the vocabulary where the guest wants it, and tells where that is: clause 6.4."""
    at = instance.call(TAKES_VOCABULARY, len(words)) & 0xFFFFFFFF
    if at == 0:
        problem = f"expected room for {len(words)} bytes of vocabulary, got none: vocabulary answered 0"
        raise refusal(instance.program.plugin, "1.15", problem)
    if at % 8 or at + len(words) > instance.memory.size:
        problem = f"expected an 8-aligned place for {len(words)} bytes of vocabulary, got {at:#x}"
        raise refusal(instance.program.plugin, "1.15", problem)
    instance.memory.write(at, words)
    return at
