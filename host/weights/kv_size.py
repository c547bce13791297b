"""How long a sequence may be and how many KV blocks there are, from the model, the settings and the memory.

Example:
    KvSize.choose(spec, config, KvType.FLOAT16, again=64)  # KvSize(context=8192, blocks=711, window_blocks=0)
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

TYPICAL_WINDOWS = 4
"""Windows of a sequence for which the memory is divided: when longer ones run, blocks of the layers without a window
are used up first, when shorter ones do, those of the others."""


@dataclass(frozen=True, slots=True)
class KvSize:
    """What a process allows.

    Attributes:
        context: Most tokens of one sequence.
        blocks: Blocks in the pool; enough for one sequence of `context` tokens.
        window_blocks: Blocks in the pool of the layers with a window; enough for the same. 0: there are no such layers.
    """

    context: int
    blocks: int
    window_blocks: int = 0

    @classmethod
    def choose(cls, spec: DecoderSpec, config: EngineConfig, kv_type: KvType, *, again: int) -> Self:
        """Fits the pools into `config.kv_bytes`.

        Args:
            spec: The model.
            config: The settings.
            kv_type: How the backend keeps keys and values.
            again: Most ids that a sampler takes back, which run again then.

        Raises:
            UsageError: the memory does not hold one sequence of the context that was asked for.
        """
        context = min(config.context or DEFAULT_CONTEXT, spec.context)
        wanted = _blocks_for(context)
        need = _Need.of(spec, config, kv_type, again)
        longest = min(wanted, need.longest(config.kv_bytes))
        if longest < (wanted if config.context else 1):
            tokens, blocks = (context, wanted) if config.context else (KV_BLOCK_TOKENS, 1)
            raise UsageError(
                "kv_bytes",
                f"expected {need.bytes(blocks)} bytes for {tokens} tokens of {kv_type}, got {config.kv_bytes}",
                "raise the memory of the KV pool, lower the context or take a smaller type",
            )
        most, left = wanted * config.max_sequences, config.kv_bytes
        window_blocks = need.window_blocks(left, longest, config.max_sequences)
        left -= window_blocks * need.windowed
        blocks = min(most, left // need.plain) if need.plain else most  # nothing is kept in blocks of no layer
        return cls(min(context, longest * KV_BLOCK_TOKENS), blocks, window_blocks)


@dataclass(frozen=True, slots=True)
class _Need:
    """What sequences take of the memory.

    Attributes:
        plain: Bytes of a block in all layers without a window.
        windowed: Bytes of a block in all layers with one.
        window: Blocks of the longest window.
        held: Blocks of layers with a window that a sequence holds at most when it decodes.
        chunk: How many more there are while it is prefilled.
    """

    plain: int
    windowed: int
    window: int
    held: int
    chunk: int

    @classmethod
    def of(cls, spec: DecoderSpec, config: EngineConfig, kv_type: KvType, again: int) -> Self:
        layer = kv_type.layer_bytes(spec)
        return cls(
            plain=(spec.layers - spec.windowed_layers) * layer,
            windowed=spec.windowed_layers * layer,
            window=_blocks_for(spec.window),
            held=spec.window_blocks(again),
            chunk=_blocks_for(config.step_tokens) if spec.window else 0,
        )

    def bytes(self, blocks: int) -> int:
        """What one sequence takes, by how many blocks its ids fill."""
        return blocks * self.plain + min(blocks, self.held + self.chunk) * self.windowed

    def longest(self, memory: int) -> int:
        """Blocks of the longest sequence that fits, when it is alone."""
        most = self.held + self.chunk
        blocks = memory // (self.plain + self.windowed)
        if blocks <= most:
            return blocks
        return (memory - most * self.windowed) // self.plain if self.plain else memory

    def window_blocks(self, memory: int, longest: int, sequences: int) -> int:
        """Blocks of layers with a window: a share of the memory, enough for one sequence, no more than all can use."""
        if not self.windowed:
            return 0
        typical = min(longest, TYPICAL_WINDOWS * self.window)
        held = min(typical, self.held)
        share = memory * held // (typical * self.plain + held * self.windowed)
        room = (memory - longest * self.plain) // self.windowed
        used = min(longest, self.held) * sequences + self.chunk
        return max(min(longest, self.held + self.chunk), min(share, room, used))


def _blocks_for(tokens: int) -> int:
    return -(-tokens // KV_BLOCK_TOKENS)
