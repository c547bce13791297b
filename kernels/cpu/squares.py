"""Products of an unpacked tile with 16 activation columns or more, on tile registers (tile_registers.py).

Layout  As matmul.py's unpacked tile, but its weights are signed: their zero point is taken away when it is unpacked.
        Activation columns in records (layouts.ActRecord): a register's row is 32 bytes of one, or 16.
Thread  One call computes 16 rows x n columns over all K in squares of 16 columns, the last of which may begin inside
        the one before and compute some columns again. A vector is one column's sums.
Sums    Those of matmul.py, bit for bit: int32 inside a block of 32 (or a half of 16 with a scale of its own), then its
        float32 sequence. High and low bytes of wide activations have sums of their own, below 2^24, so
        fma(float(high), 254, float(low)) rounds once, as the conversion of their integer sum would.
Limits  As matmul.py, and n >= 16.
Moves   A square's step: 8 lines of weights, 16 rows of activations, 1 KiB of sums to the stack and back.

The sums of a few blocks are computed first, then all are scaled: for a hundred cycles after an operation on a tile
register, a core of Emerald Rapids starts one vector instruction of 512 bits a cycle, not two. A register is
stored while the next product runs, which otherwise would not overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..layouts import BLOCK, LINE, NARROW, QUANTISED, TILE_ROWS, WIDE, WIDE_STEP, ActRecord, Kind
from .emit import F32, I32, vector
from .matmul import NARROW_SIDES, SIDES, act_sums, unpacked_factors_at
from .program import SQUARE
from .records import GROUPS, unpacked_record
from .tile_registers import ACTIVATIONS, SUMS, SUMS_BYTES, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dot import Dot
    from .emit import Emit

STEPS = 8
"""Products whose sums are kept before they are scaled, 8 KiB: activations and weights share the first-level cache."""
_REAL = vector(F32, TILE_ROWS)
_WORDS = vector(I32, TILE_ROWS)


class _Step(NamedTuple):
    """One product of a block: which bytes of the activation record meet which lines of the weights."""

    side: int
    line: int


def square_kernel(dot: Dot, kind: Kind, *, record: ActRecord = NARROW) -> Callable[..., None]:
    """Emitter of the product; see the module's text.

    Its arguments: unpacked lines, activations, bytes between columns, blocks, out (float32[n][16]), n.
    """

    def emit(k: Emit, lines: Any, acts: Any, stride: Any, blocks: Any, out: Any, n: Any) -> None:
        product = _Square(k, dot, kind, record, stride)
        product.registers.configure()
        with k.loop(k.b.udiv(k.at(n, SQUARE - 1), k.i64(SQUARE))) as square:
            first, last = k.times(square, SQUARE), k.at(n, -SQUARE)
            first = k.b.select(k.b.icmp_signed("<", first, last), first, last)
            product.run(lines, k.at(acts, k.b.mul(first, stride)), blocks, k.at(out, k.times(first, LINE)))
        product.registers.release()

    return emit


class _Square:
    """One square at a time.

    Attributes:
        registers: Tile registers.
    """

    def __init__(self, k: Emit, dot: Dot, kind: Kind, record: ActRecord, stride: Any) -> None:
        if dot.tile_registers is None:
            raise ValueError(f"expected a version with tile registers, got {dot.isa}")
        self.k, self.dot, self.kind, self.record, self.stride = k, dot, kind, record, stride
        self.layout, self._bytes = QUANTISED[kind], unpacked_record(dot, kind)
        halves = self.layout.halves
        self.registers = dot.tile_registers(k, BLOCK // halves)
        self._sides = SIDES if record is WIDE else NARROW_SIDES
        self._steps = [
            _Step(offset + half * BLOCK // halves, half * GROUPS // halves * LINE)
            for half in range(halves)
            for offset, _ in self._sides
        ]
        # a slot in front takes what the first store of a round finds in its register
        self._slots = k.aligned(k.shelf((1 + STEPS) * SUMS_BYTES + LINE), LINE)

    def run(self, lines: Any, acts: Any, blocks: Any, out: Any) -> None:
        """All blocks of one square."""
        k, most = self.k, STEPS // len(self._steps)
        sums = [k.var(k.all(_REAL, 0.0)) for _ in range(SQUARE)]
        with k.loop(k.b.udiv(k.at(blocks, most - 1), k.i64(most))) as round_:
            first = k.times(round_, most)
            left = k.b.sub(blocks, first)
            count = k.b.select(k.b.icmp_signed("<", left, k.i64(most)), left, k.i64(most))
            weights = k.at(lines, k.times(first, self._bytes))
            columns = k.at(acts, k.times(first, self.record.size))
            self._multiply(weights, columns, count)
            with k.loop(count) as block:
                self._scale(
                    k.at(weights, k.times(block, self._bytes)),
                    k.at(columns, k.times(block, self.record.size)),
                    k.at(self._slots, SUMS_BYTES, k.times(block, len(self._steps) * SUMS_BYTES)),
                    sums,
                )
        for column, sum_ in enumerate(sums):
            k.store(k.at(out, column * LINE), k.get(sum_))

    def _multiply(self, weights: Any, columns: Any, count: Any) -> None:
        """The integer sums of `count` blocks, to the slots; an even number of products each time round."""
        k = self.k
        together = 2 if len(self._steps) == 1 else 1
        size = together * len(self._steps)
        rounds = k.b.udiv(k.at(count, together - 1), k.i64(together))
        with k.loop(rounds) as index:
            number = 0
            for part in range(together):
                block = k.at(k.times(index, together), part)
                if part:  # of an odd number the last is done twice
                    last = k.at(count, -1)
                    block = k.b.select(k.b.icmp_signed("<", block, last), block, last)
                lines, acts = (
                    k.at(weights, k.times(block, self._bytes)),
                    k.at(columns, k.times(block, self.record.size)),
                )
                for step in self._steps:
                    weight, activation = WEIGHTS[number // len(self._sides) % 2], ACTIVATIONS[number % 2]
                    if number % len(self._sides) == 0:
                        self.registers.load(weight, k.at(lines, step.line), k.i64(LINE))
                    self.registers.load(activation, k.at(acts, step.side), self.stride)
                    self.registers.clear(SUMS[number])
                    self.registers.multiply(SUMS[number], activation, weight)
                    slot = k.at(self._slots, k.times(index, size * SUMS_BYTES), number * SUMS_BYTES)
                    self.registers.store(SUMS[(number - 1) % size], slot)
                    number += 1
        self.registers.store(SUMS[size - 1], k.at(self._slots, k.times(rounds, size * SUMS_BYTES)))

    def _scale(self, lines: Any, here: Any, slot: Any, sums: list[Any]) -> None:
        """Adds a block's integer sums to the running ones."""
        k, sides = self.k, len(self._sides)
        factors = unpacked_factors_at(k, self.dot, self.kind, lines)
        for column, sum_ in enumerate(sums):
            scale = k.load(k.at(here, self.record.scale), F32)
            spread = k.splat(scale, TILE_ROWS)
            total = k.get(sum_)
            for half, (scales,) in enumerate(factors.scales):
                whole = [
                    k.b.sitofp(k.load(k.at(slot, (half * sides + side) * SUMS_BYTES, column * LINE), _WORDS), _REAL)
                    for side in range(sides)
                ]
                one = whole[0] if sides == 1 else k.fma(whole[0], k.all(_REAL, WIDE_STEP), whole[1])
                total = k.fma(one, k.b.fmul(scales, spread), total)
            if factors.minima is not None:
                _, weighted = act_sums(k, self.record, here, scale, len(factors.minima))
                for (minima,), weight in zip(factors.minima, weighted, strict=True):
                    total = k.fma(minima, k.splat(weight, TILE_ROWS), total)
            k.set(sum_, total)
            here = k.b.add(here, self.stride)
