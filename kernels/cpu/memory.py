"""Lays out everything a model's step needs besides its weights: KV cache, scratch memory and the context table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..backend import KV_BLOCK_TOKENS, Activation
from ..layouts import BLOCK, LINE, WIDE, activation_stride, round_up
from .arena import Arena, address
from .program import (
    PARTIAL_HEADER,
    PARTITION_TOKENS,
    QUERIES,
    SCORES_BYTES,
    SMALL,
    SQUARE,
    WORD,
    Context,
)
from .sync import sync_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import DecoderSpec, Rope
    from ..kv_type import KvType

_UNPACKED_BYTES = 40
"""Most bytes of 16 unpacked rows and one column: two planes, and four rows of factors a block of 32."""
_LARGEST_GROUP = 6
"""Most queries of one attention kernel call."""
_ROPE_AT_ONCE = 8 << 20
"""Bytes up to which a RoPE table is filled at once; a larger one as far as sequences have reached, for few go far."""
_ROPE_STEP = 1024
"""Positions filled at a time, so that the float64 angles stay small."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a model is built for.

    Attributes:
        kv_blocks: Blocks in the pool.
        window_blocks: Blocks in the pool of the layers with a window.
        max_tokens: Most tokens in one step.
        max_sequences: Most sequences in one step.
        threads: Threads of a step.
        plain: Some matrix other than `down` wants float32 activations.
        hidden_plain: `down` does in some layer.
        kv_type: How keys and values are kept.
        strip: Columns of a product between visits to its output.
    """

    kv_blocks: int
    window_blocks: int
    max_tokens: int
    max_sequences: int
    threads: int
    plain: bool
    hidden_plain: bool
    kv_type: KvType
    strip: int


class StepMemory:
    """Cache, scratch and context of one model.

    Attributes:
        context: Words of `program.Context`. Shape: (Context.END / 8,), int64.
        kv: One layer's key cache, then its values, layer by layer: their addresses.
        kv_bytes: Bytes of the cache.
        scratch_bytes: Bytes of everything else.
        sync: The threads' sync area.
    """

    def __init__(self, spec: DecoderSpec, capacity: Capacity) -> None:
        self._spec, self._capacity = spec, capacity
        self._cache, self._scratch = Arena(), Arena()
        self.context = self._scratch.take(int(Context.END)).view(np.int64)
        self.sync = self._scratch.take(sync_bytes(capacity.threads))
        self._shape()
        self.kv = self._make_cache()
        self._make_constants()
        self._ropes = [self._make_rope(rope) for rope in spec.rope_tables]
        self._filled = 0
        self.reach(self.position_limit if self._ropes[0].nbytes <= _ROPE_AT_ONCE else 1)
        self._make_shared()
        self._make_local()

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache."""
        return self._cache.used

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory and tables."""
        return self._scratch.used

    @property
    def position_limit(self) -> int:
        """Positions that a sequence may reach."""
        return min(self._spec.context, self._capacity.kv_blocks * KV_BLOCK_TOKENS)

    @property
    def ropes(self) -> list[int]:
        """Addresses of the RoPE tables, float32 [position][cos, sin][pair]."""
        return [address(table) for table in self._ropes]

    @property
    def whole(self) -> bool:
        """Whether every position is in the RoPE tables."""
        return self._filled >= self.position_limit

    def reach(self, positions: int) -> None:
        """Fills the RoPE tables as far as this many positions, or the limit."""
        stop = min(self.position_limit, round_up(positions, _ROPE_STEP))
        for start in range(self._filled, stop, _ROPE_STEP):
            at = np.arange(start, min(stop, start + _ROPE_STEP), dtype=np.float64)[:, None]
            for table, rope in zip(self._ropes, self._spec.rope_tables, strict=True):
                angles = at * np.array(rope.frequencies)
                table[start : start + len(at), 0] = rope.factor * np.cos(angles)
                table[start : start + len(at), 1] = rope.factor * np.sin(angles)
        self._filled = max(self._filled, stop)

    @property
    def _state_bytes(self) -> int:
        """Bytes of one query's running attention."""
        return PARTIAL_HEADER + 4 * self._spec.head_dim

    def put(self, word: Context, value: int) -> None:
        """Sets a word of the context."""
        self.context[word // WORD] = value

    def _take(self, word: Context, size: int) -> NDArray[np.uint8]:
        area = self._scratch.take(size)
        self.put(word, address(area))
        return area

    def _shape(self) -> None:
        spec, capacity = self._spec, self._capacity
        group = spec.heads // spec.kv_heads
        words = {
            Context.SYNC: address(self.sync),
            Context.THREADS: capacity.threads,
            Context.LAYER_COUNT: spec.layers,
            Context.DIM_BLOCKS: spec.dim // BLOCK,
            Context.ATTENTION_BLOCKS: spec.heads * spec.head_dim // BLOCK,
            Context.HIDDEN_BLOCKS: spec.feed_forward_dim // BLOCK,
            Context.HEADS: spec.heads,
            Context.KV_HEADS: spec.kv_heads,
            Context.HEAD_DIM: spec.head_dim,
            Context.ROPE_HALF: spec.rope_dim // 2,
            Context.TILE_TOKENS: max(1, QUERIES // group),
            Context.STRIP: capacity.strip,
            Context.KV_BLOCKS: capacity.kv_blocks,
            Context.WINDOW: spec.window,
            Context.WINDOW_BLOCKS: capacity.window_blocks,
            Context.VOCAB: spec.vocab,
            Context.POSITION_LIMIT: self.position_limit,
        }
        for word, value in words.items():
            self.put(word, value)

    def _make_cache(self) -> list[tuple[int, int]]:
        spec, capacity = self._spec, self._capacity
        head_bytes = capacity.kv_type.head_bytes(spec.head_dim)
        block_bytes = spec.kv_heads * head_bytes
        self.put(Context.KV_HEAD_BYTES, head_bytes)
        self.put(Context.KV_BLOCK_BYTES, block_bytes)
        blocks = spec.cache_blocks(capacity.kv_blocks, capacity.window_blocks)
        slab = self._cache.take(2 * sum(blocks) * block_bytes)
        starts = [address(slab) + 2 * sum(blocks[:layer]) * block_bytes for layer in range(spec.layers)]
        return [(start, start + count * block_bytes) for start, count in zip(starts, blocks, strict=True)]

    def _make_constants(self) -> None:
        spec = self._spec
        for word, value, absent in (
            (Context.EPSILON, spec.norm_epsilon, None),
            (Context.QUERY_SCALE, spec.score_scale, None),
            (Context.ONE, 1.0, None),
            (Context.EMBEDDING_SCALE, spec.embedding_scale, 1.0),
            (Context.ATTENTION_CAP, spec.attention_cap, 0.0),
            (Context.LOGIT_CAP, spec.logit_cap, 0.0),
        ):
            if value != absent:
                self._take(word, 4).view(np.float32)[0] = value
        self.put(Context.GELU, int(spec.activation is Activation.GELU_TANH))

    def _make_rope(self, rope: Rope) -> NDArray[np.float32]:
        limit, half = self.position_limit, len(rope.frequencies)
        return self._scratch.take(limit * 2 * half * 4).view(np.float32).reshape(limit, 2, half)

    def _make_shared(self) -> None:
        spec, capacity = self._spec, self._capacity
        n, attention = capacity.max_tokens, spec.heads * spec.head_dim
        widest = max(spec.dim, attention)
        wide = activation_stride(spec.dim, WIDE)
        acts, hidden = activation_stride(widest), activation_stride(spec.feed_forward_dim)
        qkv_stride = round_up(4 * spec.head_dim * (spec.heads + 2 * spec.kv_heads), LINE)
        self._take(Context.X, n * spec.dim * 4)
        if spec.post_norms:
            self._take(Context.Y, n * spec.dim * 4)
        self._take(Context.QKV, n * qkv_stride)
        self.put(Context.QKV_STRIDE, qkv_stride)
        self._take(Context.ATTENTION, n * attention * 4)
        self._take(Context.ACTS, n * max(acts, wide))
        self.put(Context.ACTS_STRIDE, acts)
        self.put(Context.WIDE_STRIDE, wide)
        self._take(Context.HIDDEN, n * hidden)
        self.put(Context.HIDDEN_STRIDE, hidden)
        self.put(Context.PLAIN_STRIDE, widest * 4)
        self.put(Context.HIDDEN_PLAIN_STRIDE, spec.feed_forward_dim * 4)
        if capacity.plain:
            self._take(Context.PLAIN, n * widest * 4)
        if capacity.hidden_plain:
            self._take(Context.HIDDEN_PLAIN, n * spec.feed_forward_dim * 4)
        self._take(Context.TILES, n * 8)
        partitions = -(-self.position_limit // PARTITION_TOKENS)
        self.put(Context.PARTIALS_MOST, partitions)
        self._take(Context.PARTIALS, SMALL * partitions * spec.heads * self._state_bytes)

    def _make_local(self) -> None:
        """One thread's scratch: each part's offset goes into the context."""
        spec = self._spec
        widest = max(spec.dim, spec.heads * spec.head_dim)
        queries = max(QUERIES, spec.heads // spec.kv_heads)
        state = self._state_bytes
        # four gate/up tiles of `dim` columns, or one tile of the widest matrix
        line_bytes = 4 * round_up(max(4 * spec.dim, widest, spec.feed_forward_dim) * _UNPACKED_BYTES // 4, LINE)
        parts = {
            Context.LOCAL_ACTS: SMALL * max(activation_stride(widest), activation_stride(spec.dim, WIDE)),
            Context.LOCAL_PLAIN: SMALL * widest * 4,
            Context.LOCAL_LINES: line_bytes,
            Context.LOCAL_OUT: 4 * (self._capacity.strip + SQUARE) * LINE,
            Context.LOCAL_QUERIES: queries * spec.head_dim * 4,
            Context.LOCAL_SCORES: SCORES_BYTES * _LARGEST_GROUP,
            Context.LOCAL_PARTIALS: _LARGEST_GROUP * state,
            Context.LOCAL_STATES: queries * state,
            Context.LOCAL_SEEN: queries * 4,
            Context.LOCAL_LOW: queries * 4,
            Context.LOCAL_ROW: spec.heads * spec.head_dim * 4,
        }
        if spec.post_norms:
            parts[Context.LOCAL_X] = SMALL * spec.dim * 4
        offset = 0
        for word, size in parts.items():
            self.put(word, offset)
            offset += round_up(size, LINE)
        self.put(Context.LOCAL_STRIDE, offset)
        self._take(Context.LOCAL, offset * self._capacity.threads)
