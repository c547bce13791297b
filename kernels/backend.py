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

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .batch import StepBatch
    from .formats import Format

KV_BLOCK_TOKENS = 16
"""Positions in one KV block: small enough to waste little, large enough that tables stay short."""


class RopeStyle(StrEnum):
    """How RoPE pairs the elements of a head."""

    NORM = "norm"
    """Adjacent pairs (2i, 2i+1), as GGUF's llama stores them."""
    NEOX = "neox"
    """Split halves (i, i + dim/2)."""


class Role(StrEnum):
    """Which place in the graph a tensor fills; matrices are (outputs, inputs), row-major."""

    EMBEDDING = "embedding"
    """Shape: (vocab, dim)."""
    ATTENTION_NORM = "attention_norm"
    """Shape: (dim,), float32."""
    QUERY = "query"
    """Shape: (heads * head_dim, dim)."""
    KEY = "key"
    """Shape: (kv_heads * head_dim, dim)."""
    VALUE = "value"
    """Shape: (kv_heads * head_dim, dim)."""
    ATTENTION_OUTPUT = "attention_output"
    """Shape: (dim, heads * head_dim)."""
    FEED_FORWARD_NORM = "feed_forward_norm"
    """Shape: (dim,), float32."""
    GATE = "gate"
    """Shape: (feed_forward_dim, dim)."""
    UP = "up"
    """Shape: (feed_forward_dim, dim)."""
    DOWN = "down"
    """Shape: (dim, feed_forward_dim)."""
    OUTPUT_NORM = "output_norm"
    """Shape: (dim,), float32."""
    OUTPUT = "output"
    """Shape: (vocab, dim); absent when the head is tied to the embedding."""


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
class DecoderSpec:
    """Hyperparameters of a decoder-only transformer with RMSNorm, RoPE, GQA and SwiGLU.

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
        rope_base: Theta of RoPE.
        rope_dim: Leading elements of each head that rotate.
        rope_style: Pairing of the rotated elements.
        tied_head: The head reuses the embedding.
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
            KernelError: the shape does not fit the spec, the format is unsupported for this role, or the
                place is already filled.
        """

    def finish(self, *, kv_blocks: int, max_tokens: int, max_sequences: int) -> Model:
        """Allocates the KV cache and scratch memory, starts the threads and warms up.

        Args:
            kv_blocks: Blocks of KV_BLOCK_TOKENS positions in the pool.
            max_tokens: Most tokens in one step.
            max_sequences: Most sequences in one step.

        Raises:
            KernelError: a tensor is missing.
        """


class Backend(Protocol):
    """A way to run models: a processor and a set of kernels."""

    @property
    def name(self) -> str:
        """Shown to operators, e.g. "cpu-avx2"."""

    def builder(self, spec: DecoderSpec, *, threads: int) -> ModelBuilder:
        """Starts a model of this shape on this many threads."""
