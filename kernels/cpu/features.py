"""What only some architectures have: GELU, head norms, post-norms, soft caps, a scaled embedding.

Layout  Rows of float32, vectors of 8 lanes, as in elementwise.py.
Thread  One call handles one row, one head or one tile of 16 values.
Sums    Head norm: 2 chains of 8 lanes, folded by halves. float32.
Limits  Rows are multiples of 32, heads of 16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..layouts import BLOCK, TILE_ROWS
from .elementwise import LANES, REAL, block_of, exp, normed
from .emit import F32

if TYPE_CHECKING:
    from .emit import Emit

_GELU = 2 * math.sqrt(2 / math.pi)
_CUBE = 0.044715


def gelu_tanh(k: Emit, x: Any) -> Any:
    """X / 2 * (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2 / pi) * (x + 0.044715 x^3)."""
    square = k.b.fmul(x, x)
    twice = k.b.fmul(k.b.fmul(x, k.all(REAL, -_GELU)), k.fma(square, k.all(REAL, _CUBE), k.all(REAL, 1.0)))
    return k.b.fdiv(x, k.b.fadd(k.all(REAL, 1.0), exp(k, twice)))


def soft_cap(k: Emit, x: Any, cap: Any) -> Any:
    """Cap * tanh(x / cap) = cap * (1 - 2 / (exp(2x / cap) + 1)); absolute error below 2e-7 * cap, NaN stays NaN."""
    one = k.all(x.type, 1.0)
    power = exp(k, k.b.fdiv(k.b.fadd(x, x), cap))
    capped = k.b.fmul(cap, k.b.fsub(one, k.b.fdiv(k.all(x.type, 2.0), k.b.fadd(power, one))))
    return k.b.select(k.b.fcmp_unordered("uno", x, x), x, capped)


def cap_tile(k: Emit, tile: Any, cap: Any) -> None:
    """Soft-caps 16 values in place; `cap` is the address of a float32."""
    limit = k.splat(k.load(cap, F32), LANES)
    for part in range(TILE_ROWS // LANES):
        at = k.at(tile, 4 * LANES * part)
        k.store(at, soft_cap(k, k.load(at, REAL), limit))


def scale_row(k: Emit, x: Any, blocks: Any, scale: Any) -> None:
    """Multiplies a row by the float32 at `scale`."""
    gain = k.splat(k.load(scale, F32), LANES)
    with k.loop(k.times(blocks, BLOCK // LANES)) as step:
        at = k.at(x, k.times(step, 4 * LANES))
        k.store(at, k.b.fmul(k.load(at, REAL), gain))


def settle(k: Emit, x: Any, y: Any, weight: Any, blocks: Any, epsilon: Any) -> None:
    """X += RMSNorm(y) * weight, one row."""
    values = normed(k, y, weight, blocks, epsilon)
    with k.loop(blocks) as block:
        for part, (old, new) in enumerate(zip(block_of(k, x, block), values(block), strict=True)):
            k.store(k.at(x, k.times(block, 4 * BLOCK), 4 * LANES * part), k.b.fadd(old, new))


def norm_head(k: Emit, x: Any, weight: Any, out: Any, width: Any, epsilon: Any) -> None:
    """RMSNorm of one head times `weight`; `out` may be `x`."""
    chains = [k.var(k.all(REAL, 0.0)) for _ in range(2)]
    with k.loop(k.b.lshr(width, k.i64(4))) as step:
        for part, chain in enumerate(chains):
            value = k.load(k.at(x, k.times(step, 8 * LANES), 4 * LANES * part), REAL)
            k.set(chain, k.fma(value, value, k.get(chain)))
    square = k.fold(k.b.fadd(k.get(chains[0]), k.get(chains[1])), k.b.fadd)
    mean = k.b.fdiv(square, k.b.sitofp(width, F32))
    scale = k.splat(k.b.fdiv(k.f32(1.0), k.math("sqrt", k.b.fadd(mean, k.load(epsilon, F32)))), LANES)
    with k.loop(k.b.lshr(width, k.i64(3))) as step:
        at = k.times(step, 4 * LANES)
        value = k.b.fmul(k.load(k.at(x, at), REAL), scale)
        k.store(k.at(out, at), k.b.fmul(value, k.load(k.at(weight, at), REAL)))
