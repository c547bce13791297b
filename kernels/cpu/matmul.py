"""Products of one tile of 16 quantised rows with a few activation columns.

Layout  A tile is `blocks` records (layouts.RECORD_BYTES): float16 scales[16] (and minima[16] for Q4_1), then lines of
        64 bytes: 16 rows x 4 weights. A 4-bit line holds columns 4j..4j+3 in its low and 16+4j.. in its high nibbles.
        An activation column is K/32 records (layouts.ActRecord).
Thread  One call computes 16 rows x C columns over all K; lane r of a vector is row r of the tile.
Sums    Integers inside a block of 32 (exact), then per block in ascending order, in float32:
            sum = fma(dot - zero * sum_a, scale_w * scale_a, sum);  Q4_1 also  sum = fma(min_w, scale*sum_a, sum)
        the same for every C, for packed and for unpacked tiles and for every version: clause 4.1.
Limits  K a multiple of 32; |activation| <= 127; saturation bounds in dot.py.
Moves   Packed: RECORD_BYTES / 512 bytes per weight once for C columns. 512 * C multiply-adds a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import (
    LINE,
    NARROW,
    RECORD_BYTES,
    TILE_ROWS,
    WIDE,
    WIDE_LOW,
    WIDE_STEP,
    WIDE_WHOLE_BYTES,
    ZERO_POINT,
    ActRecord,
    Kind,
)
from .dot import Avx2
from .emit import F16, F32, I8, I32, vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dot import Dot
    from .emit import Emit

QUANTISED = (Kind.Q4_1, Kind.Q4_0, Kind.Q8_0)
PREFETCH_BYTES = 8192
"""How far ahead packed weights are asked for: hides the memory's latency, which the core's own prefetcher does not."""
SIDES = ((0, WIDE_STEP), (WIDE_LOW, 1))
"""The bytes of a wide activation: (offset in its record, multiplier)."""
GROUPS = 8
"""Groups of 4 columns in a block."""


def planes(dot: Dot, kind: Kind) -> int:
    """Planes of unsigned bytes that a version reads for this kind."""
    return dot.wide_planes if kind is Kind.Q8_0 else 1


def unpacked_record(dot: Dot, kind: Kind) -> int:
    """Bytes of one unpacked record: a byte a weight and plane."""
    return planes(dot, kind) * GROUPS * LINE


def _header(kind: Kind) -> int:
    return RECORD_BYTES[kind] - (8 if kind is Kind.Q8_0 else 4) * LINE


class _Reader:
    """Gives the unsigned byte vectors of one record, line by line.

    Attributes:
        steps: Lines of one plane.
    """

    def __init__(self, k: Emit, dot: Dot, kind: Kind, lines: Any, *, unpacked: bool) -> None:
        self.k, self.dot, self.kind, self.lines, self.unpacked = k, dot, kind, lines, unpacked
        self.steps = GROUPS if unpacked or kind is Kind.Q8_0 else GROUPS // 2

    def raw(self, step: Any, plane: int) -> list[Any]:
        """The bytes of line `step`, one vector a part."""
        k, size = self.k, LINE * self.dot.lanes // TILE_ROWS
        shift = GROUPS * plane * LINE if self.unpacked else 0
        at = k.at(self.lines, k.times(step, LINE), shift)
        return [k.load(k.at(at, part * size), vector(I8, size)) for part in range(TILE_ROWS // self.dot.lanes)]

    def line(self, step: Any, plane: int) -> list[tuple[int, list[Any]]]:
        """What line `step` (an i64) holds of a plane: pairs of (first group - step, one vector a part)."""
        k, raw = self.k, self.raw(step, plane)
        if self.unpacked or (self.kind is Kind.Q8_0 and self.dot.wide_planes == 1):
            return [(0, raw)]
        if self.kind is Kind.Q8_0:
            return [(0, [nibble(k, part, plane) for part in raw])]
        return [(GROUPS // 2 * high, [nibble(k, part, high) for part in raw]) for high in range(2)]


def nibble(k: Emit, raw: Any, high: int) -> Any:
    """The low or high four bits of each byte."""
    return k.b.lshr(raw, k.all(raw.type, 4)) if high else k.b.and_(raw, k.all(raw.type, 15))


def tile_kernel(
    dot: Dot, kind: Kind, columns: int, *, unpacked: bool, record: ActRecord = NARROW
) -> Callable[..., None]:
    """Emitter of the product; see the module's text.

    Its arguments: packed tile, unpacked lines (ignored when packed), activations, bytes between columns, blocks,
    out (float32[columns][16]).
    """
    parts = range(TILE_ROWS // dot.lanes)
    real = vector(F32, dot.lanes)

    def emit(k: Emit, tile: Any, lines: Any, acts: Any, stride: Any, blocks: Any, out: Any) -> None:
        bases = [acts]
        for _ in range(columns - 1):
            bases.append(k.at(bases[-1], stride))
        sums = [[k.var(k.all(real, 0.0)) for _ in parts] for _ in range(columns)]
        with k.loop(blocks) as block:
            weights = k.at(tile, k.times(block, RECORD_BYTES[kind]))
            at_lines = (
                k.at(lines, k.times(block, unpacked_record(dot, kind))) if unpacked else k.at(weights, _header(kind))
            )
            reader = _Reader(k, dot, kind, at_lines, unpacked=unpacked)
            here = [k.at(base, k.times(block, record.size)) for base in bases]
            if not unpacked:
                for line in range(RECORD_BYTES[kind] // LINE):
                    k.prefetch(k.at(weights, PREFETCH_BYTES + line * LINE))
            if record is WIDE and kind is Kind.Q8_0 and isinstance(dot, Avx2):
                skip = k.at(k.times(blocks, record.size), k.times(block, WIDE_WHOLE_BYTES))
                totals = _whole_sums(k, dot, reader, [k.at(base, skip) for base in bases])
            else:
                totals = _block_sums(k, dot, reader, here, SIDES if record is WIDE else ((0, 1),))
            for part in parts:
                scales = k.b.fpext(k.load(k.at(weights, part * 2 * dot.lanes), vector(F16, dot.lanes)), real)
                minima = None
                if kind is Kind.Q4_1:
                    at = k.at(weights, 2 * TILE_ROWS + part * 2 * dot.lanes)
                    minima = k.b.fpext(k.load(at, vector(F16, dot.lanes)), real)
                for column in range(columns):
                    total = totals[column][part]
                    scale = k.splat(k.load(k.at(here[column], record.scale), F32), dot.lanes)
                    sum_ = k.get(sums[column][part])
                    if ZERO_POINT[kind]:
                        zero = k.b.mul(k.load(k.at(here[column], record.sum), I32), k.i32(ZERO_POINT[kind]))
                        total = k.b.sub(total, k.splat(zero, dot.lanes))
                    sum_ = k.fma(k.b.sitofp(total, real), k.b.fmul(scales, scale), sum_)
                    if minima is not None:
                        weighted = k.splat(k.load(k.at(here[column], record.weighted), F32), dot.lanes)
                        sum_ = k.fma(minima, weighted, sum_)
                    k.set(sums[column][part], sum_)
        for column in range(columns):
            for part in parts:
                k.store(k.at(out, column * LINE + part * 4 * dot.lanes), k.get(sums[column][part]))

    return emit


def _block_sums(
    k: Emit, dot: Dot, reader: _Reader, columns: list[Any], sides: tuple[tuple[int, int], ...]
) -> list[list[Any]]:
    """Integer dot products of one record: [column][part] -> <lanes x i32>.

    `sides` are the bytes that make up an activation: (offset in its record, multiplier). More than a few sums at a time
    go through a loop that LLVM must not unroll: given the whole block, it reorders the products and spills what it then
    cannot keep in registers.
    """
    parts = range(TILE_ROWS // dot.lanes)
    result: list[list[Any]] = [[None for _ in parts] for _ in columns]
    several = len(columns) * len(sides) > 1
    for plane in range(planes(dot, reader.kind)):
        running = [[[k.var(dot.zero(k)) for _ in parts] for _ in sides] for _ in columns]
        inner = min(reader.steps, dot.lines if several else GROUPS)
        with k.loop(k.i64(reader.steps // inner)) as outer:
            for line in range(inner):
                step = k.at(k.times(outer, inner), line)
                for skip, weights in reader.line(step, plane):
                    for base, slots in zip(columns, running, strict=True):
                        for (offset, _), side in zip(sides, slots, strict=True):
                            four = k.load(k.at(base, k.times(step, 4), 4 * skip + offset), I32)
                            for part in parts:
                                k.set(side[part], dot.accumulate(k, k.get(side[part]), weights[part], four))
        for column, slots in enumerate(running):
            for (_, multiplier), side in zip(sides, slots, strict=True):
                for part in parts:
                    total = dot.finish(k, k.get(side[part]), multiplier * (16 if plane else 1))
                    before = result[column][part]
                    result[column][part] = total if before is None else k.b.add(before, total)
    return result


def _whole_sums(k: Emit, dot: Avx2, reader: _Reader, columns: list[Any]) -> list[list[Any]]:
    """As `_block_sums`, from 8-bit weights and the int16 form of wide activations: half the instructions on AVX2."""
    parts = range(TILE_ROWS // dot.lanes)
    sums = [[k.var(k.all(vector(I32, dot.lanes), 0)) for _ in parts] for _ in columns]
    inner = dot.lines if len(columns) > 1 else GROUPS
    with k.loop(k.i64(GROUPS // inner)) as outer:
        for line in range(inner):
            step = k.at(k.times(outer, inner), line)
            raw = reader.raw(step, 0)
            for base, slots in zip(columns, sums, strict=True):
                at = k.at(base, k.times(step, 8))
                even, odd = k.load(at, I32), k.load(k.at(at, 4), I32)
                for part in parts:
                    k.set(slots[part], dot.accumulate_whole(k, k.get(slots[part]), raw[part], even, odd))
    return [[k.get(slot) for slot in slots] for slots in sums]


def unpack_kernel(dot: Dot, kind: Kind) -> Callable[..., None]:
    """Emitter that spreads a packed tile into a byte a weight, once for many columns.

    Its arguments: packed tile, blocks, out (uint8[blocks][planes][8 groups][64]).
    """
    whole = vector(I8, LINE)

    def emit(k: Emit, tile: Any, blocks: Any, out: Any) -> None:
        with k.loop(blocks) as block:
            lines = k.at(tile, k.times(block, RECORD_BYTES[kind]), _header(kind))
            to = k.at(out, k.times(block, unpacked_record(dot, kind)))
            for line in range(GROUPS if kind is Kind.Q8_0 else GROUPS // 2):
                raw = k.load(k.at(lines, line * LINE), whole)
                if planes(dot, kind) == 1 and kind is Kind.Q8_0:
                    k.store(k.at(to, line * LINE), raw)
                else:
                    second = GROUPS if kind is Kind.Q8_0 else GROUPS // 2
                    k.store(k.at(to, line * LINE), nibble(k, raw, 0))
                    k.store(k.at(to, (line + second) * LINE), nibble(k, raw, 1))

    return emit
