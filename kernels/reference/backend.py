"""The same model in plain NumPy: the tests' oracle, and a backend where nothing can be compiled.

Weights are dequantised to float32 or float64 and stay so; activations are quantised only when asked, to mirror what
the CPU kernels round. It is slow and says what is meant.

Example:
    builder = ReferenceBackend().builder(spec, threads=1)
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backend import GLOBAL_ROLES, KV_BLOCK_TOKENS, Role
from ..errors import BatchError, FormatError, KernelError
from ..kv_type import KvType
from ..sha256 import EachSha256
from .dequantise import dequantise
from .kept import as_kept
from .ops import ACTIVATIONS, Sight, paged_attention, quantise_activations, rms_norm, rotate, soft_cap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import Backend, DecoderSpec, Tensor
    from ..batch import StepBatch
    from ..sha256 import Sha256

    Real = NDArray[np.floating]

    def _fits(backend: ReferenceBackend) -> Backend:
        """The type checker refuses this when the Protocol is not kept."""
        return backend


_QKV = (
    (Role.QUERY, Role.QUERY_BIAS, Role.QUERY_NORM),
    (Role.KEY, Role.KEY_BIAS, Role.KEY_NORM),
    (Role.VALUE, Role.VALUE_BIAS, Role.VALUE),
)


class ReferenceBackend:
    """See `backend.Backend`.

    Args:
        dtype: Precision of everything between the weights and the logits.
        quantise: Round activations to int8 in front of quantised matrices, as the kernels do.
        cache: Round stored keys and values as the kernels do under this type; None: they stay as they are.
    """

    def __init__(
        self,
        *,
        dtype: type[np.floating] = np.float64,
        quantise: bool = False,
        cache: KvType | str | None = None,
    ) -> None:
        self._dtype: np.dtype[np.floating] = np.dtype(dtype)
        self._cache = None if cache is None else KvType(cache)
        self._quantise = quantise

    @property
    def kv_type(self) -> KvType:
        """What the pool's memory is counted in; NumPy takes more."""
        return self._cache or KvType.FLOAT32

    @property
    def name(self) -> str:
        """Shown to operators."""
        return "reference"

    @property
    def sha256(self) -> Sha256:
        """One after the other."""
        return EachSha256()

    def builder(self, spec: DecoderSpec, *, threads: int) -> ReferenceBuilder:
        """Starts a model; `threads` is NumPy's own affair."""
        del threads
        return ReferenceBuilder(spec, self._dtype, self._cache, quantise=self._quantise)


class ReferenceBuilder:
    """See `backend.ModelBuilder`."""

    def __init__(
        self, spec: DecoderSpec, dtype: np.dtype[np.floating], cache: KvType | None, *, quantise: bool
    ) -> None:
        self._spec, self._dtype, self._cache, self._quantise = spec, dtype, cache, quantise
        self._tensors: dict[tuple[Role, int | None], tuple[Real, bool]] = {}

    def put(self, role: Role, layer: int | None, tensor: Tensor) -> None:
        """Dequantises one tensor; see `backend.ModelBuilder.put`."""
        if (role, layer) in self._tensors or (layer is None) != (role in GLOBAL_ROLES):
            raise KernelError(f"expected one tensor for {role} of layer {layer}, got {tensor.name}")
        if role not in (*self._spec.global_roles, *self._spec.block_roles):
            raise KernelError(f"expected no {role} in this model, got {tensor.name}")
        if tensor.shape != self._spec.shape(role):
            raise FormatError(f"expected {tensor.name} to have shape {self._spec.shape(role)}, got {tensor.shape}")
        rounds = self._quantise and tensor.format.block_elements > 1
        self._tensors[role, layer] = dequantise(tensor).astype(self._dtype), rounds

    def finish(
        self, *, kv_blocks: int, max_tokens: int, max_sequences: int, window_blocks: int | None = None
    ) -> ReferenceModel:
        """Makes the model; see `backend.ModelBuilder.finish`."""
        window_blocks = kv_blocks if window_blocks is None else window_blocks
        room = Room(kv_blocks, window_blocks, max_tokens, max_sequences)
        return ReferenceModel(self._spec, self._tensors, (self._dtype, self._cache), room)


class Room(NamedTuple):
    """What a model is built for; see `backend.ModelBuilder.finish`."""

    kv_blocks: int
    window_blocks: int
    tokens: int
    sequences: int


class ReferenceModel:
    """See `backend.Model`."""

    def __init__(
        self,
        spec: DecoderSpec,
        tensors: dict[tuple[Role, int | None], tuple[Real, bool]],
        cache: tuple[np.dtype[np.floating], KvType | None],
        room: Room,
    ) -> None:
        self._spec, self._tensors, self._room = spec, tensors, room
        wanted: list[tuple[Role, int | None]] = [(role, None) for role in spec.global_roles]
        wanted += [(role, layer) for role in spec.block_roles for layer in range(spec.layers)]
        missing = [place for place in wanted if place not in tensors]
        if missing:
            raise KernelError(f"expected a tensor for each place, {len(missing)} are missing, first {missing[0]}")
        dtype, self._cache = cache
        blocks = spec.cache_blocks(room.kv_blocks, room.window_blocks)
        shapes = [(count, KV_BLOCK_TOKENS, spec.kv_heads, spec.head_dim) for count in blocks]
        self._keys, self._values = ([np.zeros(shape, dtype) for shape in shapes] for _ in range(2))
        self._open = True

    @property
    def spec(self) -> DecoderSpec:
        """Hyperparameters it was built with."""
        return self._spec

    @property
    def memory_bytes(self) -> dict[str, int]:
        """Bytes held, by purpose."""
        weights = sum(array.nbytes for array, _ in self._tensors.values())
        return {"weights": weights, "kv": sum(array.nbytes for array in (*self._keys, *self._values)), "scratch": 0}

    def step(self, batch: StepBatch) -> None:
        """Runs every token of the batch; see `backend.Model.step`."""
        if not self._open:
            raise KernelError("expected an open model, got one that was closed")
        n = batch.token_count
        if n == 0:
            return
        self._check(batch)
        spec = self._spec
        x = self._weight(Role.EMBEDDING, None)[batch.tokens[:n]] * spec.embedding_scale
        for layer in range(spec.layers):
            x = x + self._post(Role.POST_ATTENTION_NORM, layer, self._attention(layer, x, batch))
            x = x + self._post(Role.POST_FEED_FORWARD_NORM, layer, self._feed_forward(layer, x))
        rows = batch.logits_tokens[: batch.logits_count]
        head = Role.EMBEDDING if spec.tied_head else Role.OUTPUT
        logits = self._product(head, None, self._norm(Role.OUTPUT_NORM, None, x[rows]))
        logits = soft_cap(logits, spec.logit_cap).astype(np.float32)
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

    def _post(self, role: Role, layer: int, x: Real) -> Real:
        return self._norm(role, layer, x) if self._spec.post_norms else x

    def _heads(self, layer: int, x: Real, roles: tuple[Role, Role, Role]) -> Real:
        """One of query, key and value: product, bias and norm. Shape: (tokens, heads, head_dim)."""
        matrix, bias, norm = roles
        out = self._product(matrix, layer, x)
        if self._spec.qkv_bias:
            out = out + self._weight(bias, layer)
        out = out.reshape(len(x), -1, self._spec.head_dim)
        return self._norm(norm, layer, out) if self._spec.qk_norm and matrix is not Role.VALUE else out

    def _attention(self, layer: int, x: Real, batch: StepBatch) -> Real:
        spec, n = self._spec, batch.token_count
        normed = self._norm(Role.ATTENTION_NORM, layer, x)
        q, k, v = (self._heads(layer, normed, roles) for roles in _QKV)
        positions, sequences = batch.positions[:n], batch.sequences[:n]
        table = spec.rope_tables[spec.rope_of(layer)]
        q, k = (rotate(part, positions, table, spec.rope_style) for part in (q, k))
        window = spec.window_of(layer)
        tables = batch.window_tables if window else batch.block_tables
        blocks = tables[sequences, positions // KV_BLOCK_TOKENS]
        self._keys[layer][blocks, positions % KV_BLOCK_TOKENS] = as_kept(k, self._cache)
        self._values[layer][blocks, positions % KV_BLOCK_TOKENS] = as_kept(v, self._cache)
        sight, out = Sight(spec.score_scale, spec.attention_cap, window), np.empty_like(q)
        for sequence in range(batch.sequence_count):
            mine = sequences == sequence
            out[mine] = paged_attention(
                q[mine], self._keys[layer], self._values[layer], positions[mine], tables[sequence], sight
            )
        return self._product(Role.ATTENTION_OUTPUT, layer, out.reshape(n, -1))

    def _feed_forward(self, layer: int, x: Real) -> Real:
        normed = self._norm(Role.FEED_FORWARD_NORM, layer, x)
        gate, up = self._product(Role.GATE, layer, normed), self._product(Role.UP, layer, normed)
        return self._product(Role.DOWN, layer, ACTIVATIONS[self._spec.activation](gate) * up)

    def _check(self, batch: StepBatch) -> None:
        n, sequences, room = batch.token_count, batch.sequence_count, self._room
        if n > room.tokens or sequences > room.sequences:
            raise BatchError(
                f"expected at most {room.tokens} tokens and {room.sequences} sequences, got {n} and {sequences}"
            )
        tokens, positions = batch.tokens[:n], batch.positions[:n]
        if tokens.min() < 0 or tokens.max() >= self._spec.vocab:
            raise BatchError(f"expected token ids of 0 to {self._spec.vocab} exclusive")
        if positions.min() < 0 or positions.max() >= min(self._spec.context, room.kv_blocks * KV_BLOCK_TOKENS):
            raise BatchError("expected positions within the context")
        for sequence in range(sequences):
            mine = positions[batch.sequences[:n] == sequence]
            end = int(mine.max()) // KV_BLOCK_TOKENS + 1
            _check_table(batch.block_tables[sequence, :end], room.kv_blocks)
            if self._spec.window:
                oldest = max(0, int(mine.min()) + 1 - self._spec.window) // KV_BLOCK_TOKENS
                _check_table(batch.window_tables[sequence, oldest:end], room.window_blocks)
        rows = batch.logits_count
        if rows and (batch.logits_tokens[:rows].min() < 0 or batch.logits_tokens[:rows].max() >= n):
            raise BatchError("expected logits of tokens that are in the batch")
        if rows and batch.logits_addresses[:rows].min() == 0:
            raise BatchError("expected logits at addresses other than 0")


def _check_table(blocks: NDArray[np.int32], count: int) -> None:
    if blocks.min() < 0 or blocks.max() >= count:
        raise BatchError(f"expected KV block ids of 0 to {count} exclusive")
