"""What the host asks of a compute backend: build a model from tensors, then run steps over a paged KV cache.

Rules
* A backend gets plain arrays and never sees a file, a signature or a sandbox.
* `ModelBuilder.put` repacks one tensor and keeps no reference to its bytes, so that the caller can free them.
* `Model.step` is one call: it writes keys and values, attends, and puts each wanted row of logits at the
  address that the batch names (a sampler's linear memory). It allocates nothing.
* A row's result depends on its own sequence only, bit for bit, whatever else is in the batch.

Example:
    builder = backend.builder(spec, threads=2)
    for role, layer, tensor in tensors:
        builder.put(role, layer, tensor)
    model = builder.finish(kv_blocks=512, max_tokens=512, max_sequences=32)
    model.step(batch)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .batch import StepBatch
    from .formats import Format
    from .kv_type import KvType
    from .sha256 import Sha256

KV_BLOCK_TOKENS = 16
"""Positions in one KV block: small enough to waste little, large enough that tables stay short."""


class RopeStyle(StrEnum):
    """How RoPE pairs the elements of a head."""

    NORM = "norm"
    """Adjacent pairs (2i, 2i+1), as GGUF's llama stores them."""
    NEOX = "neox"
    """Split halves (i, i + dim/2)."""


class Activation(StrEnum):
    """What the gate goes through before it multiplies `up`."""

    SILU = "silu"
    """x / (1 + exp(-x))."""
    GELU_TANH = "gelu_tanh"
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))."""


class Role(StrEnum):
    """Which place in the graph a tensor fills; matrices are (outputs, inputs), row-major. Vectors are float32."""

    EMBEDDING = "embedding"
    """Shape: (vocab, dim)."""
    ATTENTION_NORM = "attention_norm"
    """Shape: (dim,)."""
    QUERY = "query"
    """Shape: (heads * head_dim, dim)."""
    KEY = "key"
    """Shape: (kv_heads * head_dim, dim)."""
    VALUE = "value"
    """Shape: (kv_heads * head_dim, dim)."""
    QUERY_BIAS = "query_bias"
    """Shape: (heads * head_dim,)."""
    KEY_BIAS = "key_bias"
    """Shape: (kv_heads * head_dim,)."""
    VALUE_BIAS = "value_bias"
    """Shape: (kv_heads * head_dim,)."""
    QUERY_NORM = "query_norm"
    """Shape: (head_dim,); one for all heads of a layer."""
    KEY_NORM = "key_norm"
    """Shape: (head_dim,); one for all heads of a layer."""
    ATTENTION_OUTPUT = "attention_output"
    """Shape: (dim, heads * head_dim)."""
    POST_ATTENTION_NORM = "post_attention_norm"
    """Shape: (dim,)."""
    FEED_FORWARD_NORM = "feed_forward_norm"
    """Shape: (dim,)."""
    GATE = "gate"
    """Shape: (feed_forward_dim, dim)."""
    UP = "up"
    """Shape: (feed_forward_dim, dim)."""
    DOWN = "down"
    """Shape: (dim, feed_forward_dim)."""
    POST_FEED_FORWARD_NORM = "post_feed_forward_norm"
    """Shape: (dim,)."""
    OUTPUT_NORM = "output_norm"
    """Shape: (dim,)."""
    OUTPUT = "output"
    """Shape: (vocab, dim); absent when the head is tied to the embedding."""


GLOBAL_ROLES = (Role.EMBEDDING, Role.OUTPUT_NORM, Role.OUTPUT)
"""Places outside the blocks; all others are one in each block."""
_BIASES = (Role.QUERY_BIAS, Role.KEY_BIAS, Role.VALUE_BIAS)
_HEAD_NORMS = (Role.QUERY_NORM, Role.KEY_NORM)
_POST_NORMS = (Role.POST_ATTENTION_NORM, Role.POST_FEED_FORWARD_NORM)
VECTOR_ROLES = frozenset(
    {
        Role.ATTENTION_NORM,
        Role.FEED_FORWARD_NORM,
        Role.OUTPUT_NORM,
        *_BIASES,
        *_HEAD_NORMS,
        *_POST_NORMS,
    }
)
"""Places of one axis; all others are matrices."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One stored tensor: raw bytes in a quantised format.

    Attributes:
        name: Name in its file, for error messages.
        format: Element format.
        shape: Row-major shape; the last axis is contiguous and quantised in blocks.
        data: Shape: (format.row_bytes(shape[-1]) * rows,), uint8, read-only.
    """

    name: str
    format: Format
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Rope:
    """One RoPE table: pair i turns by position * frequencies[i], and cos and sin are multiplied by `factor`.

    Whatever a model scales (linear, YaRN, Llama 3, long-rope), the host has put into these numbers.

    Attributes:
        frequencies: Radians per position, one for each pair.
        factor: What YaRN and long-rope call the attention factor.
    """

    frequencies: tuple[float, ...] = field(repr=False)
    factor: float = 1.0

    @classmethod
    def plain(cls, base: float, dim: int) -> Self:
        """The unscaled table: base^(-2i / dim) for the pairs of `dim` elements."""
        return cls(tuple(base ** (-2 * pair / dim) for pair in range(dim // 2)))


@dataclass(frozen=True, slots=True)
class DecoderSpec:
    """A decoder-only transformer with RMSNorm, RoPE, grouped-query attention and a gated feed-forward (clause 10).

    The fields with defaults are what only some architectures have.

    Attributes:
        layers: Number of blocks.
        dim: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key and value heads; divides `heads`.
        head_dim: Width of one head.
        feed_forward_dim: Width between gate/up and down.
        vocab: Rows of the embedding and of the head.
        context: Longest sequence, in tokens.
        norm_epsilon: Added to the mean square in RMSNorm.
        rope_base: Theta of RoPE, where `ropes` is empty.
        rope_dim: Leading elements of each head that rotate.
        rope_style: Pairing of the rotated elements.
        tied_head: The head reuses the embedding.
        activation: What the gate goes through.
        embedding_scale: Multiplies the embedding's rows.
        query_scale: Multiplies query times key; None: 1 / sqrt(head_dim).
        attention_cap: Soft cap of the scores, c * tanh(score / c), before the mask; 0: none.
        logit_cap: Soft cap of the logits; 0: none.
        qkv_bias: Queries, keys and values have biases.
        qk_norm: Each head of the queries and keys is normed before it rotates.
        post_norms: The output of attention and of the feed-forward is normed before it is added.
        ropes: RoPE tables, each of rope_dim / 2 frequencies; empty: the plain one of `rope_base`.
        layer_ropes: Which of `ropes` each layer uses; empty: the first.
        layer_windows: How many positions a query of each layer sees, its own included, 0: all before it; empty: all.
    """

    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward_dim: int
    vocab: int
    context: int
    norm_epsilon: float
    rope_base: float
    rope_dim: int
    rope_style: RopeStyle
    tied_head: bool
    activation: Activation = Activation.SILU
    embedding_scale: float = 1.0
    query_scale: float | None = None
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    ropes: tuple[Rope, ...] = ()
    layer_ropes: tuple[int, ...] = ()
    layer_windows: tuple[int, ...] = ()

    @property
    def score_scale(self) -> float:
        """What multiplies query times key."""
        return 1 / math.sqrt(self.head_dim) if self.query_scale is None else self.query_scale

    @property
    def rope_tables(self) -> tuple[Rope, ...]:
        """The RoPE tables, at least one."""
        return self.ropes or (Rope.plain(self.rope_base, self.rope_dim),)

    def rope_of(self, layer: int) -> int:
        """Which of `rope_tables` a layer uses."""
        return self.layer_ropes[layer] if self.layer_ropes else 0

    def window_of(self, layer: int) -> int:
        """Positions that a query of a layer sees, 0: all."""
        return self.layer_windows[layer] if self.layer_windows else 0

    @property
    def window(self) -> int:
        """The longest window of a layer, 0: none has one."""
        return max(self.layer_windows, default=0)

    @property
    def windowed_layers(self) -> int:
        """Layers with a window."""
        return sum(window > 0 for window in self.layer_windows)

    def window_blocks(self, again: int) -> int:
        """Most KV blocks of layers with a window that a sequence needs to run its next token (clause 11.6).

        Args:
            again: Positions before it that may have to run again.
        """
        seen = self.window + again
        return 1 + -(-seen // KV_BLOCK_TOKENS) if self.window else 0

    def cache_blocks(self, kv_blocks: int, window_blocks: int) -> list[int]:
        """Blocks of each layer's KV cache."""
        return [window_blocks if self.window_of(layer) else kv_blocks for layer in range(self.layers)]

    @property
    def global_roles(self) -> tuple[Role, ...]:
        """Places outside the blocks."""
        return (Role.EMBEDDING, Role.OUTPUT_NORM, *(() if self.tied_head else (Role.OUTPUT,)))

    @property
    def block_roles(self) -> tuple[Role, ...]:
        """Places in each block."""
        absent = set(GLOBAL_ROLES)
        for has, roles in ((self.qkv_bias, _BIASES), (self.qk_norm, _HEAD_NORMS), (self.post_norms, _POST_NORMS)):
            absent |= set() if has else set(roles)
        return tuple(role for role in Role if role not in absent)

    def shape(self, role: Role) -> tuple[int, ...]:
        """The shape of a place's tensor; see `Role`."""
        queries, keys, wide = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.feed_forward_dim
        shapes: dict[Role, tuple[int, ...]] = {
            Role.EMBEDDING: (self.vocab, self.dim),
            Role.OUTPUT: (self.vocab, self.dim),
            Role.QUERY: (queries, self.dim),
            Role.KEY: (keys, self.dim),
            Role.VALUE: (keys, self.dim),
            Role.QUERY_BIAS: (queries,),
            Role.KEY_BIAS: (keys,),
            Role.VALUE_BIAS: (keys,),
            Role.QUERY_NORM: (self.head_dim,),
            Role.KEY_NORM: (self.head_dim,),
            Role.ATTENTION_OUTPUT: (self.dim, queries),
            Role.GATE: (wide, self.dim),
            Role.UP: (wide, self.dim),
            Role.DOWN: (self.dim, wide),
        }
        return shapes.get(role, (self.dim,))


class Model(Protocol):
    """A built model and its KV cache. One thread at a time may call it."""

    @property
    def spec(self) -> DecoderSpec:
        """Hyperparameters it was built with."""

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes held, by purpose: weights, kv, scratch."""

    def step(self, batch: StepBatch) -> None:
        """Runs every token of the batch through the model; see the module's rules."""

    def close(self) -> None:
        """Stops its threads and frees its memory; idempotent."""


class ModelBuilder(Protocol):
    """Takes a model's tensors one by one, in any order."""

    def put(self, role: Role, layer: int | None, tensor: Tensor) -> None:
        """Repacks one tensor.

        Args:
            role: Its place in the graph.
            layer: Block index, None for embedding, output norm and head.
            tensor: The stored tensor; not referenced after the call.

        Raises:
            KernelError: the shape does not fit the spec, the format is unsupported for this role, the place
                is already filled, or the spec has no such place.
        """

    def finish(self, *, kv_blocks: int, max_tokens: int, max_sequences: int, window_blocks: int | None = None) -> Model:
        """Allocates the KV cache and scratch memory, starts the threads and warms up.

        Args:
            kv_blocks: Blocks of KV_BLOCK_TOKENS positions in the pool.
            max_tokens: Most tokens in one step.
            max_sequences: Most sequences in one step.
            window_blocks: Blocks in the pool of the layers with a window (clause 11.6); None: as many as kv_blocks.

        Raises:
            KernelError: a tensor is missing.
        """


class Backend(Protocol):
    """A way to run models: a processor and a set of kernels."""

    @property
    def name(self) -> str:
        """Shown to operators, e.g. "cpu-avx2"."""

    @property
    def kv_type(self) -> KvType:
        """How its models keep keys and values; all of them in one way, so no pool ever mixes two."""

    @property
    def sha256(self) -> Sha256:
        """The fastest that this machine has for several buffers (clause 12)."""

    def builder(self, spec: DecoderSpec, *, threads: int) -> ModelBuilder:
        """Starts a model of this shape on this many threads."""
