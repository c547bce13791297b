"""Turns a stored matrix into tiles (layouts.py): 16 rows side by side, one record per 32 columns, no byte added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import FormatError
from ..layouts import BLOCK, KINDS, RECORD_BYTES, TILE_ROWS, Kind, packed_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import Tensor

_STORED = {
    Kind.Q4_1: np.dtype([("scale", "<u2"), ("minimum", "<u2"), ("q", "<u4", 4)]),
    Kind.Q4_0: np.dtype([("scale", "<u2"), ("q", "<u4", 4)]),
    Kind.Q8_0: np.dtype([("scale", "<u2"), ("q", "<u4", 8)]),
    Kind.F16: np.dtype([("q", "<u2", BLOCK)]),
    Kind.F32: np.dtype([("q", "<u4", BLOCK)]),
}
"""One row's block of 32, as GGUF stores it; words of 4 weights."""
_TILED = {
    Kind.Q4_1: np.dtype([("scale", "<u2", TILE_ROWS), ("minimum", "<u2", TILE_ROWS), ("q", "<u4", (4, TILE_ROWS))]),
    Kind.Q4_0: np.dtype([("scale", "<u2", TILE_ROWS), ("q", "<u4", (4, TILE_ROWS))]),
    Kind.Q8_0: np.dtype([("scale", "<u2", TILE_ROWS), ("q", "<u4", (8, TILE_ROWS))]),
    Kind.F16: np.dtype([("q", "<u2", (BLOCK, TILE_ROWS))]),
    Kind.F32: np.dtype([("q", "<u4", (BLOCK, TILE_ROWS))]),
}
"""One record of a tile."""
_TO_UNSIGNED = np.uint32(0x80808080)
"""Adds 128 to each of four signed bytes."""


def check_matrix(tensor: Tensor, rows: int, columns: int) -> Kind:
    """The layout for a tensor that must have this shape.

    Raises:
        FormatError: wrong shape, format, data size, or a width that is no multiple of 32.
    """
    if tensor.shape != (rows, columns):
        raise FormatError(f"expected {tensor.name} to have shape {(rows, columns)}, got {tensor.shape}")
    kind = KINDS.get(tensor.format)
    if kind is None:
        raise FormatError(
            f"expected {tensor.name} in one of {', '.join(f.name for f in KINDS)}, got {tensor.format.name}"
        )
    if columns % BLOCK or not rows or not columns:
        raise FormatError(f"expected {tensor.name} to have a row length that is a multiple of {BLOCK}, got {columns}")
    expected = rows * tensor.format.row_bytes(columns)
    if tensor.data.dtype != np.uint8 or tensor.data.shape != (expected,):
        raise FormatError(
            f"expected {tensor.name} to have {expected} bytes, got {tensor.data.shape} of {tensor.data.dtype}"
        )
    return kind


def pack(tensor: Tensor, kind: Kind, out: NDArray[np.uint8], order: NDArray[np.intp] | None = None) -> None:
    """Writes the tiles of a checked matrix.

    Args:
        tensor: The matrix, rows x columns.
        kind: From `check_matrix`.
        out: Zeroed. Shape: (packed_bytes(kind, rows, columns),), uint8.
        order: Row r of the result is row order[r] of the tensor; None: the same row.
    """
    rows, columns = tensor.shape
    blocks = columns // BLOCK
    if len(out) != packed_bytes(kind, rows, columns):
        raise FormatError(f"expected {packed_bytes(kind, rows, columns)} bytes for {tensor.name}, got {len(out)}")
    stored = np.ascontiguousarray(tensor.data).view(_STORED[kind]).reshape(rows, blocks)
    if order is not None:
        stored = stored[order]
    tiled = out.view(_TILED[kind]).reshape(-1, blocks)
    whole = rows // TILE_ROWS
    _fill(tiled[:whole], stored[: whole * TILE_ROWS].reshape(whole, TILE_ROWS, blocks), kind)
    if rows % TILE_ROWS:
        rest = np.zeros((1, TILE_ROWS, blocks), _STORED[kind])
        rest[0, : rows % TILE_ROWS] = stored[whole * TILE_ROWS :]
        _fill(tiled[whole:], rest, kind)


def _fill(tiled: NDArray[np.void], stored: NDArray[np.void], kind: Kind) -> None:
    for name in ("scale", "minimum"):
        if name in (_STORED[kind].names or ()):
            tiled[name] = stored[name].transpose(0, 2, 1)
    words = stored["q"].transpose(0, 2, 3, 1)
    if kind is Kind.Q8_0:
        np.bitwise_xor(words, _TO_UNSIGNED, out=tiled["q"])
    else:
        tiled["q"] = words


def rope_order(heads: int, head_dim: int, rope_dim: int) -> NDArray[np.intp]:
    """Row order that turns adjacent pairs into split halves, so that one kernel rotates both styles (clause 3.4)."""
    head = np.arange(head_dim)
    head[:rope_dim] = np.concatenate([np.arange(0, rope_dim, 2), np.arange(1, rope_dim, 2)])
    return (np.arange(heads)[:, None] * head_dim + head[None, :]).reshape(-1).astype(np.intp)


assert all(_TILED[kind].itemsize == RECORD_BYTES[kind] for kind in Kind)  # noqa: S101 — two tables must agree
