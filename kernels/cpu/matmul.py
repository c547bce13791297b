"""Products of one tile of 16 quantised rows with a few activation columns.

Layout  A packed tile is one record after another (layouts.Quantised, read by records.py). An unpacked tile has, for
        each block of 32 columns, a byte a weight and plane, then the block's scales and minima: float32[halves][16].
        An activation column is K/32 records (layouts.ActRecord).
Thread  One call computes 16 rows x C columns over all K; lane r of a vector is row r of the tile.
Sums    Integers inside a block of 32, or its halves of 16 where they have scales of their own (exact), then per block
        in ascending order, in float32:
            sum = fma(dot - zero * sum_a, scale_w * scale_a, sum) for each half, then
            sum = fma(min_w, scale_a * sum_a, sum) for each half of a kind with minima,
        the same for every C, for packed and for unpacked tiles and for every version: clause 4.1.
Limits  K a multiple of the record's columns; |activation| <= 127; saturation bounds in dot.py.
Moves   Packed: the record's bytes once for C columns. 512 * C multiply-adds a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import (
    LINE,
    NARROW,
    QUANTISED,
    RECORD_BYTES,
    TILE_ROWS,
    WIDE,
    WIDE_LOW,
    WIDE_STEP,
    WIDE_WHOLE_BYTES,
    ActRecord,
    Kind,
)
from .dot import Avx2
from .emit import F32, I8, I32, vector
from .records import GROUP_ORDER, GROUPS, Factors, Records, planes, span, unpacked_factors, unpacked_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .dot import Dot
    from .emit import Emit

PREFETCH_BYTES = 8192
"""How far ahead packed weights are asked for: hides the memory's latency, which the core's own prefetcher does not."""
SIDES = ((0, WIDE_STEP), (WIDE_LOW, 1))
"""The bytes of a wide activation: (offset in its record, multiplier)."""
NARROW_SIDES = ((0, 1),)


class _Columns:
    """The activation columns of a product, and their running sums, which end as float32[columns][16] at `out`.

    Where integer sums take half of the registers, these are kept there all the time: as operands in memory they cost a
    store a block, which is less than LLVM's spills.

    Attributes:
        record: Their records.
        bases: Address of each one.
    """

    def __init__(
        self, k: Emit, dot: Dot, record: ActRecord, acts: Any, stride: Any, blocks: Any, count: int, out: Any
    ) -> None:
        self.k, self.dot, self.record, self._blocks, self._out = k, dot, record, blocks, out
        self.sides = SIDES if record is WIDE else NARROW_SIDES
        self._parts = range(TILE_ROWS // dot.lanes)
        self.bases = [acts]
        for _ in range(count - 1):
            self.bases.append(k.at(self.bases[-1], stride))
        real = vector(F32, dot.lanes)
        self._sums: list[list[Any]] = []
        self._ordered = ordered(dot, count, self.sides)
        if self._ordered:
            for column in range(count):
                for part in self._parts:
                    k.store(self._place(column, part), k.all(real, 0.0))
        else:
            self._sums = [[k.var(k.all(real, 0.0)) for _ in self._parts] for _ in range(count)]

    def at(self, block: Any) -> list[Any]:
        """Each column's record of a block."""
        return [self.k.at(base, self.k.times(block, self.record.size)) for base in self.bases]

    def whole_at(self, block: Any) -> list[Any]:
        """The same in the int16 form of wide activations."""
        k = self.k
        skip = k.at(k.times(self._blocks, self.record.size), k.times(block, WIDE_WHOLE_BYTES))
        return [k.at(base, skip) for base in self.bases]

    def add(self, block: Any, totals: list[list[list[Any]]], factors: Factors, zero: int) -> None:
        """Adds a block's integer sums ([half][column][part]) to the running ones."""
        k, lanes = self.k, self.dot.lanes
        for column, here in enumerate(self.at(block)):
            scale = k.load(k.at(here, self.record.scale), F32)
            spread, (sums, weighted) = k.splat(scale, lanes), act_sums(k, self.record, here, scale, len(totals))
            for part in self._parts:
                at = self._place(column, part)
                sum_ = k.load(at, vector(F32, lanes)) if self._ordered else k.get(self._sums[column][part])
                for half, scales in enumerate(factors.scales):
                    total = totals[half][column][part]
                    if zero:
                        total = k.b.sub(total, self._times(sums[half], zero))
                    sum_ = k.fma(k.b.sitofp(total, sum_.type), k.b.fmul(scales[part], spread), sum_)
                for half, minima in enumerate(factors.minima or ()):
                    sum_ = k.fma(minima[part], k.splat(weighted[half], lanes), sum_)
                if self._ordered:
                    k.store(at, sum_)
                else:
                    k.set(self._sums[column][part], sum_)

    def store(self) -> None:
        """Writes those that were in registers."""
        for column, sums in enumerate(self._sums):
            for part, sum_ in enumerate(sums):
                self.k.store(self._place(column, part), self.k.get(sum_))

    def _place(self, column: int, part: int) -> Any:
        return self.k.at(self._out, column * LINE + part * 4 * self.dot.lanes)

    def _times(self, value: Any, zero: int) -> Any:
        """An i32 times a zero point, in each lane."""
        k, lanes = self.k, self.dot.lanes
        if not self._ordered:
            return k.splat(k.b.mul(value, k.i32(zero)), lanes)
        slot = k.var(k.splat(value, lanes))
        k.in_registers([slot])  # else LLVM multiplies in a scalar register, and from there the way is long
        return k.b.mul(k.get(slot), k.all(vector(I32, lanes), zero))


def act_sums(k: Emit, record: ActRecord, here: Any, scale: Any, halves: int) -> tuple[list[Any], list[Any]]:
    """Sum of a record's activations, and scale times it, for each half."""
    whole = k.load(k.at(here, record.sum), I32)
    if halves == 1:
        return [whole], [k.load(k.at(here, record.weighted), F32)]
    first = k.load(k.at(here, record.first), I32)
    sums = [first, k.b.sub(whole, first)]
    return sums, [k.b.fmul(scale, k.b.sitofp(one, F32)) for one in sums]


def tile_kernel(dot: Dot, kind: Kind, columns: int, *, record: ActRecord = NARROW) -> Callable[..., None]:
    """Emitter of the product of a packed tile; see the module's text.

    Its arguments: packed tile, unpacked lines (ignored), activations, bytes between columns, blocks, out
    (float32[columns][16]).
    """
    layout = QUANTISED[kind]
    in_whole = dot if record is WIDE and planes(dot, kind) > 1 and isinstance(dot, Avx2) else None

    def emit(k: Emit, tile: Any, _lines: Any, acts: Any, stride: Any, blocks: Any, out: Any) -> None:
        records, sides = Records(k, dot, kind), _Columns(k, dot, record, acts, stride, blocks, columns, out)
        with k.loop(blocks if layout.blocks == 1 else k.b.udiv(blocks, k.i64(layout.blocks))) as index:
            at = k.at(tile, k.times(index, RECORD_BYTES[kind]))
            head = records.open(at)
            _ask_ahead(k, at, layout.head if layout.blocks > 1 else RECORD_BYTES[kind])
            with k.loop(k.i64(layout.blocks)) as inner:
                block, body = k.at(k.times(index, layout.blocks), inner), records.body(head, inner)
                if layout.blocks > 1:
                    _ask_ahead(k, body, layout.block_bytes)
                if in_whole is not None:
                    totals = _whole_sums(k, in_whole, records, body, sides.whole_at(block))
                elif layout.plain and columns * len(sides.sides) > 1:
                    totals = _line_sums(k, dot, records, body, sides.at(block), sides.sides)
                else:
                    totals = _group_sums(k, dot, records, body, sides.at(block), sides.sides)
                sides.add(block, totals, records.factors(head, inner), layout.zero)
        sides.store()

    return emit


def unpacked_kernel(dot: Dot, kind: Kind, columns: int, *, record: ActRecord = NARROW) -> Callable[..., None]:
    """Emitter of the product of an unpacked tile; arguments as `tile_kernel`'s, of which it ignores the packed tile."""
    layout = QUANTISED[kind]

    def emit(k: Emit, _tile: Any, lines: Any, acts: Any, stride: Any, blocks: Any, out: Any) -> None:
        sides = _Columns(k, dot, record, acts, stride, blocks, columns, out)
        with k.loop(blocks) as block:
            at = k.at(lines, k.times(block, unpacked_record(dot, kind)))
            totals = _unpacked_sums(k, dot, kind, at, sides.at(block), sides.sides)
            sides.add(block, totals, unpacked_factors_at(k, dot, kind, at), layout.zero)
        sides.store()

    return emit


def unpack_kernel(dot: Dot, kind: Kind, *, signed: bool = False) -> Callable[..., None]:
    """Emitter that spreads a packed tile, once for many columns; arguments: packed tile, blocks, lines.

    `signed`: with the zero point taken from the weights, as squares.py wants them.
    """
    layout, lanes = QUANTISED[kind], dot.lanes
    zero = layout.zero if signed else 0

    def emit(k: Emit, tile: Any, blocks: Any, lines: Any) -> None:
        records = Records(k, dot, kind)
        with k.loop(blocks if layout.blocks == 1 else k.b.udiv(blocks, k.i64(layout.blocks))) as index:
            head = records.open(k.at(tile, k.times(index, RECORD_BYTES[kind])))
            with k.loop(k.i64(layout.blocks)) as inner:
                block, body = k.at(k.times(index, layout.blocks), inner), records.body(head, inner)
                to = k.at(lines, k.times(block, unpacked_record(dot, kind)))
                for group in GROUP_ORDER:
                    for plane, vectors in enumerate(records.group(body, group)):
                        for part, weights in enumerate(vectors):
                            at = (plane * GROUPS + group) * LINE + part * LINE * lanes // TILE_ROWS
                            k.store(k.at(to, at), k.b.sub(weights, k.all(weights.type, zero)) if zero else weights)
                factors = records.factors(head, inner)
                rows = [*factors.scales, *(factors.minima or ())]
                for row, vectors in enumerate(rows):
                    for part, values in enumerate(vectors):
                        at = records.planes * GROUPS * LINE + row * LINE + part * 4 * lanes
                        k.store(k.at(to, at), values)

    return emit


def embed_quantised(dot: Dot, kind: Kind) -> Callable[..., None]:
    """Emitter that writes one row of a packed matrix as float32; arguments: tile, row in the tile, blocks, out.

    Values are scale * (weight - zero) (+ minimum), rounded as GGUF's reference does: product first, then sum. It reads
    all 16 rows and keeps one: a step looks up few rows.
    """
    layout = QUANTISED[kind]
    four_real, four_int = vector(F32, 4), vector(I32, 4)

    def emit(k: Emit, tile: Any, row: Any, blocks: Any, out: Any) -> None:
        records = Records(k, dot, kind)
        shelf = k.shelf(LINE)

        def of_row(vectors: list[Any], kind4: Any) -> Any:
            for part, values in enumerate(vectors):
                k.store(k.at(shelf, part * LINE * dot.lanes // TILE_ROWS), values)
            return k.load(k.at(shelf, k.times(row, 4)), kind4)

        with k.loop(blocks if layout.blocks == 1 else k.b.udiv(blocks, k.i64(layout.blocks))) as index:
            head = records.open(k.at(tile, k.times(index, RECORD_BYTES[kind])))
            with k.loop(k.i64(layout.blocks)) as inner:
                body, factors = records.body(head, inner), records.factors(head, inner)
                scales = [of_row(half, F32) for half in factors.scales]
                minima = [of_row(half, F32) for half in factors.minima or ()]
                to = k.at(out, k.times(k.at(k.times(index, layout.blocks), inner), 16 * GROUPS))
                for group in range(GROUPS):
                    half = group * layout.halves // GROUPS
                    raw = of_row(records.whole(body, group), vector(I8, 4))
                    whole = k.b.sub(k.b.zext(raw, four_int), k.all(four_int, layout.zero))
                    value = k.b.fmul(k.b.sitofp(whole, four_real), k.splat(scales[half], 4))
                    if minima:
                        value = k.b.fadd(value, k.splat(minima[half], 4))
                    k.store(k.at(to, 16 * group), value)

    return emit


def _ask_ahead(k: Emit, at: Any, size: int) -> None:
    for start in range(0, size, LINE):
        k.prefetch(k.at(at, PREFETCH_BYTES + start))


class _Running:
    """Running integer sums: [half][plane][column][side][part]; and int32 totals of those that were full."""

    def __init__(self, k: Emit, dot: Dot, kind: Kind, columns: int, sides: Sequence[tuple[int, int]]) -> None:
        self.k, self.dot, self.sides = k, dot, sides
        self._parts = range(TILE_ROWS // dot.lanes)
        self._slots = [
            [[[[k.var(dot.zero(k)) for _ in self._parts] for _ in sides] for _ in range(columns)]
             for _ in range(planes(dot, kind))]
            for _ in range(QUANTISED[kind].halves)
        ]  # fmt: skip
        self._span = span(dot, kind)
        self._taken = [[0] * len(half) for half in self._slots]
        self._totals: list[list[list[Any]]] = [[[None for _ in self._parts] for _ in half[0]] for half in self._slots]

    def add(self, half: int, plane: int, weights: list[Any], columns: list[Any], at: Any) -> None:
        """Adds the products of 4 weights a row with each column's activations at byte `at`.

        In a loop the running sums must take all of it, as they are finished where code is emitted.
        """
        k = self.k
        if self._taken[half][plane] == self._span:
            self._finish(half, (plane,))
        self._taken[half][plane] += 1
        for base, slots in zip(columns, self._slots[half][plane], strict=True):
            for (offset, _), side in zip(self.sides, slots, strict=True):
                four = k.load(k.at(base, at, offset), I32)
                for part in self._parts:
                    k.set(side[part], self.dot.accumulate(k, k.get(side[part]), weights[part], four))
        if ordered(self.dot, len(columns), self.sides):
            k.in_registers([slot for column in self._slots[half][plane] for side in column for slot in side])

    def totals(self) -> list[list[list[Any]]]:
        """The sums of all planes and sides: [half][column][part] of int32."""
        for half, its_planes in enumerate(self._slots):
            self._finish(half, range(len(its_planes)))
        return self._totals

    def _finish(self, half: int, which: Sequence[int]) -> None:
        """Adds running sums of these planes to the totals and empties them."""
        k, its_planes = self.k, self._slots[half]
        for column, totals in enumerate(self._totals[half]):
            for part in self._parts:
                for plane in which:
                    for (_, multiplier), side in zip(self.sides, its_planes[plane][column], strict=True):
                        one = self.dot.finish(k, k.get(side[part]), multiplier * (16 if plane else 1))
                        totals[part] = one if totals[part] is None else k.b.add(totals[part], one)
                        k.set(side[part], self.dot.zero(k))
        for plane in which:
            self._taken[half][plane] = 0


def ordered(dot: Dot, columns: int, sides: Sequence[tuple[int, int]]) -> bool:
    """Whether a product's lines stay in order: it has more sums than LLVM would keep in registers."""
    return dot.in_order and columns * len(sides) > 1


def _group_sums(
    k: Emit, dot: Dot, records: Records, body: Any, columns: list[Any], sides: Sequence[tuple[int, int]]
) -> list[list[list[Any]]]:
    """A packed block's sums, straight through."""
    running = _Running(k, dot, records.kind, len(columns), sides)
    for group in GROUP_ORDER:
        half = group * records.layout.halves // GROUPS
        for plane, weights in enumerate(records.group(body, group)):
            running.add(half, plane, weights, columns, 4 * group)
    return running.totals()


def _line_sums(
    k: Emit, dot: Dot, records: Records, body: Any, columns: list[Any], sides: Sequence[tuple[int, int]]
) -> list[list[list[Any]]]:
    """The same for a plain layout and more than a few sums, which go through a loop that LLVM must not unroll.

    Given the whole block, it reorders the products and spills what it then cannot keep in registers, unless the version
    keeps them in order.
    """
    running = _Running(k, dot, records.kind, len(columns), sides)
    steps = GROUPS * records.layout.low // 8  # lines of 4 bytes a row
    inner = min(steps, dot.lines)
    for plane in range(records.planes):
        with k.loop(k.i64(steps // inner)) as outer:
            for line in range(inner):
                step = k.at(k.times(outer, inner), line)
                for skip, weights in records.line(body, step, plane):
                    running.add(0, plane, weights, columns, k.at(k.times(step, 4), 4 * skip))
    return running.totals()


def _unpacked_sums(
    k: Emit, dot: Dot, kind: Kind, at: Any, columns: list[Any], sides: Sequence[tuple[int, int]]
) -> list[list[list[Any]]]:
    """An unpacked block's sums."""
    running = _Running(k, dot, kind, len(columns), sides)
    size = LINE * dot.lanes // TILE_ROWS
    halves = QUANTISED[kind].halves
    steps = GROUPS // halves
    inner = min(steps, dot.lines)
    for plane in range(planes(dot, kind)):
        for half in range(halves):
            with k.loop(k.i64(steps // inner)) as outer:
                for line in range(inner):
                    step = k.at(k.times(outer, inner), half * steps + line)
                    here = k.at(at, k.times(step, LINE), plane * GROUPS * LINE)
                    parts = range(TILE_ROWS // dot.lanes)
                    weights = [k.load(k.at(here, part * size), vector(I8, size)) for part in parts]
                    running.add(half, plane, weights, columns, k.times(step, 4))
    return running.totals()


def unpacked_factors_at(k: Emit, dot: Dot, kind: Kind, at: Any) -> Factors:
    """The scales and minima of an unpacked block."""
    layout, real = QUANTISED[kind], vector(F32, dot.lanes)
    first = k.at(at, planes(dot, kind) * GROUPS * LINE)

    def rows(start: int) -> list[list[Any]]:
        parts = range(TILE_ROWS // dot.lanes)
        return [
            [k.load(k.at(first, start + half * LINE + part * 4 * dot.lanes), real) for part in parts]
            for half in range(layout.halves)
        ]

    return Factors(rows(0), rows(unpacked_factors(kind)) if layout.minimum else None)


def _whole_sums(k: Emit, dot: Avx2, records: Records, body: Any, columns: list[Any]) -> list[list[list[Any]]]:
    """As `_group_sums`, from 8-bit weights and the int16 form of wide activations: half the instructions on AVX2."""
    parts = range(TILE_ROWS // dot.lanes)
    halves = records.layout.halves
    sums = [[[k.var(k.all(vector(I32, dot.lanes), 0)) for _ in parts] for _ in columns] for _ in range(halves)]

    def add(half: int, weights: list[Any], at: Any) -> None:
        for base, slots in zip(columns, sums[half], strict=True):
            even, odd = k.load(k.at(base, at), I32), k.load(k.at(base, at, 4), I32)
            for part in parts:
                k.set(slots[part], dot.accumulate_whole(k, k.get(slots[part]), weights[part], even, odd))
        if len(columns) > 1:
            k.in_registers([slot for slots in sums[half] for slot in slots])

    if records.layout.plain and len(columns) > 1:
        with k.loop(k.i64(GROUPS // dot.lines)) as outer:
            for line in range(dot.lines):
                step = k.at(k.times(outer, dot.lines), line)
                add(0, records.raw(k.at(body, k.times(step, LINE))), k.times(step, 8))
    else:
        for group in GROUP_ORDER:
            add(group * halves // GROUPS, records.whole(body, group), k.i64(8 * group))
    return [[[k.get(slot) for slot in slots] for slots in half] for half in sums]
