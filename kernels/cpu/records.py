"""Reads a tile's records: everything in which one quantised kind differs from another, for the products above it.

Layout  layouts.Quantised. A block's low plane comes first: lines of 64 bytes, 16 rows x 4 bytes. With 4 bits, line j
        holds columns 4j..4j+3 in its low and 16+4j.. in its high nibbles; with 2 bits, line l holds columns 16l+4f..
        at bit 2f; with 8 bits, line g holds columns 4g... The high plane: of 2 bits as the low one; of 1 bit, 8 bytes
        for 4 columns, bit 4 * row + column.
        The integer factors of a head, for block j and 16 rows each:
            Q4_K Q5_K Q3_K  byte a[j], then nibble j of b: first = a mod 64, second = a / 64 + 4 b
            Q2_K            byte [j][half]: scale + 16 * minimum
            Q6_K            int8 [j][half]
            IQ4_XS          nibble j of low, then two bits j of high; minus 32
Sums    A scale is float16 times an integer below 128: exact in float32, as in ggml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite.ir import IntType

from ..layouts import CODEBOOK, LINE, QUANTISED, SUPER_BLOCKS, TILE_ROWS, Kind
from .emit import F16, F32, I1, I8, I32, vector

if TYPE_CHECKING:
    from .dot import Dot
    from .emit import Emit

GROUPS = 8
"""Groups of 4 columns in a block."""
HALF_GROUPS = GROUPS // 2
GROUP_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Groups in an order that reads each line of nibbles once."""
_BYTE, _NIBBLE, _CRUMB = 8, 4, 2
"""Bits of a weight in a plane."""
_SIX_BIT_ZERO = 32


class Head(NamedTuple):
    """A record whose head is being read; vectors, one a part."""

    at: Any
    scale: list[Any]
    minimum: list[Any] | None


class Factors(NamedTuple):
    """What a block's sums are multiplied with: [half][part] vectors of float32."""

    scales: list[list[Any]]
    minima: list[list[Any]] | None


class Records:
    """Emits the reading of one kind's records for one version of the dot products.

    Attributes:
        layout: Of the kind.
        planes: Vectors of unsigned bytes that a group's weights are split into: 1, or 2 (low and high nibbles).
    """

    def __init__(self, k: Emit, dot: Dot, kind: Kind) -> None:
        self.k, self.dot, self.kind = k, dot, kind
        self.layout = QUANTISED[kind]
        self.planes = planes(dot, kind)
        self._parts = range(TILE_ROWS // dot.lanes)
        self._size = LINE // len(self._parts)

    def open(self, at: Any) -> Head:
        """The scales (and minima) of a record, as float32."""
        size = 2 * TILE_ROWS
        minimum = [self._halves(k_at) for k_at in self._rows(at, size, 2)] if self.layout.minimum else None
        return Head(at, [self._halves(k_at) for k_at in self._rows(at, 0, 2)], minimum)

    def body(self, head: Head, block: Any) -> Any:
        """Where a block's weights begin."""
        return self.k.at(head.at, self.k.times(block, self.layout.block_bytes), self.layout.head)

    def factors(self, head: Head, block: Any) -> Factors:
        """The scales and minima of a block."""
        if self.layout.blocks == 1:
            return Factors([head.scale], None if head.minimum is None else [head.minimum])
        scales, minima = self._fine(head, block)
        whole = [self._scaled(head.scale, half) for half in scales]
        if minima is None or head.minimum is None:
            return Factors(whole, None)
        negated = [[self.k.b.fneg(value) for value in self._scaled(head.minimum, half)] for half in minima]
        return Factors(whole, negated)

    def line(self, lines: Any, step: Any, plane: int) -> list[tuple[int, list[Any]]]:
        """Of a plain layout: what line `step` (an i64) holds of a plane, as pairs of (first group - step, parts)."""
        raw = self.raw(self.k.at(lines, self.k.times(step, LINE)))
        if self.layout.low == _BYTE:
            return [(0, raw if self.planes == 1 else [self._field(part, 4 * plane, 15) for part in raw])]
        return [(HALF_GROUPS * high, [self._field(part, 4 * high, 15) for part in raw]) for high in range(2)]

    def group(self, body: Any, group: int) -> list[list[Any]]:
        """A group's weights: [plane][part] vectors of unsigned bytes."""
        if self.layout.codebook:
            table = [value + self.layout.zero for value in CODEBOOK]
            index = self._low(body, group)
            tables = [table] if self.planes == 1 else [[value & 15 for value in table], [value >> 4 for value in table]]
            return [[self.dot.look_up(self.k, one, part) for part in index] for one in tables]
        if self.planes == 1:
            return [self.whole(body, group)]
        if self.layout.low == _BYTE:
            raw = self._low(body, group)
            return [[self._field(part, shift, 15) for part in raw] for shift in (0, 4)]
        return [self._low(body, group), self._high(body, group, 0)]

    def whole(self, body: Any, group: int) -> list[Any]:
        """A group's weights as one vector of unsigned bytes a part."""
        low = self._low(body, group)
        if self.layout.codebook:
            table = [value + self.layout.zero for value in CODEBOOK]
            return [self.dot.look_up(self.k, table, part) for part in low]
        if not self.layout.high:
            return low
        high = self._high(body, group, self.layout.low)
        return [self.k.b.or_(a, b) for a, b in zip(low, high, strict=True)]

    # planes

    def _low(self, body: Any, group: int) -> list[Any]:
        bits = self.layout.low
        if bits == _BYTE:
            return self.raw(self.k.at(body, group * LINE))
        if bits == _CRUMB:
            line, field = divmod(group, 4)
            return [self._field(part, 2 * field, 3) for part in self.raw(self.k.at(body, line * LINE))]
        high, line = divmod(group, HALF_GROUPS)
        return [self._field(part, 4 * high, 15) for part in self.raw(self.k.at(body, line * LINE))]

    def _high(self, body: Any, group: int, shift: int) -> list[Any]:
        """The high plane's bits, shifted left."""
        k, at = self.k, self.k.at(body, self.layout.low_bytes)
        if self.layout.high == 1:
            word, kind = IntType(self._size), vector(I8, self._size)
            words = [k.load(k.at(at, LINE // GROUPS * group + self._size // 8 * part), word) for part in self._parts]
            masks = [k.b.bitcast(one, vector(I1, self._size)) for one in words]
            return [k.b.select(mask, k.all(kind, 1 << shift), k.all(kind, 0)) for mask in masks]
        line, field = divmod(group, 4)
        return [self._field(part, 2 * field - shift, 3 << shift) for part in self.raw(k.at(at, line * LINE))]

    def raw(self, at: Any) -> list[Any]:
        """The line at an address, one vector a part."""
        return [self.k.load(self.k.at(at, part * self._size), vector(I8, self._size)) for part in self._parts]

    def _field(self, raw: Any, shift: int, mask: int) -> Any:
        """Each byte shifted right (left when negative), then masked."""
        b, every = self.k.b, self.k.all
        if shift > 0:
            raw = b.lshr(raw, every(raw.type, shift))
        elif shift < 0:
            raw = b.shl(raw, every(raw.type, -shift))
        top = (0xFF >> shift if shift > 0 else 0xFF << -shift) & 0xFF
        return raw if top == mask else b.and_(raw, every(raw.type, mask))

    # scales

    def _rows(self, at: Any, offset: int, size: int) -> list[Any]:
        """Addresses of each part's elements of `size` bytes."""
        return [self.k.at(at, offset + part * self.dot.lanes * size) for part in self._parts]

    def _halves(self, at: Any) -> Any:
        lanes = self.dot.lanes
        return self.k.b.fpext(self.k.load(at, vector(F16, lanes)), vector(F32, lanes))

    def _scaled(self, scale: list[Any], factors: list[Any]) -> list[Any]:
        real = vector(F32, self.dot.lanes)
        return [self.k.b.fmul(a, self.k.b.sitofp(b, real)) for a, b in zip(scale, factors, strict=True)]

    def _bytes(self, at: Any, *, signed: bool = False) -> list[Any]:
        """16 bytes widened to int32."""
        lanes = self.dot.lanes
        raw = [self.k.load(one, vector(I8, lanes)) for one in self._rows(at, 0, 1)]
        return [(self.k.b.sext if signed else self.k.b.zext)(one, vector(I32, lanes)) for one in raw]

    def _bits_of(self, values: list[Any], shift: Any, mask: int) -> list[Any]:
        """Each value shifted right by an i64, then masked."""
        k, lanes = self.k, self.dot.lanes
        amount = k.splat(k.b.trunc(shift, I32), lanes)
        return [k.b.and_(k.b.lshr(value, amount), k.all(value.type, mask)) for value in values]

    def _fine(self, head: Head, block: Any) -> tuple[list[list[Any]], list[list[Any]] | None]:
        """The integer factors of a block: [half][part] of scales, and of minima if there are any."""
        k, layout = self.k, self.layout
        first = 2 * TILE_ROWS * (2 if layout.minimum else 1)
        at = k.at(head.at, first)
        if layout.codebook:
            low = self._packed(at, block, 4)
            high = self._packed(k.at(at, TILE_ROWS * SUPER_BLOCKS // 2), block, 2)
            return [self._minus(self._joined(low, high, 4))], None
        if layout.halves == 2 and layout.high != 1:
            at = k.at(at, k.times(block, 2 * TILE_ROWS))
            halves = [self._bytes(k.at(at, half * TILE_ROWS), signed=not layout.minimum) for half in range(2)]
            if not layout.minimum:
                return halves, None
            return [self._masked(half, 15) for half in halves], [self._down(half, 4) for half in halves]
        whole = self._bytes(k.at(at, k.times(block, TILE_ROWS)))
        rest = self._packed(k.at(at, TILE_ROWS * SUPER_BLOCKS), block, 4)
        one, two = self._masked(whole, 63), self._joined(self._down(whole, 6), rest, 2)
        return ([one], [two]) if layout.minimum else ([self._minus(one), self._minus(two)], None)

    def _packed(self, at: Any, block: Any, bits: int) -> list[Any]:
        """Field `block` of fields of `bits` bits, packed into bytes."""
        k = self.k
        count = k.i64(8 // bits)
        row = self._bytes(k.at(at, k.times(k.b.udiv(block, count), TILE_ROWS)))
        return self._bits_of(row, k.times(k.b.urem(block, count), bits), (1 << bits) - 1)

    def _masked(self, values: list[Any], mask: int) -> list[Any]:
        return [self.k.b.and_(value, self.k.all(value.type, mask)) for value in values]

    def _down(self, values: list[Any], bits: int) -> list[Any]:
        return [self.k.b.lshr(value, self.k.all(value.type, bits)) for value in values]

    def _joined(self, low: list[Any], high: list[Any], bits: int) -> list[Any]:
        """Low + high * 2^bits."""
        pairs = zip(low, high, strict=True)
        return [self.k.b.or_(a, self.k.b.shl(b, self.k.all(b.type, bits))) for a, b in pairs]

    def _minus(self, values: list[Any]) -> list[Any]:
        return [self.k.b.sub(value, self.k.all(value.type, _SIX_BIT_ZERO)) for value in values]


def planes(dot: Dot, kind: Kind) -> int:
    """Vectors of unsigned bytes that a version splits a group's weights of this kind into."""
    return 1 if QUANTISED[kind].bits <= dot.plane_bits else 2


def span(dot: Dot, kind: Kind) -> int:
    """Groups of 4 columns of a plane whose products a version's running sum takes before it must be finished."""
    bits = QUANTISED[kind].bits
    return dot.span(bits if bits <= dot.plane_bits else _NIBBLE)


def unpacked_record(dot: Dot, kind: Kind) -> int:
    """Bytes of a block of an unpacked tile: a byte a weight and plane, then its scales and minima as float32."""
    layout = QUANTISED[kind]
    return planes(dot, kind) * GROUPS * LINE + unpacked_factors(kind) * (2 if layout.minimum else 1)


def unpacked_factors(kind: Kind) -> int:
    """Bytes of an unpacked block's scales, and of its minima if it has any."""
    return QUANTISED[kind].halves * TILE_ROWS * 4
