"""A sampler that is being tried, and how a trial puts questions to it.

tried = Rows.of(sampler, {"words": ["no"]}, heard=[])
tried.ask(logits, SamplingParams(), prompt=[1, 2], generated=[3])   # Decision, or "empty"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...sandbox import Decision, GuestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ...sandbox import SamplerPlugin, SamplerSession, SamplingParams, Sandbox, Vocabulary
    from .plugin_folder import AuthoredPlugin

    Row: TypeAlias = NDArray[np.float32]

Answer: TypeAlias = Decision | Literal["empty"]
Config: TypeAlias = Mapping[str, Any] | None

VOCABULARY = 512
"""Logits of a trial's row."""

LARGEST_VOCABULARY = 262_144
"""Logits of the largest model in use."""

MAX_HEARD = 64
"""Pieces of a guest's log that are kept: the last ones."""


class Loads(NamedTuple):
    """Loads a sampler for rows of any length.

    Args:
        sandbox: Runs it.
        plugin: The sampler.
        words: What it gets if it asks for the vocabulary; then that decides the rows' length.
    """

    sandbox: Sandbox
    plugin: AuthoredPlugin
    words: Vocabulary

    def __call__(self, size: int) -> SamplerPlugin:
        """For rows of `size` logits, or fewer where the guest has less room.

        Raises:
            AdmissionError: Naming the clause.
        """
        least = self.sandbox.load_sampler(self.plugin, 1, self.words)
        size = len(self.words.texts) if least.takes_vocabulary else size
        return self.sandbox.load_sampler(self.plugin, min(size, least.vocab_capacity), self.words)


def random_logits(numbers: np.random.Generator, size: int) -> Row:
    """As a model might give them."""
    return numbers.normal(0, 4, size).astype(np.float32)


def shown(answer: Answer) -> str:
    """An answer in a few words."""
    if isinstance(answer, str):
        return answer
    if answer.stop:
        return "stop"
    ids = " ".join(map(str, answer.tokens)) or "nothing"
    return f"{answer.backtrack} back, then {ids}" if answer.backtrack else ids


class Rows(NamedTuple):
    """A sampler, its configuration as bytes, and where its log goes."""

    sampler: SamplerPlugin
    config: bytes
    heard: list[str]

    @classmethod
    def of(cls, sampler: SamplerPlugin, config: Config, heard: list[str]) -> Rows:
        """Checks the configuration against the schema.

        Raises:
            SandboxError: Naming the value that does not fit.
        """
        return cls(sampler, sampler.config_bytes(config), heard)

    @property
    def size(self) -> int:
        """Logits of a row."""
        return self.sampler.vocab_size

    def session(self, params: SamplingParams, prompt: Sequence[int], choices: Sequence[int] = (0,)) -> SamplerSession:
        """A fresh instance with this configuration."""
        return self.sampler.session(params, prompt, choices=choices, config=self.config)

    def full(self, logits: Sequence[float]) -> Row:
        """A row that begins with these logits; the others are -inf."""
        row = np.full(self.size, -np.inf, np.float32)
        row[: len(logits)] = logits
        return row

    def ask(
        self, logits: Row, params: SamplingParams, prompt: Sequence[int] = (), generated: Sequence[int] = ()
    ) -> Answer:
        """One step in a fresh instance."""
        with self.session(params, prompt) as session:
            session.accept(0, generated)
            return self.step(session, {0: logits}).get(0, "empty")

    def step(self, session: SamplerSession, logits: Mapping[int, Row]) -> dict[int, Decision]:
        """One step of some slots, by slot; nothing when one of them found no token."""
        slots = tuple(logits)
        try:
            session.prepare(slots)  # a guest of the mask tier may find nothing here already
            for slot, row in logits.items():
                session.logits(slot)[:] = row
            found = session.step(slots)
        except GuestError as error:
            if error.kind == "empty":
                return {}
            raise
        finally:
            if said := session.log():
                self.heard.append(said)
                del self.heard[:-MAX_HEARD]
        return dict(zip(slots, found, strict=True))

    def play(self, session: SamplerSession, seed: int, steps: int) -> list[Decision]:
        """The decisions of a sequence of random rows in slot 0, each of them accepted, up to its end."""
        decisions = []
        for step in range(steps):
            found = self.step(session, {0: random_logits(np.random.default_rng((seed, step)), self.size)})
            if not found:
                break
            decisions.append(found[0])
            if found[0].stop:
                break
            session.accept(0, found[0].tokens, found[0].backtrack)
        return decisions
