"""Attention of a few queries that share a KV head, over one partition of a paged cache.

Layout  One layer's cache: keys [block][kv_head][head_dim][16 positions], values
        [block][kv_head][16 positions][head_dim], float16. Queries float32[C][head_dim], rotated and already divided by
        sqrt(head_dim). A partition is 16 blocks (256 positions) of one sequence's table. Result of a partition, per
        query: peak, sum of weights, then float32[head_dim] of weighted values (a "partial").
Thread  One call: C queries, one partition. Scores: a lane is a position. Weighted values: a lane is a dimension.
Sums    float32. Score: ascending dimension. Weights: 16 lanes (position mod 16), blocks ascending, folded by halves.
        Values: ascending position. Partitions merge in ascending order (`merge`). A position past the query's own adds
        exactly zero, so a result does not depend on which tokens share the call: clause 4.1.
        A window's start is hidden the same way, and whole blocks before it are not read, which changes no bit.
Limits  head_dim a multiple of 16. What was written is finite in float16 (`store_kv` clamps), so 0 * value is 0.
Moves   4 * head_dim bytes a position and KV head, 2 * C * head_dim multiply-adds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..backend import KV_BLOCK_TOKENS
from .elementwise import LANES, REAL, exp
from .emit import F16, F32, I32, I64, vector
from .features import soft_cap
from .program import PARTIAL_HEADER, PARTITION_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .emit import Emit

LOWEST = -1e30
"""Stands for minus infinity as a peak: differences with it stay finite."""
HALF_MAX = 65504.0
HALVES = vector(F16, LANES)
_WORDS = vector(I32, LANES)
_UNROLL = 4
_VALUE_CHAINS = {1: 4, 2: 4, 3: 4, 4: 2, 6: 2}
"""Vectors of dimensions per pass, by queries: C times this many sums stay in registers."""


def attend_kernel(queries: int) -> Callable[..., None]:
    """Emitter for C queries.

    Arguments: queries; address of int32[C] that counts the positions each may see, from the first block's start;
    address of int32[C] that counts those of them that are too old, 0: no window and no cap; address of the soft cap, 0:
    none; the partition's part of the block table (int32); blocks to read (1 to 16); keys and values of the layer and KV
    head at block 0; bytes from block to block; head_dim; scores scratch float32[C][256]; partials out; bytes between
    partials.
    """

    def emit(
        k: Emit, q: Any, seen: Any, low: Any, cap: Any, table: Any, blocks: Any, keys: Any, values: Any,
        block_bytes: Any, width: Any, scores: Any, partials: Any, partial_bytes: Any,
    ) -> None:  # fmt: skip
        peaks = _scores(k, queries, q, seen, table, blocks, keys, block_bytes, width, scores)
        with k.b.if_then(k.b.icmp_signed("!=", low, k.i64(0))):
            _refine(k, peaks, seen, low, cap, blocks, scores)
        _weights(k, [k.get(peak) for peak in peaks], blocks, scores, partials, partial_bytes)
        _values(k, queries, seen, table, blocks, values, block_bytes, width, scores, partials, partial_bytes)

    return emit


def _block(k: Emit, base: Any, table: Any, index: Any, block_bytes: Any) -> Any:
    number = k.b.sext(k.load(k.at(table, k.times(index, 4)), I32), I64)
    return k.at(base, k.b.mul(number, block_bytes))


def _scores(
    k: Emit,
    queries: int,
    q: Any,
    seen: Any,
    table: Any,
    blocks: Any,
    keys: Any,
    block_bytes: Any,
    width: Any,
    scores: Any,
) -> list[Any]:
    lowest = k.all(REAL, -math.inf)
    peaks = [[k.var(lowest), k.var(lowest)] for _ in range(queries)]
    limits = [k.splat(k.load(k.at(seen, 4 * query), I32), LANES) for query in range(queries)]
    row_bytes = k.times(width, 4)
    rows = [q]
    for _ in range(queries - 1):
        rows.append(k.at(rows[-1], row_bytes))
    with k.loop(blocks) as index:
        start = _block(k, keys, table, index, block_bytes)
        sums = [[k.var(k.all(REAL, 0.0)) for _ in range(2)] for _ in range(queries)]
        with k.loop(k.b.lshr(width, k.i64(2))) as step:
            at = k.at(start, k.times(step, 2 * KV_BLOCK_TOKENS * _UNROLL))
            for inner in range(_UNROLL):
                halves = [k.load(k.at(at, 2 * KV_BLOCK_TOKENS * inner + 2 * LANES * part), HALVES) for part in range(2)]
                columns = [k.b.fpext(half, REAL) for half in halves]
                for query in range(queries):
                    x = k.splat(k.load(k.at(rows[query], k.times(step, 4 * _UNROLL), 4 * inner), F32), LANES)
                    for part in range(2):
                        slot = sums[query][part]
                        k.set(slot, k.fma(columns[part], x, k.get(slot)))
        first = k.splat(k.b.trunc(k.times(index, KV_BLOCK_TOKENS), I32), LANES)
        for query in range(queries):
            for part in range(2):
                lanes = k.b.add(first, k.const_lanes(_WORDS, [LANES * part + lane for lane in range(LANES)]))
                visible = k.b.icmp_signed("<", lanes, limits[query])
                score = k.b.select(visible, k.get(sums[query][part]), lowest)
                to = k.at(scores, query * 4 * PARTITION_TOKENS + 4 * LANES * part, k.times(index, 4 * KV_BLOCK_TOKENS))
                k.store(to, score)
                k.set(peaks[query][part], k.larger(score, k.get(peaks[query][part])))
    return [k.var(k.larger(k.get(low), k.get(high))) for low, high in peaks]


def _refine(k: Emit, peaks: list[Any], seen: Any, low: Any, cap: Any, blocks: Any, scores: Any) -> None:
    """Caps the scores, hides what is too old, and finds the peaks anew; only for layers that need it."""
    lowest = k.all(REAL, -math.inf)
    capped = k.b.icmp_signed("!=", cap, k.i64(0))
    limit = k.var(k.all(REAL, 1.0))
    with k.b.if_then(capped):
        k.set(limit, k.splat(k.load(cap, F32), LANES))
    for query, peak in enumerate(peaks):
        k.set(peak, lowest)
        newest, oldest = (k.splat(k.load(k.at(bound, 4 * query), I32), LANES) for bound in (seen, low))
        with k.loop(blocks) as index:
            first = k.splat(k.b.trunc(k.times(index, KV_BLOCK_TOKENS), I32), LANES)
            for part in range(2):
                at = k.at(scores, query * 4 * PARTITION_TOKENS + 4 * LANES * part, k.times(index, 4 * KV_BLOCK_TOKENS))
                score = k.var(k.load(at, REAL))
                with k.b.if_then(capped):
                    k.set(score, soft_cap(k, k.get(score), k.get(limit)))
                lanes = k.b.add(first, k.const_lanes(_WORDS, [LANES * part + lane for lane in range(LANES)]))
                old = k.b.icmp_signed("<", lanes, oldest)
                visible = k.b.and_(k.b.icmp_signed("<", lanes, newest), k.b.not_(old))
                kept = k.b.select(visible, k.get(score), lowest)
                k.store(at, kept)
                k.set(peak, k.larger(kept, k.get(peak)))


def _weights(k: Emit, peaks: list[Any], blocks: Any, scores: Any, partials: Any, partial_bytes: Any) -> None:
    for query, lanes in enumerate(peaks):
        peak = k.larger(k.fold(lanes, k.larger), k.f32(LOWEST))
        spread = k.splat(peak, LANES)
        sums = [k.var(k.all(REAL, 0.0)) for _ in range(2)]
        with k.loop(blocks) as index:
            for part in range(2):
                at = k.at(scores, query * 4 * PARTITION_TOKENS + 4 * LANES * part, k.times(index, 4 * KV_BLOCK_TOKENS))
                weight = exp(k, k.b.fsub(k.load(at, REAL), spread))
                k.store(at, weight)
                k.set(sums[part], k.b.fadd(k.get(sums[part]), weight))
        total = k.fold(k.b.fadd(k.get(sums[0]), k.get(sums[1])), k.b.fadd)
        to = k.at(partials, k.times(partial_bytes, query))
        k.store(to, peak)
        k.store(k.at(to, 4), total)


def _values(
    k: Emit, queries: int, seen: Any, table: Any, blocks: Any, values: Any, block_bytes: Any, width: Any, scores: Any,
    partials: Any, partial_bytes: Any,
) -> None:  # fmt: skip
    del seen  # a position that a query may not see has weight 0
    chains = _VALUE_CHAINS[queries]
    step_lanes = chains * LANES
    row_bytes = k.times(width, 2)

    def span(first: Any, count: int) -> None:
        """Dimensions from `first`, `count` vectors of them."""
        sums = [[k.var(k.all(REAL, 0.0)) for _ in range(count)] for _ in range(queries)]
        with k.loop(blocks) as index:
            start = k.at(_block(k, values, table, index, block_bytes), k.times(first, 2))
            weights = k.at(scores, k.times(index, 4 * KV_BLOCK_TOKENS))
            with k.loop(k.i64(KV_BLOCK_TOKENS)) as position:
                at = k.at(start, k.b.mul(position, row_bytes))
                rows = [k.b.fpext(k.load(k.at(at, 2 * LANES * part), HALVES), REAL) for part in range(count)]
                for query in range(queries):
                    from_ = k.at(weights, query * 4 * PARTITION_TOKENS, k.times(position, 4))
                    weight = k.splat(k.load(from_, F32), LANES)
                    for part in range(count):
                        slot = sums[query][part]
                        k.set(slot, k.fma(rows[part], weight, k.get(slot)))
        for query in range(queries):
            to = k.at(partials, k.times(partial_bytes, query), PARTIAL_HEADER, k.times(first, 4))
            for part in range(count):
                k.store(k.at(to, 4 * LANES * part), k.get(sums[query][part]))

    whole = k.b.udiv(width, k.i64(step_lanes))
    with k.loop(whole) as step:
        span(k.times(step, step_lanes), chains)
    if chains > 2:
        done = k.times(whole, step_lanes)
        with k.loop(k.b.udiv(k.b.sub(width, done), k.i64(2 * LANES))) as step:
            span(k.at(done, k.times(step, 2 * LANES)), 2)


def merge(k: Emit, state: Any, partial: Any, width: Any) -> None:
    """Adds the next partition's partial to a running one (whose peak starts at LOWEST, the rest at 0)."""
    old, new = k.load(state, F32), k.load(partial, F32)
    peak = k.larger(old, new)
    keep = k.lane(exp(k, k.splat(k.b.fsub(old, peak), LANES)), 0)
    take = k.lane(exp(k, k.splat(k.b.fsub(new, peak), LANES)), 0)
    total = k.b.fadd(k.b.fmul(k.load(k.at(state, 4), F32), keep), k.b.fmul(k.load(k.at(partial, 4), F32), take))
    k.store(state, peak)
    k.store(k.at(state, 4), total)
    keeps, takes = k.splat(keep, LANES), k.splat(take, LANES)
    with k.loop(k.b.lshr(width, k.i64(3))) as step:
        at = k.at(k.times(step, 4 * LANES), PARTIAL_HEADER)
        to = k.at(state, at)
        k.store(to, k.b.fadd(k.b.fmul(k.load(to, REAL), keeps), k.b.fmul(k.load(k.at(partial, at), REAL), takes)))


def start_state(k: Emit, state: Any, width: Any) -> None:
    """Empties a running partial."""
    k.store(state, k.f32(LOWEST))
    k.store(k.at(state, 4), k.f32(0.0))
    with k.loop(k.b.lshr(width, k.i64(3))) as step:
        k.store(k.at(state, PARTIAL_HEADER, k.times(step, 4 * LANES)), k.all(REAL, 0.0))


def finish_state(k: Emit, state: Any, out: Any, width: Any) -> None:
    """Writes the weighted values divided by the sum of weights."""
    total = k.splat(k.load(k.at(state, 4), F32), LANES)
    with k.loop(k.b.lshr(width, k.i64(3))) as step:
        at = k.times(step, 4 * LANES)
        k.store(k.at(out, at), k.b.fdiv(k.load(k.at(state, PARTIAL_HEADER, at), REAL), total))


def _to_half(k: Emit, value: Any) -> Any:
    """Rounds to float16 within its finite range; NaN becomes its lower end."""
    limited = k.smaller(k.larger(value, k.all(REAL, -HALF_MAX)), k.all(REAL, HALF_MAX))
    return k.b.fptrunc(limited, HALVES)


def store_kv(k: Emit, key: Any, value: Any, key_block: Any, value_block: Any, slot: Any, width: Any) -> None:
    """Writes one position of one KV head: key as a column, value as a row; `slot` is the position in the block."""
    column = k.at(key_block, k.times(slot, 2))
    row = k.at(value_block, k.b.mul(slot, k.times(width, 2)))
    with k.loop(k.b.lshr(width, k.i64(3))) as step:
        at = k.times(step, 4 * LANES)
        halves = _to_half(k, k.load(k.at(key, at), REAL))
        for lane in range(LANES):
            to = k.at(column, k.times(step, LANES * 2 * KV_BLOCK_TOKENS), lane * 2 * KV_BLOCK_TOKENS)
            k.store(to, k.lane(halves, lane))
        k.store(k.at(row, k.times(step, 2 * LANES)), _to_half(k, k.load(k.at(value, at), REAL)))
