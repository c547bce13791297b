"""How matrices and activations lie in memory for the kernels (README clauses 2 and 3).

A matrix is cut into tiles of 16 rows; a tile is one record per 32 columns, so that a kernel reads it front to back.
An activation row is quantised to int8 per 32 elements; a record holds them with their scale and sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .formats import Format

TILE_ROWS = 16
"""Rows of one tile: the 32-bit lanes of an AVX-512 register."""
BLOCK = 32
"""Columns of one record, the block length of the GGUF formats."""
LINE = 64
"""Bytes of one line (16 rows x 4 weights), and of a cache line."""
ALIGNMENT = 64


class Kind(IntEnum):
    """A matrix layout, as the kernels number them."""

    Q4_1 = 0
    Q4_0 = 1
    Q8_0 = 2
    F16 = 3
    F32 = 4


KINDS = {
    Format.Q4_1: Kind.Q4_1,
    Format.Q4_0: Kind.Q4_0,
    Format.Q8_0: Kind.Q8_0,
    Format.F16: Kind.F16,
    Format.F32: Kind.F32,
}

RECORD_BYTES = {
    Kind.Q4_1: 2 * 2 * TILE_ROWS + 4 * LINE,
    Kind.Q4_0: 2 * TILE_ROWS + 4 * LINE,
    Kind.Q8_0: 2 * TILE_ROWS + 8 * LINE,
    Kind.F16: 2 * TILE_ROWS * BLOCK,
    Kind.F32: 4 * TILE_ROWS * BLOCK,
}
"""Bytes of 16 rows x 32 columns: the same as stored."""

ZERO_POINT = {Kind.Q4_1: 0, Kind.Q4_0: 8, Kind.Q8_0: 128}
"""What is subtracted from an unsigned stored weight."""


def round_up(value: int, multiple: int) -> int:
    """The next multiple at or above a value."""
    return -(-value // multiple) * multiple


@dataclass(frozen=True, slots=True)
class ActRecord:
    """Where the parts of 32 quantised activations lie, in bytes; the values come first.

    Attributes:
        size: Bytes of the record.
        scale: Offset of the float32 scale.
        weighted: Offset of float32 scale * sum.
        sum: Offset of the int32 sum.
    """

    size: int
    scale: int
    weighted: int
    sum: int


NARROW = ActRecord(size=48, scale=32, weighted=36, sum=40)
"""int8[32], then scale, weighted, sum."""
WIDE = ActRecord(size=80, scale=64, weighted=68, sum=72)
"""16 bits as int8[32] high and int8[32] low, value = WIDE_STEP * high + low; then scale, weighted, sum. After the row's
records the same values follow as int16, in the order 0 2 1 3 of each four."""
WIDE_LOW = 32
"""Offset of the low bytes."""
WIDE_WHOLE_BYTES = 2 * BLOCK
"""Bytes of a block in the int16 form."""
WIDE_STEP = 254
"""Low steps in a high one: what is left of a value is at most half a high step, so 127 low ones."""


def activation_stride(width: int, record: ActRecord = NARROW) -> int:
    """Bytes of one quantised activation row of this many elements."""
    whole = WIDE_WHOLE_BYTES if record is WIDE else 0
    return round_up(width // BLOCK * (record.size + whole), ALIGNMENT)


def tiles(rows: int) -> int:
    """Tiles that hold this many rows; the last is filled up with zero rows."""
    return -(-rows // TILE_ROWS)


def packed_bytes(kind: Kind, rows: int, columns: int) -> int:
    """Bytes of a packed matrix."""
    return tiles(rows) * (columns // BLOCK) * RECORD_BYTES[kind]
