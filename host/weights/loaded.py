"""A model that is ready to run, with everything that came in its bundle.

Example:
    with loader.load(bundle, sandbox, backend, config) as loaded:
        ids = loaded.tokenizer.encode("Hello", add_special=True, parse_special=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from ...kernels.backend import DecoderSpec, Model
    from ...kernels.kv_type import KvType
    from ...sandbox import SamplingParams, Vocabulary
    from ..engine.session import Session


class Tokenizer(Protocol):
    """What is used of a sandboxed tokenizer."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of a text; thread-safe."""


class Sampler(Protocol):
    """What is used of a sandboxed sampler."""

    @property
    def tier(self) -> str:
        """When it answers and what it sees: "full", "topk:K" or "mask"."""

    @property
    def max_rows(self) -> int:
        """Choices that one sandbox holds."""

    @property
    def max_backtrack(self) -> int:
        """Ids that it may take back in one answer; 0: never any."""

    @property
    def history_capacity(self) -> int:
        """Ids that it can hold, prompt and answer together."""

    def config_bytes(self, config: Mapping[str, Any] | None) -> bytes:
        """Checks a request's configuration; what it raises names the value that does not fit."""

    def session(
        self, params: SamplingParams, prompt_ids: Sequence[int], *, choices: Sequence[int] = (0,), config: bytes = b""
    ) -> Session:
        """A fresh sandbox for some choices of one request, at most `max_rows`; slot i serves choices[i]."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Where the time and the memory of a load went.

    Attributes:
        parse_s: Reading metadata and vocabulary, seconds.
        pack_s: Repacking all tensors, seconds.
        plugins_s: Loading tokenizer and samplers, beside the repacking, seconds.
        finish_s: Allocating the KV pool and warming up, seconds.
        total_s: All of it, seconds.
        memory_bytes: Bytes that the model holds, by purpose.
    """

    parse_s: float
    pack_s: float
    plugins_s: float
    finish_s: float
    total_s: float
    memory_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A running model.

    Attributes:
        name: The bundle's name.
        digest: The bundle's SHA-256, hex.
        model: The backend's model.
        spec: Its hyperparameters.
        vocabulary: Texts, types and trusted spellings of all ids.
        tokenizer: The bundle's tokenizer plugin.
        samplers: Its sampler plugins by name, in the bundle's order.
        template: Chat template; None when there is none.
        end_ids: Ids that end an answer.
        context: Most tokens of one sequence that this process allows.
        kv_blocks: Blocks of the KV pool.
        kv_type: How keys and values are kept in it.
        report: Timings.
        window_blocks: Blocks of the KV pool for layers with a window; 0: no layer has one.
    """

    name: str
    digest: str
    model: Model
    spec: DecoderSpec
    vocabulary: Vocabulary
    tokenizer: Tokenizer
    samplers: Mapping[str, Sampler]
    template: str | None
    end_ids: frozenset[int]
    context: int
    kv_blocks: int
    kv_type: KvType
    report: LoadReport
    window_blocks: int = 0

    def close(self) -> None:
        """Stops the model and frees its memory; idempotent. The sandbox belongs to the caller."""
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
