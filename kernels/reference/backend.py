"""The same model in plain NumPy: the tests' oracle, and a backend where nothing can be compiled.

Weights are dequantised to float32 or float64 and stay so; activations are quantised only when asked, to mirror what
the CPU kernels round. It is slow and says what is meant.

Example:
    builder = ReferenceBackend().builder(spec, threads=1)
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from ..backend import KV_BLOCK_TOKENS, Role
from ..errors import BatchError, FormatError, KernelError
from ..formats import Format
from .dequantise import dequantise
from .ops import paged_attention, quantise_activations, rms_norm, rope, swiglu

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import Backend, DecoderSpec, Tensor
    from ..batch import StepBatch

    Real = NDArray[np.floating]

    def _fits(backend: ReferenceBackend) -> Backend:
        """The type checker refuses this when the Protocol is not kept."""
        return backend


_GLOBAL = (Role.EMBEDDING, Role.OUTPUT, Role.OUTPUT_NORM)
_QUANTISED = (Format.Q4_0, Format.Q4_1, Format.Q8_0)


class ReferenceBackend:
    """See `backend.Backend`.

    Args:
        dtype: Precision of everything between the weights and the logits.
        quantise: Round activations to int8 in front of quantised matrices, as the kernels do.
    """

    def __init__(self, *, dtype: type[np.floating] = np.float64, quantise: bool = False) -> None:
        self._dtype: np.dtype[np.floating] = np.dtype(dtype)
        self._quantise = quantise

    @property
    def name(self) -> str:
        """Shown to operators."""
        return "reference"

    def builder(self, spec: DecoderSpec, *, threads: int) -> ReferenceBuilder:
        """Starts a model; `threads` is NumPy's own affair."""
        del threads
        return ReferenceBuilder(spec, self._dtype, quantise=self._quantise)


class ReferenceBuilder:
    """See `backend.ModelBuilder`."""

    def __init__(self, spec: DecoderSpec, dtype: np.dtype[np.floating], *, quantise: bool) -> None:
        self._spec, self._dtype, self._quantise = spec, dtype, quantise
        self._tensors: dict[tuple[Role, int | None], tuple[Real, bool]] = {}

    def put(self, role: Role, layer: int | None, tensor: Tensor) -> None:
        """Dequantises one tensor; see `backend.ModelBuilder.put`."""
        if (role, layer) in self._tensors or (layer is None) != (role in _GLOBAL):
            raise KernelError(f"expected one tensor for {role} of layer {layer}, got {tensor.name}")
        if tensor.shape != _shape(self._spec, role):
            raise FormatError(f"expected {tensor.name} to have shape {_shape(self._spec, role)}, got {tensor.shape}")
        rounds = self._quantise and tensor.format in _QUANTISED
        self._tensors[role, layer] = dequantise(tensor).astype(self._dtype), rounds

    def finish(self, *, kv_blocks: int, max_tokens: int, max_sequences: int) -> ReferenceModel:
        """Makes the model; see `backend.ModelBuilder.finish`."""
        return ReferenceModel(self._spec, self._tensors, self._dtype, (kv_blocks, max_tokens, max_sequences))


class ReferenceModel:
    """See `backend.Model`."""

    def __init__(
        self,
        spec: DecoderSpec,
        tensors: dict[tuple[Role, int | None], tuple[Real, bool]],
        dtype: np.dtype[np.floating],
        room: tuple[int, int, int],
    ) -> None:
        self._spec, self._tensors, self._room = spec, tensors, room
        layers: list[int | None] = list(range(spec.layers))
        wanted = [(role, layer) for role in Role if role not in _GLOBAL for layer in layers]
        wanted += [(role, None) for role in _GLOBAL if role is not Role.OUTPUT or not spec.tied_head]
        missing = [place for place in wanted if place not in tensors]
        if missing:
            raise KernelError(f"expected a tensor for each place, {len(missing)} are missing, first {missing[0]}")
        shape = (spec.layers, room[0], KV_BLOCK_TOKENS, spec.kv_heads, spec.head_dim)
        self._keys, self._values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self._open = True

    @property
    def spec(self) -> DecoderSpec:
        """Hyperparameters it was built with."""
        return self._spec

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes held, by purpose."""
        weights = sum(array.nbytes for array, _ in self._tensors.values())
        return {"weights": weights, "kv": self._keys.nbytes + self._values.nbytes, "scratch": 0}

    def step(self, batch: StepBatch) -> None:
        """Runs every token of the batch; see `backend.Model.step`."""
        if not self._open:
            raise KernelError("expected an open model, got one that was closed")
        n = batch.token_count
        if n == 0:
            return
        self._check(batch)
        x = self._weight(Role.EMBEDDING, None)[batch.tokens[:n]]
        for layer in range(self._spec.layers):
            x = x + self._attention(layer, x, batch)
            x = x + self._feed_forward(layer, x)
        rows = batch.logits_tokens[: batch.logits_count]
        head = Role.EMBEDDING if self._spec.tied_head else Role.OUTPUT
        logits = self._product(head, None, self._norm(Role.OUTPUT_NORM, None, x[rows])).astype(np.float32)
        for row, to in zip(logits, batch.logits_addresses[: batch.logits_count], strict=True):
            ctypes.memmove(int(to), row.ctypes.data, row.nbytes)

    def close(self) -> None:
        """Lets go of the memory; idempotent."""
        self._open = False
        self._tensors.clear()

    def _weight(self, role: Role, layer: int | None) -> Real:
        return self._tensors[role, layer][0]

    def _product(self, role: Role, layer: int | None, x: Real) -> Real:
        weight, rounds = self._tensors[role, layer]
        return (quantise_activations(x).real().astype(x.dtype) if rounds else x) @ weight.T

    def _norm(self, role: Role, layer: int | None, x: Real) -> Real:
        return rms_norm(x, self._weight(role, layer), self._spec.norm_epsilon)

    def _attention(self, layer: int, x: Real, batch: StepBatch) -> Real:
        spec, n = self._spec, batch.token_count
        normed = self._norm(Role.ATTENTION_NORM, layer, x)
        q, k, v = (
            self._product(role, layer, normed).reshape(n, -1, spec.head_dim)
            for role in (Role.QUERY, Role.KEY, Role.VALUE)
        )
        positions, sequences = batch.positions[:n], batch.sequences[:n]
        q, k = (rope(part, positions, spec.rope_base, spec.rope_dim, spec.rope_style) for part in (q, k))
        blocks = batch.block_tables[sequences, positions // KV_BLOCK_TOKENS]
        self._keys[layer, blocks, positions % KV_BLOCK_TOKENS] = k
        self._values[layer, blocks, positions % KV_BLOCK_TOKENS] = v
        out = np.empty_like(q)
        for sequence in range(batch.sequence_count):
            mine = sequences == sequence
            out[mine] = paged_attention(
                q[mine], self._keys[layer], self._values[layer], positions[mine], batch.block_tables[sequence]
            )
        return self._product(Role.ATTENTION_OUTPUT, layer, out.reshape(n, -1))

    def _feed_forward(self, layer: int, x: Real) -> Real:
        normed = self._norm(Role.FEED_FORWARD_NORM, layer, x)
        hidden = swiglu(self._product(Role.GATE, layer, normed), self._product(Role.UP, layer, normed))
        return self._product(Role.DOWN, layer, hidden)

    def _check(self, batch: StepBatch) -> None:
        n, sequences, kv_blocks = batch.token_count, batch.sequence_count, self._room[0]
        if n > self._room[1] or sequences > self._room[2]:
            raise BatchError(
                f"expected at most {self._room[1]} tokens and {self._room[2]} sequences, got {n} and {sequences}"
            )
        tokens, positions = batch.tokens[:n], batch.positions[:n]
        if tokens.min() < 0 or tokens.max() >= self._spec.vocab:
            raise BatchError(f"expected token ids of 0 to {self._spec.vocab} exclusive")
        if positions.min() < 0 or positions.max() >= min(self._spec.context, kv_blocks * KV_BLOCK_TOKENS):
            raise BatchError("expected positions within the context")
        for sequence in range(sequences):
            last = int(positions[batch.sequences[:n] == sequence].max())
            table = batch.block_tables[sequence, : last // KV_BLOCK_TOKENS + 1]
            if table.min() < 0 or table.max() >= kv_blocks:
                raise BatchError(f"expected KV block ids of 0 to {kv_blocks} exclusive")
        rows = batch.logits_count
        if rows and (batch.logits_tokens[:rows].min() < 0 or batch.logits_tokens[:rows].max() >= n):
            raise BatchError("expected logits of tokens that are in the batch")
        if rows and batch.logits_addresses[:rows].min() == 0:
            raise BatchError("expected logits at addresses other than 0")


def _shape(spec: DecoderSpec, role: Role) -> tuple[int, ...]:
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    shapes: dict[Role, tuple[int, ...]] = {
        Role.EMBEDDING: (spec.vocab, spec.dim),
        Role.OUTPUT: (spec.vocab, spec.dim),
        Role.QUERY: (queries, spec.dim),
        Role.KEY: (keys, spec.dim),
        Role.VALUE: (keys, spec.dim),
        Role.ATTENTION_OUTPUT: (spec.dim, queries),
        Role.GATE: (spec.feed_forward_dim, spec.dim),
        Role.UP: (spec.feed_forward_dim, spec.dim),
        Role.DOWN: (spec.dim, spec.feed_forward_dim),
    }
    return shapes.get(role, (spec.dim,))
