"""Products of one tile of 16 float rows (F16, BF16 or F32) with a few float32 activation columns.

Layout  A tile is `blocks` records of [32 columns][16 rows] elements. An activation column is float32[K].
Thread  One call computes 16 rows x C columns over all K; lane r is row r.
Sums    float32, four chains (column mod 4) that are added as (0 + 2) + (1 + 3) at the end: clause 4.1.
Moves   2 or 4 bytes per weight once for C columns; one multiply-add per weight and column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import BLOCK, DENSE_BYTES, LINE, RECORD_BYTES, TILE_ROWS, Kind
from .emit import F16, F32, I16, I32, vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from .emit import Emit

_CHAINS = 4
_LANES = 8


def _elements(k: Emit, kind: Kind, at: Any, lanes: int) -> Any:
    """Neighbouring elements as float32."""
    real = vector(F32, lanes)
    if kind is Kind.F16:
        return k.b.fpext(k.load(at, vector(F16, lanes)), real)
    if kind is Kind.BF16:  # the upper half of a float32
        high = k.b.zext(k.load(at, vector(I16, lanes)), vector(I32, lanes))
        return k.b.bitcast(k.b.shl(high, k.all(high.type, 16)), real)
    return k.load(at, real)


def dense_kernel(kind: Kind, columns: int) -> Callable[..., None]:
    """Emitter; arguments: tile, activations, bytes between columns, blocks, out (float32[columns][16])."""
    real = vector(F32, _LANES)
    parts = range(TILE_ROWS // _LANES)

    def weights(k: Emit, record: Any, column: int, part: int) -> Any:
        return _elements(k, kind, k.at(record, (column * TILE_ROWS + part * _LANES) * DENSE_BYTES[kind]), _LANES)

    def emit(k: Emit, tile: Any, acts: Any, stride: Any, blocks: Any, out: Any) -> None:
        bases = [acts]
        for _ in range(columns - 1):
            bases.append(k.at(bases[-1], stride))
        sums = [[[k.var(k.all(real, 0.0)) for _ in range(_CHAINS)] for _ in parts] for _ in bases]
        with k.loop(k.times(blocks, BLOCK // _CHAINS)) as step:
            record = k.at(tile, k.times(step, RECORD_BYTES[kind] * _CHAINS // BLOCK))
            for chain in range(_CHAINS):
                rows = [weights(k, record, chain, part) for part in parts]
                for column, base in enumerate(bases):
                    x = k.splat(k.load(k.at(base, k.times(step, 4 * _CHAINS), 4 * chain), F32), _LANES)
                    for part in parts:
                        slot = sums[column][part][chain]
                        k.set(slot, k.fma(rows[part], x, k.get(slot)))
        for column in range(columns):
            for part in parts:
                a, b, c, d = (k.get(slot) for slot in sums[column][part])
                total = k.b.fadd(k.b.fadd(a, c), k.b.fadd(b, d))
                k.store(k.at(out, column * LINE + part * 4 * _LANES), total)

    return emit


def embed_dense(kind: Kind) -> Callable[..., None]:
    """Emitter that writes one row of a packed matrix as float32; arguments: tile, row in the tile, blocks, out."""
    size = DENSE_BYTES[kind]

    def emit(k: Emit, tile: Any, row: Any, blocks: Any, out: Any) -> None:
        with k.loop(k.times(blocks, BLOCK)) as column:
            at = k.at(tile, k.times(column, TILE_ROWS * size), k.times(row, size))
            k.store(k.at(out, k.times(column, 4)), _elements(k, kind, at, 1))

    return emit
