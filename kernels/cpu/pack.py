"""Turns a stored matrix into tiles (layouts.py): 16 rows side by side, one record after another, no byte added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import FormatError
from ..layouts import BLOCK, KINDS, Kind, packed_bytes, record_blocks, tiles
from .arena import address

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from ..backend import Tensor

_SHARE_TILES = 64
"""Tiles of one call, at least: a few hundred microseconds of work."""


def check_matrix(tensor: Tensor, rows: int, columns: int) -> Kind:
    """The layout for a tensor that must have this shape.

    Raises:
        FormatError: wrong shape, data size, or a width that is no multiple of the format's block.
    """
    if tensor.shape != (rows, columns):
        raise FormatError(f"expected {tensor.name} to have shape {(rows, columns)}, got {tensor.shape}")
    kind = KINDS[tensor.format]
    step = BLOCK * record_blocks(kind)
    if columns % step or not rows or not columns:
        raise FormatError(f"expected {tensor.name} to have a row length that is a multiple of {step}, got {columns}")
    expected = rows * tensor.format.row_bytes(columns)
    if tensor.data.dtype != np.uint8 or tensor.data.shape != (expected,):
        raise FormatError(
            f"expected {tensor.name} to have {expected} bytes, got {tensor.data.shape} of {tensor.data.dtype}"
        )
    return kind


def pack(
    kernel: Callable[..., None],
    tensor: Tensor,
    kind: Kind,
    out: NDArray[np.uint8],
    *,
    order: NDArray[np.int64] | None = None,
    workers: Executor | None = None,
) -> None:
    """Writes the tiles of a checked matrix.

    Args:
        kernel: `pack` of packing.py.
        tensor: The matrix, rows x columns.
        kind: From `check_matrix`.
        out: Zeroed. Shape: (packed_bytes(kind, rows, columns),), uint8.
        order: Row r of the result is row order[r] of the tensor; None: the same row.
        workers: Threads that share the tiles; None: the caller does them all.
    """
    rows, columns = tensor.shape
    if len(out) != packed_bytes(kind, rows, columns):
        raise FormatError(f"expected {packed_bytes(kind, rows, columns)} bytes for {tensor.name}, got {len(out)}")
    stored = np.ascontiguousarray(tensor.data)
    records, count = columns // BLOCK // record_blocks(kind), tiles(rows)
    place = 0 if order is None else address(order)

    def share(first: int) -> None:
        end = min(count, first + _SHARE_TILES)
        kernel(int(kind), address(stored), len(stored) // rows, place, rows, first, end, records, address(out))

    starts = range(0, count, _SHARE_TILES)
    for _ in map(share, starts) if workers is None else workers.map(share, starts):
        pass


def rope_order(heads: int, head_dim: int, rope_dim: int) -> NDArray[np.int64]:
    """Row order that turns adjacent pairs into split halves, so that one kernel rotates both styles (clause 3.4)."""
    head = np.arange(head_dim)
    head[:rope_dim] = np.concatenate([np.arange(0, rope_dim, 2), np.arange(1, rope_dim, 2)])
    return (np.arange(heads)[:, None] * head_dim + head[None, :]).reshape(-1).astype(np.int64)
