"""RMSNorm, quantisation of activations, SwiGLU, RoPE and a fast exponential.

Layout  Rows of float32; a quantised row is records of layouts.ActRecord. Vectors have 8 lanes everywhere, so
        that sums are formed in the same order everywhere.
Thread  One call handles one row (RMSNorm, quantise), one block of 32 (SwiGLU) or one head (RoPE).
Sums    Mean square: 4 chains of 8 lanes, folded by halves. float32.
Limits  Widths are multiples of 32, rotated widths of 16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..layouts import (
    BLOCK,
    NARROW,
    TILE_ROWS,
    WIDE,
    WIDE_LOW,
    WIDE_STEP,
    WIDE_WHOLE_BYTES,
    ActRecord,
)
from .emit import F32, I8, I16, I32, I64, vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from .emit import Emit

LANES = 8
REAL = vector(F32, LANES)
WHOLE = vector(I32, LANES)
PARTS = BLOCK // LANES
LARGEST = 127
"""Largest quantised activation: symmetric, so that the sign never overflows int8."""
_LN2_HIGH = 0.693359375  # 10 bits: n * _LN2_HIGH is exact for |n| < 2^13
_LN2_LOW = math.log(2) - _LN2_HIGH
_EXP_LOWEST = -87.33654  # below it the result is less than the smallest normal float32: give 0
_EXP_HIGHEST = 88.37626  # just under log(2^127.5): the exponent stays within 127
_EXP_TERMS = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


def exp(k: Emit, x: Any) -> Any:
    """E to the x, lane by lane.

    x = n ln 2 + r with |r| <= ln 2 / 2; Taylor to r^7 by Horner with fma, times 2^n through the exponent bits. Relative
    error below 2e-7 on [-87, 88]; exp(0) is exactly 1; 0 below -87.3; 2^127.5 above 88.4; NaN gives the top value.
    """
    real = x.type
    whole = vector(I32, real.count)
    limited = k.smaller(k.larger(x, k.all(real, _EXP_LOWEST)), k.all(real, _EXP_HIGHEST))
    n = k.math("rint", k.b.fmul(limited, k.all(real, math.log2(math.e))))
    r = k.fma(n, k.all(real, -_LN2_HIGH), limited)
    r = k.fma(n, k.all(real, -_LN2_LOW), r)
    value = k.all(real, _EXP_TERMS[0])
    for term in _EXP_TERMS[1:]:
        value = k.fma(value, r, k.all(real, term))
    exponent = k.b.shl(k.b.add(k.b.fptosi(n, whole), k.all(whole, 127)), k.all(whole, 23))
    value = k.b.fmul(value, k.b.bitcast(exponent, real))
    tiny = k.b.fcmp_ordered("<", x, k.all(real, _EXP_LOWEST))
    return k.b.select(tiny, k.all(real, 0.0), value)


def whole_steps(k: Emit, value: Any, inverse: Any) -> Any:
    """A vector in whole steps, at most LARGEST in size; NaN becomes -LARGEST."""
    steps = k.math("rint", k.b.fmul(value, k.splat(inverse, LANES)))
    steps = k.smaller(k.larger(steps, k.all(REAL, -LARGEST)), k.all(REAL, LARGEST))
    return k.b.fptosi(steps, WHOLE)


def _quantise_block(k: Emit, values: list[Any], to: Any, record: ActRecord, both: Any = None) -> None:
    """Writes one record of 32 values; a wide one also in its int16 form, to `both`.

    The largest magnitude is found on the bits as integers, where NaN is above infinity: NaN in gives a NaN scale out.
    """
    magnitude = k.all(WHOLE, 0)
    for value in values:
        bits = k.b.and_(k.b.bitcast(value, WHOLE), k.all(WHOLE, 0x7FFFFFFF))
        magnitude = k.greatest_int(magnitude, bits)
    peak = k.b.bitcast(k.fold(magnitude, k.greatest_int), F32)
    scale = k.b.fdiv(peak, k.f32(LARGEST))
    zero = k.b.fcmp_ordered("==", peak, k.f32(0.0))
    inverse = k.b.select(zero, k.f32(0.0), k.b.fdiv(k.f32(LARGEST), peak))
    highs = [whole_steps(k, value, inverse) for value in values]
    for part, high in enumerate(highs):
        k.store(k.at(to, part * LANES), k.b.trunc(high, vector(I8, LANES)))
    whole = highs
    if record is WIDE:
        whole = _quantise_rest(k, values, highs, (to, both), scale, k.b.fmul(inverse, k.f32(WIDE_STEP)))
        scale = k.b.fdiv(scale, k.f32(WIDE_STEP))
    first, second = (k.fold(k.b.add(whole[part], whole[part + 1]), k.b.add) for part in (0, 2))
    count = k.b.add(first, second)
    k.store(k.at(to, record.scale), scale)
    k.store(k.at(to, record.weighted), k.b.fmul(scale, k.b.sitofp(count, F32)))
    k.store(k.at(to, record.sum), count)
    k.store(k.at(to, record.first), first)


def _quantise_rest(
    k: Emit, values: list[Any], highs: list[Any], to: tuple[Any, Any], scale: Any, fine: Any
) -> list[Any]:
    """Writes what the high bytes round away, and both together; returns those."""
    whole, (record, both_at) = [], to
    for part, (value, high) in enumerate(zip(values, highs, strict=True)):
        rest = k.fma(k.b.fneg(k.b.sitofp(high, REAL)), k.splat(scale, LANES), value)
        low = whole_steps(k, rest, fine)
        k.store(k.at(record, WIDE_LOW + part * LANES), k.b.trunc(low, vector(I8, LANES)))
        both = k.b.add(k.b.mul(high, k.all(WHOLE, WIDE_STEP)), low)
        ordered = k.shuffle(both, both, [0, 2, 1, 3, 4, 6, 5, 7])
        k.store(k.at(both_at, 2 * part * LANES), k.b.trunc(ordered, vector(I16, LANES)))
        whole.append(both)
    return whole


def _quantise_row(
    k: Emit, act: Any, plain: Any, blocks: Any, values: Callable[[Any], list[Any]], record: ActRecord = NARROW
) -> None:
    """Quantises a row block by block; also keeps it as float32 unless `plain` is 0."""
    with k.loop(blocks) as block:
        row = values(block)
        with k.b.if_then(k.b.icmp_signed("!=", plain, k.i64(0))):
            for part, value in enumerate(row):
                k.store(k.at(plain, k.times(block, 4 * BLOCK), 4 * LANES * part), value)
        both = k.at(act, k.times(blocks, record.size), k.times(block, WIDE_WHOLE_BYTES))
        _quantise_block(k, row, k.at(act, k.times(block, record.size)), record, both)


def block_of(k: Emit, base: Any, block: Any) -> list[Any]:
    """Block `block` of a float32 row, as vectors."""
    return [k.load(k.at(base, k.times(block, 4 * BLOCK), 4 * LANES * part), REAL) for part in range(PARTS)]


def normed(k: Emit, x: Any, weight: Any, blocks: Any, epsilon: Any) -> Callable[[Any], list[Any]]:
    """RMSNorm: x / sqrt(mean(x^2) + epsilon) * weight; `epsilon` is the address of a float32."""
    chains = [k.var(k.all(REAL, 0.0)) for _ in range(PARTS)]
    with k.loop(blocks) as block:
        for chain, value in zip(chains, block_of(k, x, block), strict=True):
            k.set(chain, k.fma(value, value, k.get(chain)))
    a, b, c, d = (k.get(chain) for chain in chains)
    square = k.fold(k.b.fadd(k.b.fadd(a, c), k.b.fadd(b, d)), k.b.fadd)
    mean = k.b.fdiv(square, k.b.sitofp(k.times(blocks, BLOCK), F32))
    scale = k.b.fdiv(k.f32(1.0), k.math("sqrt", k.b.fadd(mean, k.load(epsilon, F32))))
    spread = k.splat(scale, LANES)

    def values(block: Any) -> list[Any]:
        pairs = zip(block_of(k, x, block), block_of(k, weight, block), strict=True)
        return [k.b.fmul(k.b.fmul(value, spread), gain) for value, gain in pairs]

    return values


def norm_quantise(k: Emit, x: Any, weight: Any, act: Any, plain: Any, blocks: Any, epsilon: Any) -> None:
    """RMSNorm, then quantise."""
    _quantise_row(k, act, plain, blocks, normed(k, x, weight, blocks, epsilon))


def norm_quantise_wide(k: Emit, x: Any, weight: Any, act: Any, plain: Any, blocks: Any, epsilon: Any) -> None:
    """RMSNorm, then quantise to 16 bits (clause 3.3)."""
    _quantise_row(k, act, plain, blocks, normed(k, x, weight, blocks, epsilon), WIDE)


def quantise(k: Emit, x: Any, act: Any, plain: Any, blocks: Any) -> None:
    """Quantises a row of float32."""
    _quantise_row(k, act, plain, blocks, lambda block: block_of(k, x, block))


def silu(k: Emit, x: Any) -> Any:
    """X / (1 + exp(-x))."""
    return k.b.fdiv(x, k.b.fadd(k.all(REAL, 1.0), exp(k, k.b.fneg(x))))


def gate_quantise(activation: Callable[[Emit, Any], Any]) -> Callable[..., None]:
    """Emitter that quantises block `block` of activation(gate) * up.

    Four runs of 16 values lie `distance` bytes apart: gate, gate, up, up, as four tiles leave them.
    """

    def emit(k: Emit, gate: Any, distance: Any, act: Any, plain: Any, block: Any) -> None:
        values = []
        up = k.at(gate, distance, distance)
        for half in range(2):
            shift = k.times(distance, half)
            for part in range(PARTS // 2):
                g, u = (k.load(k.at(base, shift, 4 * LANES * part), REAL) for base in (gate, up))
                values.append(k.b.fmul(activation(k, g), u))
        with k.b.if_then(k.b.icmp_signed("!=", plain, k.i64(0))):
            for part, value in enumerate(values):
                k.store(k.at(plain, k.times(block, 4 * BLOCK), 4 * LANES * part), value)
        _quantise_block(k, values, k.at(act, k.times(block, NARROW.size)), NARROW)

    return emit


def rope(k: Emit, x: Any, table: Any, half: Any, out: Any, width: Any, scale: Any) -> None:
    """Rotates pairs (i, i + half) of one head, copies the rest, and multiplies by the float32 at `scale`.

    `table` is float32 cos[half], sin[half] for the position; half and width are multiples of 8. `out` may be `x`.
    """
    gain = k.splat(k.load(scale, F32), LANES)
    half_bytes = k.times(half, 4)
    with k.loop(k.b.lshr(half, k.i64(3))) as step:
        at = k.times(step, 4 * LANES)
        cos, sin = k.load(k.at(table, at), REAL), k.load(k.at(table, half_bytes, at), REAL)
        a, b = k.load(k.at(x, at), REAL), k.load(k.at(x, half_bytes, at), REAL)
        first = k.b.fsub(k.b.fmul(a, cos), k.b.fmul(b, sin))
        second = k.b.fadd(k.b.fmul(a, sin), k.b.fmul(b, cos))
        k.store(k.at(out, at), k.b.fmul(first, gain))
        k.store(k.at(out, half_bytes, at), k.b.fmul(second, gain))
    rest = k.b.sub(k.b.lshr(width, k.i64(3)), k.b.lshr(half, k.i64(2)))
    with k.loop(rest) as step:
        at = k.at(k.times(half, 8), k.times(step, 4 * LANES))
        k.store(k.at(out, at), k.b.fmul(k.load(k.at(x, at), REAL), gain))


def add_rows(k: Emit, x: Any, tile: Any, count: Any) -> None:
    """X += tile for `count` (1 to 16) float32 values."""
    _rows(k, x, tile, count, k.b.fadd)


def put_rows(k: Emit, x: Any, tile: Any, count: Any) -> None:
    """X = tile for `count` (1 to 16) float32 values."""
    _rows(k, x, tile, count, _second)


def _second(_old: Any, new: Any) -> Any:
    return new


def _rows(k: Emit, x: Any, tile: Any, count: Any, combine: Callable[[Any, Any], Any]) -> None:
    with k.b.if_else(k.b.icmp_signed("==", count, k.i64(TILE_ROWS))) as (whole, partial):
        with whole:
            for part in range(TILE_ROWS // LANES):
                at = 4 * LANES * part
                k.store(k.at(x, at), combine(k.load(k.at(x, at), REAL), k.load(k.at(tile, at), REAL)))
        with partial, k.loop(count) as row:
            at = k.times(row, 4)
            k.store(k.at(x, at), combine(k.load(k.at(x, at), F32), k.load(k.at(tile, at), F32)))


def load_i64(k: Emit, address: Any) -> Any:
    """Reads an int64."""
    return k.load(address, I64, align=8)


def load_i32(k: Emit, address: Any) -> Any:
    """Reads an int32 as int64."""
    return k.b.sext(k.load(address, I32, align=4), I64)


def store_i32(k: Emit, address: Any, value: Any) -> None:
    """Writes the low half of an int64."""
    k.store(address, k.b.trunc(value, I32), align=4)
