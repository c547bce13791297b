"""How long a sequence may be and how many KV blocks there are, from the model, the settings and the memory.

Example:
    KvSize.choose(spec, config, KvType.FLOAT16)  # KvSize(context=8192, blocks=711)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ...kernels.backend import KV_BLOCK_TOKENS
from ..config import DEFAULT_CONTEXT
from ..errors import UsageError

if TYPE_CHECKING:
    from ...kernels.backend import DecoderSpec
    from ...kernels.kv_type import KvType
    from ..config import EngineConfig


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
    def choose(cls, spec: DecoderSpec, config: EngineConfig, kv_type: KvType) -> Self:
        """Fits the pool into `config.kv_bytes`.

        Args:
            spec: The model.
            config: The settings.
            kv_type: How the backend keeps keys and values.

        Raises:
            UsageError: the memory does not hold one sequence of the context that was asked for.
        """
        context = min(config.context or DEFAULT_CONTEXT, spec.context)
        wanted = -(-context // KV_BLOCK_TOKENS)
        block_bytes = kv_type.block_bytes(spec)
        affordable = config.kv_bytes // block_bytes
        if affordable < (wanted if config.context else 1):
            tokens, needed = (context, wanted) if config.context else (KV_BLOCK_TOKENS, 1)
            raise UsageError(
                "kv_bytes",
                f"expected {needed * block_bytes} bytes for {tokens} tokens of {kv_type}, got {config.kv_bytes}",
                "raise the memory of the KV pool, lower the context or take a smaller type",
            )
        blocks = min(affordable, wanted * config.max_sequences)
        return cls(min(context, blocks * KV_BLOCK_TOKENS), blocks)
