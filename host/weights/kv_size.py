"""How long a sequence may be and how many KV blocks there are, from the model, the settings and the memory.

Example:
    KvSize.choose(spec, config)  # KvSize(context=8192, blocks=711)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ...kernels.backend import KV_BLOCK_TOKENS
from ..config import DEFAULT_CONTEXT
from ..errors import UsageError

if TYPE_CHECKING:
    from ...kernels.backend import DecoderSpec
    from ..config import EngineConfig

KV_ELEMENT_BYTES = 2
"""Bytes of one stored key or value element: backends keep float16."""


def block_bytes(spec: DecoderSpec) -> int:
    """Bytes of one KV block over all layers, keys and values."""
    return 2 * spec.layers * spec.kv_heads * spec.head_dim * KV_BLOCK_TOKENS * KV_ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class KvSize:
    """What a process allows.

    Attributes:
        context: Most tokens of one sequence.
        blocks: Blocks in the pool; enough for one sequence of `context` tokens.
    """

    context: int
    blocks: int

    @classmethod
    def choose(cls, spec: DecoderSpec, config: EngineConfig) -> Self:
        """Fits the pool into `config.kv_bytes`.

        Raises:
            UsageError: the memory does not hold one sequence of the context that was asked for.
        """
        context = min(config.context or DEFAULT_CONTEXT, spec.context)
        wanted = -(-context // KV_BLOCK_TOKENS)
        affordable = config.kv_bytes // block_bytes(spec)
        if affordable < (wanted if config.context else 1):
            tokens, needed = (context, wanted) if config.context else (KV_BLOCK_TOKENS, 1)
            raise UsageError(
                "kv_bytes",
                f"expected {needed * block_bytes(spec)} bytes for a context of {tokens} tokens, got {config.kv_bytes}",
                "raise the memory of the KV pool or lower the context",
            )
        blocks = min(affordable, wanted * config.max_sequences)
        return cls(min(context, blocks * KV_BLOCK_TOKENS), blocks)
