"""How matrices and activations lie in memory for the kernels (README clauses 2 and 3).

A matrix is cut into tiles of 16 rows; a tile is one record after another, so that a kernel reads it front to back. A
record holds 32 columns, or 256 in the K formats, and as many bytes as the stored rows do. An activation row is
quantised to int8 per 32 elements; a record holds them with their scale and sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .formats import Format

TILE_ROWS = 16
"""Rows of one tile: the 32-bit lanes of an AVX-512 register."""
BLOCK = 32
"""Columns of one block, which the activations are scaled by: the block length of GGUF's simple formats."""
SUPER_BLOCKS = 8
"""Blocks of one record of a K format."""
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
    BF16 = 5
    Q5_0 = 6
    Q5_1 = 7
    Q2_K = 8
    Q3_K = 9
    Q4_K = 10
    Q5_K = 11
    Q6_K = 12
    IQ4_NL = 13
    IQ4_XS = 14


KINDS = {fmt: Kind[fmt.name] for fmt in Format}


@dataclass(frozen=True, slots=True)
class Quantised:
    """What a record of a quantised kind holds for 16 rows: its head, then its blocks.

    Attributes:
        low: Bits of a weight in its low plane: 2, 4 or 8.
        high: Bits of a weight in its high plane: 0, 1 or 2.
        head: Bytes of the head: float16 scale[16], then float16 minimum[16] if there are any, then `scales`.
        blocks: Blocks of 32 columns: 1, or SUPER_BLOCKS.
        halves: Scales of a block and row: 1, or 2 of 16 columns each.
        minimum: Whether a scale has a minimum beside it.
        zero: What is subtracted from an unsigned stored weight.
        codebook: Whether a stored weight is an index into CODEBOOK.
    """

    low: int
    high: int
    head: int
    blocks: int = 1
    halves: int = 1
    minimum: bool = False
    zero: int = 0
    codebook: bool = False

    @property
    def low_bytes(self) -> int:
        """Bytes of a block's low plane."""
        return TILE_ROWS * BLOCK * self.low // 8

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.low_bytes + TILE_ROWS * BLOCK * self.high // 8

    @property
    def record_bytes(self) -> int:
        """Bytes of a record."""
        return self.head + self.blocks * self.block_bytes

    @property
    def bits(self) -> int:
        """Bits of an unsigned weight as the products see it."""
        return 8 if self.codebook else self.low + self.high

    @property
    def plain(self) -> bool:
        """Whether every line of a block holds whole weights, so that lines can be read in a loop."""
        return self.blocks == 1 and self.low >= 4 and self.high == 0 and not self.codebook


_SCALE = 2 * TILE_ROWS
"""Bytes of one float16 for each row."""

QUANTISED = {
    Kind.Q4_1: Quantised(low=4, high=0, head=2 * _SCALE, minimum=True),
    Kind.Q4_0: Quantised(low=4, high=0, head=_SCALE, zero=8),
    Kind.Q8_0: Quantised(low=8, high=0, head=_SCALE, zero=128),
    Kind.Q5_0: Quantised(low=4, high=1, head=_SCALE, zero=16),
    Kind.Q5_1: Quantised(low=4, high=1, head=2 * _SCALE, minimum=True),
    Kind.Q2_K: Quantised(low=2, high=0, head=2 * _SCALE + 16 * TILE_ROWS, blocks=SUPER_BLOCKS, halves=2, minimum=True),
    Kind.Q3_K: Quantised(low=2, high=1, head=_SCALE + 12 * TILE_ROWS, blocks=SUPER_BLOCKS, halves=2, zero=4),
    Kind.Q4_K: Quantised(low=4, high=0, head=2 * _SCALE + 12 * TILE_ROWS, blocks=SUPER_BLOCKS, minimum=True),
    Kind.Q5_K: Quantised(low=4, high=1, head=2 * _SCALE + 12 * TILE_ROWS, blocks=SUPER_BLOCKS, minimum=True),
    Kind.Q6_K: Quantised(low=4, high=2, head=_SCALE + 16 * TILE_ROWS, blocks=SUPER_BLOCKS, halves=2, zero=32),
    Kind.IQ4_NL: Quantised(low=4, high=0, head=_SCALE, zero=128, codebook=True),
    Kind.IQ4_XS: Quantised(low=4, high=0, head=_SCALE + 6 * TILE_ROWS, blocks=SUPER_BLOCKS, zero=128, codebook=True),
}
"""The quantised kinds."""

CODEBOOK = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""Values of the 16 indices of IQ4_NL and IQ4_XS, as in ggml."""

DENSE_BYTES = {Kind.F16: 2, Kind.BF16: 2, Kind.F32: 4}
"""Bytes of an element of the float kinds, whose records are [32 columns][16 rows]."""

RECORD_BYTES = {kind: layout.record_bytes for kind, layout in QUANTISED.items()} | {
    kind: size * TILE_ROWS * BLOCK for kind, size in DENSE_BYTES.items()
}
"""Bytes of a record: the same as stored."""


def record_blocks(kind: Kind) -> int:
    """Blocks of 32 columns in a record; a row has a whole number of records."""
    return QUANTISED[kind].blocks if kind in QUANTISED else 1


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
        first: Offset of the int32 sum of the first 16.
    """

    size: int
    scale: int
    weighted: int
    sum: int
    first: int


NARROW = ActRecord(size=48, scale=32, weighted=36, sum=40, first=44)
"""int8[32], then scale, weighted, sum, first."""
WIDE = ActRecord(size=80, scale=64, weighted=68, sum=72, first=76)
"""16 bits as int8[32] high and int8[32] low, value = WIDE_STEP * high + low; then scale, weighted, sum, first. After
the row's records the same values follow as int16, in the order 0 2 1 3 of each four."""
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
    return tiles(rows) * (columns // BLOCK // record_blocks(kind)) * RECORD_BYTES[kind]
