"""Turns a stored matrix into tiles (layouts.py): 16 rows side by side, one record after another, no byte added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FormatError
from ..formats import Format
from ..layouts import (
    BLOCK,
    DENSE_BYTES,
    KINDS,
    QUANTISED,
    RECORD_BYTES,
    TILE_ROWS,
    Kind,
    packed_bytes,
    record_blocks,
)
from ..stored import Stored, split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ..backend import Tensor
    from ..layouts import Quantised

_PIECE_BYTES = 4 << 20
"""Stored bytes that are taken apart at a time: what that needs besides stays in the cache."""
_NIBBLES_AT = {Format.Q4_0: 2, Format.Q4_1: 4, Format.Q5_0: 6, Format.Q5_1: 8, Format.IQ4_NL: 2}
"""Formats whose stored bytes of low nibbles are a tile's already, and where they begin in a block."""


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


def pack(tensor: Tensor, kind: Kind, out: NDArray[np.uint8], order: NDArray[np.intp] | None = None) -> None:
    """Writes the tiles of a checked matrix.

    Args:
        tensor: The matrix, rows x columns.
        kind: From `check_matrix`.
        out: Shape: (packed_bytes(kind, rows, columns),), uint8.
        order: Row r of the result is row order[r] of the tensor; None: the same row.
    """
    rows, columns = tensor.shape
    if len(out) != packed_bytes(kind, rows, columns):
        raise FormatError(f"expected {packed_bytes(kind, rows, columns)} bytes for {tensor.name}, got {len(out)}")
    records = columns // BLOCK // record_blocks(kind)
    tiles = out.reshape(-1, records, RECORD_BYTES[kind])
    for first, stored in _pieces(tensor, order):
        piece = tiles[first : first + len(stored) // TILE_ROWS]
        if kind in DENSE_BYTES:
            piece[:] = _dense(stored, DENSE_BYTES[kind])
        else:
            _quantised(piece.reshape(len(piece), records, -1), stored, tensor.format, QUANTISED[kind])


def _pieces(tensor: Tensor, order: NDArray[np.intp] | None) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Pairs of a tile's number and the stored rows from there on, the last filled up with rows of zero bytes."""
    rows = tensor.shape[0]
    stored = np.ascontiguousarray(tensor.data).reshape(rows, -1)
    step = max(1, _PIECE_BYTES // (stored.shape[1] * TILE_ROWS)) * TILE_ROWS
    for start in range(0, rows, step):
        end = min(rows, start + step)
        piece = stored[start:end] if order is None else stored[order[start:end]]
        if (end - start) % TILE_ROWS:
            missing = -(end - start) % TILE_ROWS
            piece = np.concatenate([piece, np.zeros((missing, stored.shape[1]), np.uint8)])
        yield start // TILE_ROWS, piece


def _dense(rows: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """[tiles][records][32 columns][16 rows] of elements of 2 or 4 bytes."""
    elements = (
        np.ascontiguousarray(rows).view(f"<u{size}").reshape(-1, TILE_ROWS, rows.shape[1] // size // BLOCK, BLOCK)
    )
    tiled = np.ascontiguousarray(elements.transpose(0, 2, 3, 1))
    return tiled.view(np.uint8).reshape(len(elements), elements.shape[2], -1)


def _quantised(tiles: NDArray[np.uint8], rows: NDArray[np.uint8], fmt: Format, layout: Quantised) -> None:
    """Fills whole records. Shape of `tiles`: (tiles, records, record bytes)."""
    count, records = tiles.shape[:2]
    stored = split(fmt, rows.reshape(-1))
    shape = (count, TILE_ROWS, records)
    at = 0
    for halves in (stored.scale, stored.minimum):
        if halves is not None:
            _put(tiles, at, halves.reshape(shape).transpose(0, 2, 1))
            at += 2 * TILE_ROWS
    if stored.fine_scale is not None:
        _put(tiles, at, _fine(stored, shape, layout))
    bodies = tiles[:, :, layout.head :].reshape(count, records, layout.blocks, layout.block_bytes)
    weights = stored.weights.reshape(*shape, layout.blocks, BLOCK)
    if fmt in _NIBBLES_AT:
        start = _NIBBLES_AT[fmt]
        nibbles = rows.reshape(*shape, 1, fmt.block_bytes)[..., start : start + BLOCK // 2]
        _put(bodies, 0, _lines(nibbles))
    else:
        _put(bodies, 0, _plane(weights & np.uint8((1 << layout.low) - 1) if layout.high else weights, layout.low))
    if layout.high:
        _put(bodies, layout.low_bytes, _plane(weights >> np.uint8(layout.low), layout.high))


def _put(area: NDArray[np.uint8], at: int, values: NDArray[Any]) -> None:
    """Writes values to every record, or every block of it, from byte `at` on."""
    flat = np.ascontiguousarray(values).view(np.uint8).reshape(*area.shape[:-1], -1)
    area[..., at : at + flat.shape[-1]] = flat


def _plane(weights: NDArray[np.uint8], bits: int) -> NDArray[np.uint8] | NDArray[np.uint32]:
    """Weights of 1, 2, 4 or 8 bits in a tile's order. Shape of `weights`: (tiles, 16, records, blocks, 32)."""
    lead = weights.shape[:-1]
    if bits == 1:
        spread = weights.reshape(*lead, 8, 4).transpose(0, 2, 3, 4, 1, 5)
        return np.packbits(spread.reshape(*spread.shape[:-2], 4 * TILE_ROWS), axis=-1, bitorder="little")
    if bits == 2:
        fields = weights.reshape(*lead, 2, 4, 4)
        packed = _joined([fields[..., index, :] for index in range(4)], 2)
    elif bits == 4:
        packed = _joined([weights[..., :16], weights[..., 16:]], 4)
    else:
        packed = weights
    return _lines(packed.reshape(*lead, -1))


def _joined(fields: list[NDArray[np.uint8]], bits: int) -> NDArray[np.uint8]:
    """Fields of so many bits put into bytes, the first lowest."""
    whole = fields[0]
    for index, field in enumerate(fields[1:], 1):
        whole = whole | (field << np.uint8(bits * index))
    return whole


def _lines(packed: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Words of 4 bytes, the 16 rows' side by side. Shape of `packed`: (tiles, 16, records, blocks, bytes)."""
    return np.ascontiguousarray(packed).view("<u4").transpose(0, 2, 3, 4, 1)


def _fine(stored: Stored, shape: tuple[int, int, int], layout: Quantised) -> NDArray[np.uint8]:
    """A record's integer factors by block, laid out as `records.py` says. Shape: (tiles, records, bytes)."""
    scales = _by_block(stored.fine_scale, shape, layout)
    minima = None if stored.fine_minimum is None else _by_block(stored.fine_minimum, shape, layout)
    if layout.halves == 2 and minima is not None:  # Q2_K: 4 bits each
        parts = [_joined([scales, minima], 4)]
    elif layout.codebook:  # IQ4_XS: 6 bits, one for a block
        whole = (scales + 32).astype(np.uint8)[:, :, :, 0]
        low, high = whole & np.uint8(15), whole >> np.uint8(4)
        parts = [_joined([low[:, :, 0::2], low[:, :, 1::2]], 4)]
        parts.append(_joined([high[:, :, index::4] for index in range(4)], 2))
    elif layout.bits == 6:  # Q6_K: 8 bits, two for a block
        parts = [scales]
    else:  # two of 6 bits for a block: scale and minimum, or the scales of both halves
        if minima is None:
            first, second = (scales[:, :, :, 0] + 32).astype(np.uint8), (scales[:, :, :, 1] + 32).astype(np.uint8)
        else:
            first, second = scales[:, :, :, 0], minima[:, :, :, 0]
        rest = second >> np.uint8(2)
        parts = [_joined([first, second & np.uint8(3)], 6), _joined([rest[:, :, 0::2], rest[:, :, 1::2]], 4)]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=-1).astype(np.uint8)


def _by_block(factors: Any, shape: tuple[int, int, int], layout: Quantised) -> NDArray[np.uint8]:
    """Shape: (tiles, records, blocks, halves, 16), uint8 (signed factors as their bits)."""
    tiled = factors.view(np.uint8).reshape(*shape, layout.blocks, layout.halves)
    return np.ascontiguousarray(tiled.transpose(0, 2, 3, 4, 1))


def rope_order(heads: int, head_dim: int, rope_dim: int) -> NDArray[np.intp]:
    """Row order that turns adjacent pairs into split halves, so that one kernel rotates both styles (clause 3.4)."""
    head = np.arange(head_dim)
    head[:rope_dim] = np.concatenate([np.arange(0, rope_dim, 2), np.arange(1, rope_dim, 2)])
    return (np.arange(heads)[:, None] * head_dim + head[None, :]).reshape(-1).astype(np.intp)
