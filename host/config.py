"""The operator's settings of a model and its engine, with the reason for each default.

Example:
    EngineConfig(context=4096, threads=4)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..kernels.kv_type import KvType
from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

MEBIBYTE = 1 << 20

DEFAULT_CONTEXT = 8192
"""Tokens of one sequence unless the operator says otherwise: long contexts cost KV memory that few requests use."""

DEFAULT_KV_BYTES = 512 * MEBIBYTE
"""Memory of the KV pool: one full context of an 8B model with 8-fold grouped heads, many of a small one."""

DEFAULT_STEP_TOKENS = 512
"""Most tokens in one step: past this, a product's speed no longer grows with its batch."""

DEFAULT_CHUNK_BESIDE_DECODE = 128
"""Most tokens in a step while some sequence is decoding: bounds how long one token can wait for a prefill."""

DEFAULT_MAX_SEQUENCES = 32
"""Most sequences in one step."""

DEFAULT_MAX_WAITING = 256
"""Most requests that wait; the next one is told to come back later instead of queueing without end."""

DEFAULT_CONNECTIONS = 1000
"""Most connections to the data plane: several times as many as requests can run and wait."""

MAX_CONNECTIONS = 100_000
"""Most that an operator may set: each costs some 10 KiB of memory here and in the kernel."""


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of one model and its engine.

    Attributes:
        context: Most tokens of one sequence, prompt and answer together; None: the model's own, at most
            DEFAULT_CONTEXT, less where the KV pool is smaller.
        max_sequences: Most sequences in one step.
        step_tokens: Most tokens in one step.
        chunk_beside_decode: Most tokens in a step that also decodes.
        max_waiting: Most requests that wait for a place.
        kv_bytes: Memory of the KV pool, bytes.
        kv_type: How keys and values are kept in it.
        threads: Threads of the backend; 0: one for each usable core.
        sampler_threads: Threads that run sampler guests beside each other; 0: one for each usable core.
    """

    context: int | None = None
    max_sequences: int = DEFAULT_MAX_SEQUENCES
    step_tokens: int = DEFAULT_STEP_TOKENS
    chunk_beside_decode: int = DEFAULT_CHUNK_BESIDE_DECODE
    max_waiting: int = DEFAULT_MAX_WAITING
    kv_bytes: int = DEFAULT_KV_BYTES
    kv_type: KvType = KvType.FLOAT16
    threads: int = 0
    sampler_threads: int = 0

    def __post_init__(self) -> None:
        for name in ("max_sequences", "step_tokens", "chunk_beside_decode", "max_waiting", "kv_bytes"):
            _at_least(name, getattr(self, name), 1)
        _at_least("threads", self.threads, 0)
        _at_least("sampler_threads", self.sampler_threads, 0)
        if self.context is not None:
            _at_least("context", self.context, 2)
        if self.step_tokens < self.max_sequences:
            # every decoding sequence must find a place in each step, or it would starve
            raise UsageError(
                "step_tokens",
                f"expected at least max_sequences ({self.max_sequences}), got {self.step_tokens}",
                "raise step_tokens",
            )

    @property
    def room(self) -> int:
        """Choices that an engine holds at a time, running or waiting."""
        return self.max_sequences + self.max_waiting

    @property
    def backend_threads(self) -> int:
        """Threads of the backend, with 0 resolved."""
        return self.threads or usable_cores()

    @property
    def guest_threads(self) -> int:
        """Threads for sampler guests, with 0 resolved; two at least, so that a slow guest never blocks all."""
        return self.sampler_threads or max(2, usable_cores())


@dataclass(frozen=True, slots=True)
class SamplerChoice:
    """The sampler that an operator has chosen for every request (clause 5.14 of host/README.md).

    Attributes:
        name: Its name, in a model's own bundle or in a plugin bundle.
        config: Its configuration; None: it gets none.
    """

    name: str
    config: Mapping[str, Any] | None = None


def _at_least(name: str, value: int, low: int) -> None:
    if value < low:
        raise UsageError(name, f"expected at least {low}, got {value}", f"set {name} to {low} or more")
