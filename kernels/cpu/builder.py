"""Takes a model's tensors, packs each into tiles at once, and makes the runnable model."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from ..backend import GLOBAL_ROLES, VECTOR_ROLES, Role, RopeStyle
from ..errors import FormatError, KernelError
from ..formats import Format
from ..layouts import BLOCK, DENSE_BYTES, QUANTISED, TILE_ROWS, Kind, packed_bytes, tiles
from .arena import Arena, address
from .isa import Isa
from .memory import Capacity, StepMemory
from .model import CpuModel
from .pack import check_matrix, pack, rope_order
from .program import FEW_COLUMNS, FEW_COLUMNS_DECODED, SQUARES_STRIP, STRIP, WORD, Context, Layer, Matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import DecoderSpec, Tensor
    from .loader import Kernels

_VECTORS = {
    Role.ATTENTION_NORM: Layer.ATTENTION_NORM,
    Role.FEED_FORWARD_NORM: Layer.FEED_FORWARD_NORM,
    Role.QUERY_NORM: Layer.QUERY_NORM,
    Role.KEY_NORM: Layer.KEY_NORM,
    Role.POST_ATTENTION_NORM: Layer.POST_ATTENTION_NORM,
    Role.POST_FEED_FORWARD_NORM: Layer.POST_FEED_FORWARD_NORM,
}
_BIASES = (Role.QUERY_BIAS, Role.KEY_BIAS, Role.VALUE_BIAS)
"""In the order of a row of queries, keys and values."""
_MATRICES = {
    Role.QUERY: Layer.QUERY,
    Role.KEY: Layer.KEY,
    Role.VALUE: Layer.VALUE,
    Role.ATTENTION_OUTPUT: Layer.ATTENTION_OUTPUT,
    Role.GATE: Layer.GATE,
    Role.UP: Layer.UP,
    Role.DOWN: Layer.DOWN,
}
_HEAD_STEP = 16
"""head_dim and rope_dim come in steps of 16: half a rotated head is whole vectors of 8."""
_MOST_THREADS = 256
_MOST_LAYERS = 4096


class CpuModelBuilder:
    """See `backend.ModelBuilder`."""

    def __init__(self, kernels: Kernels, spec: DecoderSpec, threads: int) -> None:
        if not 1 <= threads <= _MOST_THREADS:
            raise KernelError(f"expected 1 to {_MOST_THREADS} threads, got {threads}")
        check_spec(spec)
        self._kernels, self._spec, self._threads = kernels, spec, threads
        self._arena = Arena()
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="sealhost-pack")
        self._layers = self._arena.take(spec.layers * int(Layer.END)).view(np.int64).reshape(spec.layers, -1)
        self._matrices = self._arena.take(2 * int(Matrix.END)).view(np.int64).reshape(2, -1)
        self._places: dict[tuple[Role, int | None], int] = {}
        self._bias_rows: dict[int | None, NDArray[np.float32]] = {}
        self._kinds: dict[tuple[Role, int | None], Kind] = {}

    def put(self, role: Role, layer: int | None, tensor: Tensor) -> None:
        """Packs one tensor; see `backend.ModelBuilder.put`."""
        if (role, layer) in self._places:
            raise KernelError(f"expected one tensor for {_place(role, layer)}, got a second: {tensor.name}")
        if (layer is None) != (role in GLOBAL_ROLES) or (layer is not None and not 0 <= layer < self._spec.layers):
            raise KernelError(f"expected a layer of 0 to {self._spec.layers - 1} or none as {role} has, got {layer}")
        if role not in (*self._spec.global_roles, *self._spec.block_roles):
            raise KernelError(f"expected no {role} in this model, got {tensor.name}")
        if role in VECTOR_ROLES:
            self._places[role, layer] = self._put_vector(role, layer, tensor)
        else:
            self._places[role, layer] = self._put_matrix(role, layer, tensor)

    def finish(
        self, *, kv_blocks: int, max_tokens: int, max_sequences: int, window_blocks: int | None = None
    ) -> CpuModel:
        """Makes the model; see `backend.ModelBuilder.finish`."""
        window_blocks = kv_blocks if window_blocks is None else window_blocks
        if min(kv_blocks, max_tokens, max_sequences, window_blocks or not self._spec.window) < 1:
            counts = f"{kv_blocks=} {max_tokens=} {max_sequences=} {window_blocks=}"
            raise KernelError(f"expected counts of at least 1, got {counts}")
        self._check_complete()
        self._workers.shutdown()
        dense = [role for (role, _), kind in self._kinds.items() if kind in DENSE_BYTES]
        capacity = Capacity(
            kv_blocks=kv_blocks,
            window_blocks=window_blocks,
            max_tokens=max_tokens,
            max_sequences=max_sequences,
            threads=self._threads,
            plain=any(role is not Role.DOWN for role in dense),
            hidden_plain=Role.DOWN in dense,
            kv_type=self._kernels.kv_type,
            strip=SQUARES_STRIP if self._kernels.isa is Isa.AMX else STRIP,
        )
        memory = StepMemory(self._spec, capacity)
        for row, (keys, values) in zip(self._layers, memory.kv, strict=True):
            row[Layer.KEYS // WORD], row[Layer.VALUES // WORD] = keys, values
        for index, row in enumerate(self._layers):
            row[Layer.ROPE // WORD] = memory.ropes[self._spec.rope_of(index)]
            window = self._spec.window_of(index)
            row[Layer.WINDOW // WORD] = window
            row[Layer.TABLES // WORD] = Context.WINDOW_TABLES if window else Context.TABLES
        head = Role.EMBEDDING if self._spec.tied_head else Role.OUTPUT
        memory.put(Context.LAYERS, address(self._layers))
        memory.put(Context.EMBEDDING, self._places[Role.EMBEDDING, None])
        memory.put(Context.HEAD, self._places[head, None])
        memory.put(Context.OUTPUT_NORM, self._places[Role.OUTPUT_NORM, None])
        model = CpuModel(self._kernels, self._spec, capacity, self._arena, memory, keep=(self._layers, self._matrices))
        model.warm_up()
        return model

    def _put_vector(self, role: Role, layer: int | None, tensor: Tensor) -> int:
        expected = self._spec.shape(role)
        if tensor.shape != expected or tensor.format not in (Format.F32, Format.F16):
            raise FormatError(
                f"expected {tensor.name} as F32 or F16 of shape {expected}, got {tensor.format.name} {tensor.shape}"
            )
        stored = np.dtype("<f4" if tensor.format is Format.F32 else "<f2")
        if tensor.data.nbytes != expected[0] * stored.itemsize:
            raise FormatError(
                f"expected {expected[0] * stored.itemsize} bytes for {tensor.name}, got {tensor.data.nbytes}"
            )
        values, order = np.ascontiguousarray(tensor.data).view(stored), self._order(role)
        area = self._bias(role, layer) if role in _BIASES else self._arena.take(expected[0] * 4).view(np.float32)
        area[:] = values if order is None else values[order]
        if layer is not None and role in _VECTORS:
            self._layers[layer, _VECTORS[role] // WORD] = address(area)
        return address(area)

    def _bias(self, role: Role, layer: int | None) -> NDArray[np.float32]:
        """A bias's part of the row for queries, keys and values; whole tiles, as head_dim is a multiple of 16."""
        sizes = [self._spec.shape(one)[0] for one in _BIASES]
        if layer not in self._bias_rows:
            self._bias_rows[layer] = self._arena.take(4 * sum(sizes)).view(np.float32)
            self._layers[layer, Layer.BIAS // WORD] = address(self._bias_rows[layer])
        index = _BIASES.index(role)
        return self._bias_rows[layer][sum(sizes[:index]) : sum(sizes[: index + 1])]

    def _put_matrix(self, role: Role, layer: int | None, tensor: Tensor) -> int:
        rows, columns = matrix_shape(self._spec, role)
        kind = check_matrix(tensor, rows, columns)
        area = self._arena.take(packed_bytes(kind, rows, columns))
        pack(self._kernels.pack, tensor, kind, area, order=self._order(role), workers=self._workers)
        self._kinds[role, layer] = kind
        if layer is None:
            words = self._matrices[0 if role is Role.EMBEDDING else 1]
        else:
            first = _MATRICES[role] // WORD
            words = self._layers[layer, first : first + Matrix.END // WORD]
        values = {
            Matrix.KIND: int(kind),
            Matrix.ROWS: rows,
            Matrix.BLOCKS: columns // BLOCK,
            Matrix.TILES: tiles(rows),
            Matrix.TILE_BYTES: packed_bytes(kind, TILE_ROWS, columns),
            Matrix.DATA: address(area),
            Matrix.FEW: FEW_COLUMNS if kind in DENSE_BYTES or QUANTISED[kind].plain else FEW_COLUMNS_DECODED,
        }
        for word, value in values.items():
            words[word // WORD] = value
        return address(words)

    def _order(self, role: Role) -> NDArray[np.int64] | None:
        """The order of a tensor's rows that turns adjacent pairs into split halves (clause 3.4); None: as stored."""
        spec = self._spec
        heads = {
            Role.QUERY: spec.heads,
            Role.QUERY_BIAS: spec.heads,
            Role.QUERY_NORM: 1,
            Role.KEY: spec.kv_heads,
            Role.KEY_BIAS: spec.kv_heads,
            Role.KEY_NORM: 1,
        }.get(role)
        if spec.rope_style is not RopeStyle.NORM or heads is None:
            return None
        return rope_order(heads, spec.head_dim, spec.rope_dim)

    def _check_complete(self) -> None:
        wanted: list[tuple[Role, int | None]] = [(role, None) for role in self._spec.global_roles]
        wanted += [(role, layer) for layer in range(self._spec.layers) for role in self._spec.block_roles]
        missing = [_place(*place) for place in wanted if place not in self._places]
        if missing:
            raise KernelError(f"expected a tensor for each place, {len(missing)} are missing: {', '.join(missing[:4])}")


def _place(role: Role, layer: int | None) -> str:
    return str(role) if layer is None else f"{role} of layer {layer}"


def matrix_shape(spec: DecoderSpec, role: Role) -> tuple[int, int]:
    """Rows and columns of the matrix in a role."""
    rows, columns = spec.shape(role)
    return rows, columns


def check_spec(spec: DecoderSpec) -> None:
    """Raises FormatError unless the kernels can run this shape."""
    positive = (
        spec.layers,
        spec.dim,
        spec.heads,
        spec.kv_heads,
        spec.head_dim,
        spec.feed_forward_dim,
        spec.vocab,
        spec.context,
    )
    if min(positive) < 1 or spec.layers > _MOST_LAYERS:
        raise FormatError(f"expected positive sizes and at most {_MOST_LAYERS} layers, got {spec}")
    for name, value, step in (
        ("dim", spec.dim, BLOCK),
        ("heads * head_dim", spec.heads * spec.head_dim, BLOCK),
        ("feed_forward_dim", spec.feed_forward_dim, BLOCK),
        ("head_dim", spec.head_dim, _HEAD_STEP),
        ("rope_dim", spec.rope_dim, _HEAD_STEP),
        ("heads", spec.heads, spec.kv_heads),
    ):
        if value < 1 or value % step:
            raise FormatError(f"expected {name} to be a multiple of {step}, got {value}")
    if spec.rope_dim > spec.head_dim:
        raise FormatError(f"expected rope_dim of at most head_dim {spec.head_dim}, got {spec.rope_dim}")
    if not (spec.norm_epsilon >= 0 and spec.rope_base > 0):
        raise FormatError(f"expected norm_epsilon >= 0 and rope_base > 0, got {spec.norm_epsilon} and {spec.rope_base}")
    _check_features(spec)


def _check_features(spec: DecoderSpec) -> None:
    """Refuses by name what the kernels cannot do with an optional part (clause 10.5)."""
    for name, value in (("embedding_scale", spec.embedding_scale), ("query_scale", spec.score_scale)):
        if not (math.isfinite(value) and value > 0):
            raise FormatError(f"expected {name} to be positive and finite, got {value}")
    for name, value in (("attention_cap", spec.attention_cap), ("logit_cap", spec.logit_cap)):
        if not (math.isfinite(value) and value >= 0):
            raise FormatError(f"expected {name} to be finite and at least 0, got {value}")
    for rope in spec.rope_tables:
        if len(rope.frequencies) != spec.rope_dim // 2 or not all(map(math.isfinite, (rope.factor, *rope.frequencies))):
            raise FormatError(f"expected ropes of {spec.rope_dim // 2} finite frequencies, got {len(rope.frequencies)}")
    if len(spec.layer_ropes) not in (0, spec.layers) or not set(spec.layer_ropes) <= set(range(len(spec.rope_tables))):
        raise FormatError(
            f"expected layer_ropes to name a table for each of {spec.layers} layers, got {spec.layer_ropes}"
        )
    if len(spec.layer_windows) not in (0, spec.layers) or min(spec.layer_windows, default=0) < 0:
        raise FormatError(f"expected layer_windows of 0 or more for each layer, got {spec.layer_windows}")
