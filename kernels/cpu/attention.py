"""Attention of a few queries that share a KV head, over one partition of a paged cache.

Layout  One layer's cache: keys and values by [block][kv_head], each as kept.py says. Queries float32[C][head_dim],
        rotated and already multiplied by the score's scale. A partition is 16 blocks (256 positions) of one sequence's
        table. Result of a partition, per query: peak, sum of weights, then float32[head_dim] of weighted values (a
        "partial").
Thread  One call: C queries, one partition. Scores: a lane is a position. Weighted values: a lane is a dimension. The
        vectors have 16 lanes; a processor with less splits them, which changes no lane's arithmetic.
Sums    float32. Score: ascending dimension; of scaled types each group's first, which then are added with their scale
        in ascending order. Weights: 16 lanes (position mod 16), blocks ascending, folded by halves. Values: ascending
        position; of scaled types a position's weight is multiplied by its scale first. Partitions merge in ascending
        order (`merge`). A position past the query's own adds exactly zero, so a result does not depend on which tokens
        share the call: clause 4.1. A window's start is hidden the same way, and whole blocks before it are not read,
        which changes no bit.
Limits  head_dim a multiple of 16. What was written is finite, so 0 * value is 0.
Moves   2 * head_dim elements and their scales a position and KV head, 2 * C * head_dim multiply-adds. A block of one
        head is 1 to 8 KiB, and the next one lies elsewhere: they are asked for some blocks ahead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..backend import KV_BLOCK_TOKENS
from ..kv_type import KV_SCALE_DIMS
from ..layouts import LINE
from .elementwise import LANES, REAL, exp
from .emit import F32, I32, I64, vector
from .features import soft_cap
from .kept import KEPT, groups
from .native import Library
from .program import PARTIAL_HEADER, PARTITION_TOKENS, SCALED_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..kv_type import KvType
    from .emit import Emit
    from .kept import Kept

QUERY_COUNTS = (1, 2, 3, 4, 6)
"""Queries of one call."""
LOWEST = -1e30
"""Stands for minus infinity as a peak: differences with it stay finite."""
WIDTH = 16
"""Lanes of a vector: the positions of a block, and the step of head_dim."""
VECTOR = vector(F32, WIDTH)
_WORDS = vector(I32, WIDTH)
_VECTOR_BYTES = 4 * WIDTH
_UNROLL = 4
_AHEAD = 4
"""Blocks between the one that is read and the one that is asked for."""
_FEW = {1: 4, 2: 2, 3: 1, 4: 1, 6: 1}
_MANY = {1: 4, 2: 4, 3: 4, 4: 4, 6: 2}
_AT_A_TIME = {False: _FEW, True: _MANY}
"""Blocks whose scores are summed at a time, and vectors of dimensions whose values are, by queries: what stays in 16
registers of 8 lanes (False) or 32 of 16 (True). Each was the fastest of those tried on Zen 5, the first compiled for
Zen 3."""


def attention_library(kv_type: KvType, *, many: bool) -> Library:
    """The kernels that read or write a cache of one type: store_kv, and attend1 to attend6 by queries."""
    library, kept = Library(), KEPT[kv_type]
    library.native("store_kv", kept.store)
    for queries in QUERY_COUNTS:
        library.native(f"attend{queries}", attend_kernel(kept, queries, many=many))
    return library


def attend_kernel(kept: Kept, queries: int, *, many: bool) -> Callable[..., None]:
    """Emitter for C queries over a cache of one type; `many`: for 32 registers of 16 lanes.

    Arguments: queries; address of int32[C] that counts the positions each may see, from the first block's start;
    address of int32[C] that counts those of them that are too old, 0: no window and no cap; address of the soft cap, 0:
    none; the partition's part of the block table (int32); blocks to read (1 to 16); keys and values of the layer and KV
    head at block 0; bytes from block to block; head_dim; scratch of SCORES_BYTES * C, where the scores come first as
    float32[C][256]; partials out; bytes between partials.
    """

    def emit(
        k: Emit, q: Any, seen: Any, low: Any, cap: Any, table: Any, blocks: Any, keys: Any, values: Any,
        block_bytes: Any, width: Any, scores: Any, partials: Any, partial_bytes: Any,
    ) -> None:  # fmt: skip
        pages = _Pages(k, table, blocks, block_bytes)
        most = _AT_A_TIME[many][queries]
        peaks = _Scores(k, kept, queries, q, seen, pages, keys, values, width, scores).run(most)
        with k.b.if_then(k.b.icmp_signed("!=", low, k.i64(0))):
            _refine(k, peaks, seen, low, cap, blocks, scores)
        _weights(k, [k.get(peak) for peak in peaks], blocks, scores, partials, partial_bytes)
        _Values(k, kept, queries, pages, values, width, scores, partials, partial_bytes).run(most)

    return emit


class _Pages:
    """Where the blocks of a partition are.

    Attributes:
        blocks: How many.
    """

    def __init__(self, k: Emit, table: Any, blocks: Any, block_bytes: Any) -> None:
        self.k, self.blocks, self._table, self._block_bytes = k, blocks, table, block_bytes

    def at(self, base: Any, index: Any) -> Any:
        """Block `index` of what begins at `base`."""
        k = self.k
        number = k.b.sext(k.load(k.at(self._table, k.times(index, 4)), I32), I64)
        return k.at(base, k.b.mul(number, self._block_bytes))

    def ahead(self, base: Any, index: Any) -> Any:
        """The block _AHEAD after that one, or the last."""
        k = self.k
        wanted, last = k.at(index, _AHEAD), k.at(self.blocks, -1)
        return self.at(base, k.b.select(k.b.icmp_signed("<", wanted, last), wanted, last))


class _Scores:
    """Queries times keys, masked, to the scratch."""

    def __init__(
        self, k: Emit, kept: Kept, queries: int, q: Any, seen: Any, pages: _Pages, keys: Any, values: Any, width: Any,
        scores: Any,
    ) -> None:  # fmt: skip
        self.k, self.kept, self.pages, self.keys, self.values = k, kept, pages, keys, values
        self.width, self.scores = width, scores
        self._step_bytes = _UNROLL * KV_BLOCK_TOKENS * kept.size
        self.limits = [k.splat(k.load(k.at(seen, 4 * query), I32), WIDTH) for query in range(queries)]
        row_bytes = k.times(width, 4)
        self.rows = [q]
        for _ in range(queries - 1):
            self.rows.append(k.at(self.rows[-1], row_bytes))
        self.peaks = [k.var(k.all(VECTOR, -math.inf)) for _ in range(queries)]

    def run(self, most: int) -> list[Any]:
        """All blocks, `most` at a time; returns each query's peaks by lane."""
        k, blocks = self.k, self.pages.blocks
        whole = k.b.udiv(blocks, k.i64(most))
        with k.loop(whole) as index:
            self._blocks(k.times(index, most), most)
        if most > 1:
            done = k.times(whole, most)
            with k.loop(k.b.sub(blocks, done)) as index:
                self._blocks(k.at(done, index), 1)
        return self.peaks

    def _blocks(self, first: Any, count: int) -> None:
        k = self.k
        indices = [k.at(first, part) for part in range(count)]
        starts = [self.pages.at(self.keys, index) for index in indices]
        soon = [self.pages.ahead(self.keys, index) for index in indices]
        later = [self.pages.at(self.values, index) for index in indices]
        sums = [[k.var(k.all(VECTOR, 0.0)) for _ in starts] for _ in self.rows]
        steps = k.b.lshr(self.width, k.i64(2))
        if not self.kept.scaled:
            self._run(starts, soon, later, k.i64(0), steps, sums)
        else:
            with k.loop(groups(k, self.width)) as group:
                self._group(starts, soon, later, group, steps, sums)
        for part, index in enumerate(indices):
            positions = k.b.add(
                k.splat(k.b.trunc(k.times(index, KV_BLOCK_TOKENS), I32), WIDTH),
                k.const_lanes(_WORDS, list(range(WIDTH))),
            )
            for query, limit in enumerate(self.limits):
                visible = k.b.icmp_signed("<", positions, limit)
                score = k.b.select(visible, k.get(sums[query][part]), k.all(VECTOR, -math.inf))
                k.store(_scores_at(k, self.scores, query, index), score)
                k.set(self.peaks[query], k.larger(score, k.get(self.peaks[query])))

    def _group(
        self, starts: list[Any], soon: list[Any], later: list[Any], group: Any, steps: Any, sums: list[list[Any]]
    ) -> None:
        """Adds the dimensions that share a scale, then multiplies by it."""
        k, kept = self.k, self.kept
        part_sums = [[k.var(k.all(VECTOR, 0.0)) for _ in starts] for _ in self.rows]
        most, first = KV_SCALE_DIMS // _UNROLL, k.times(group, KV_SCALE_DIMS // _UNROLL)
        left = k.b.sub(steps, first)
        count = k.b.select(k.b.icmp_signed("<", left, k.i64(most)), left, k.i64(most))
        self._run(starts, soon, later, first, count, part_sums)
        for part, start in enumerate(starts):
            for block in (soon[part], later[part]):
                k.prefetch(kept.scales_at(k, block, self.width, group))
            scales = kept.scales(k, start, self.width, group)
            for query, row in enumerate(sums):
                k.set(row[part], k.fma(k.get(part_sums[query][part]), scales, k.get(row[part])))

    def _run(
        self, starts: list[Any], soon: list[Any], later: list[Any], first: Any, count: Any, sums: list[list[Any]]
    ) -> None:
        """Adds `count` times four dimensions; asks for as much of the blocks that come."""
        k, kept = self.k, self.kept
        with k.loop(count) as index:
            step = k.at(first, index)
            far = k.times(step, self._step_bytes)
            for block, near in [*((block, 3) for block in soon), *((block, 2) for block in later)]:
                for line in range(self._step_bytes // LINE):
                    k.prefetch(k.at(block, far, line * LINE), near)
            at = [k.at(start, far) for start in starts]
            for inner in range(_UNROLL):
                columns = [kept.load(k, k.at(here, KV_BLOCK_TOKENS * kept.size * inner), WIDTH) for here in at]
                for row, slots in zip(self.rows, sums, strict=True):
                    x = k.splat(k.load(k.at(row, k.times(step, 4 * _UNROLL), 4 * inner), F32), WIDTH)
                    for column, slot in zip(columns, slots, strict=True):
                        k.set(slot, k.fma(column, x, k.get(slot)))


def _scores_at(k: Emit, scores: Any, query: int, index: Any) -> Any:
    """The scores of a query and block."""
    return k.at(scores, query * 4 * PARTITION_TOKENS, k.times(index, 4 * KV_BLOCK_TOKENS))


def _refine(k: Emit, peaks: list[Any], seen: Any, low: Any, cap: Any, blocks: Any, scores: Any) -> None:
    """Caps the scores, hides what is too old, and finds the peaks anew; only for layers that need it."""
    lowest = k.all(VECTOR, -math.inf)
    capped = k.b.icmp_signed("!=", cap, k.i64(0))
    limit = k.var(k.all(VECTOR, 1.0))
    with k.b.if_then(capped):
        k.set(limit, k.splat(k.load(cap, F32), WIDTH))
    for query, peak in enumerate(peaks):
        k.set(peak, lowest)
        newest, oldest = (k.splat(k.load(k.at(bound, 4 * query), I32), WIDTH) for bound in (seen, low))
        with k.loop(blocks) as index:
            at = _scores_at(k, scores, query, index)
            score = k.var(k.load(at, VECTOR))
            with k.b.if_then(capped):
                k.set(score, soft_cap(k, k.load(at, VECTOR), k.get(limit)))
            first = k.splat(k.b.trunc(k.times(index, KV_BLOCK_TOKENS), I32), WIDTH)
            positions = k.b.add(first, k.const_lanes(_WORDS, list(range(WIDTH))))
            old = k.b.icmp_signed("<", positions, oldest)
            visible = k.b.and_(k.b.icmp_signed("<", positions, newest), k.b.not_(old))
            kept = k.b.select(visible, k.get(score), lowest)
            k.store(at, kept)
            k.set(peak, k.larger(kept, k.get(peak)))


def _weights(k: Emit, peaks: list[Any], blocks: Any, scores: Any, partials: Any, partial_bytes: Any) -> None:
    for query, lanes in enumerate(peaks):
        peak = k.larger(k.fold(lanes, k.larger), k.f32(LOWEST))
        spread = k.splat(peak, WIDTH)
        sums = k.var(k.all(VECTOR, 0.0))
        with k.loop(blocks) as index:
            at = _scores_at(k, scores, query, index)
            weight = exp(k, k.b.fsub(k.load(at, VECTOR), spread))
            k.store(at, weight)
            k.set(sums, k.b.fadd(k.get(sums), weight))
        to = k.at(partials, k.times(partial_bytes, query))
        k.store(to, peak)
        k.store(k.at(to, 4), k.fold(k.get(sums), k.b.fadd))


class _Values:
    """Weights times values, to the partials."""

    def __init__(
        self, k: Emit, kept: Kept, queries: int, pages: _Pages, values: Any, width: Any, scores: Any, partials: Any,
        partial_bytes: Any,
    ) -> None:  # fmt: skip
        self.k, self.kept, self.queries, self.pages, self.values = k, kept, queries, pages, values
        self.width, self.scores, self.partials, self.partial_bytes = width, scores, partials, partial_bytes
        self.shelf = k.at(scores, queries * 4 * PARTITION_TOKENS)

    def run(self, most: int) -> None:
        """All dimensions, `most` vectors at a time."""
        k, left, first = self.k, self.k.b.lshr(self.width, self.k.i64(4)), self.k.i64(0)
        while most:
            whole = k.b.udiv(left, k.i64(most))
            with k.loop(whole) as step:
                self._span(k.at(first, k.times(step, most * WIDTH)), most)
            done = k.times(whole, most)
            first, left = k.at(first, k.times(done, WIDTH)), k.b.sub(left, done)
            most //= 2

    def _span(self, first: Any, count: int) -> None:
        """Dimensions from `first`, `count` vectors of them."""
        k, kept = self.k, self.kept
        sums = [[k.var(k.all(VECTOR, 0.0)) for _ in range(count)] for _ in range(self.queries)]
        row_bytes = k.times(self.width, kept.size)
        with k.loop(self.pages.blocks) as index:
            block = self.pages.at(self.values, index)
            weights = self._weights(block, index, first, count)
            start = k.at(block, k.times(first, kept.size))
            with k.loop(k.i64(KV_BLOCK_TOKENS)) as position:
                at = k.at(start, k.b.mul(position, row_bytes))
                rows = [kept.load(k, k.at(at, WIDTH * kept.size * part), WIDTH) for part in range(count)]
                for query, slots in enumerate(sums):
                    for part, (row, slot) in enumerate(zip(rows, slots, strict=True)):
                        weight = k.load(k.at(weights[query][part], k.times(position, 4)), F32)
                        k.set(slot, k.fma(row, k.splat(weight, WIDTH), k.get(slot)))
        for query, slots in enumerate(sums):
            to = k.at(self.partials, k.times(self.partial_bytes, query), PARTIAL_HEADER, k.times(first, 4))
            for part, slot in enumerate(slots):
                k.store(k.at(to, _VECTOR_BYTES * part), k.get(slot))

    def _weights(self, block: Any, index: Any, first: Any, count: int) -> list[list[Any]]:
        """Where a block's weights are: [query][vector] of float32[16]; of a scaled type times the scales."""
        k = self.k
        plain = [_scores_at(k, self.scores, query, index) for query in range(self.queries)]
        if not self.kept.scaled:
            return [[at] * count for at in plain]
        vectors = KV_SCALE_DIMS // WIDTH
        groups_here = -(-count // vectors)
        group, places = k.b.lshr(first, k.i64(KV_SCALE_DIMS.bit_length() - 1)), []
        scales = [self.kept.scales(k, block, self.width, k.at(group, part)) for part in range(groups_here)]
        for query, at in enumerate(plain):
            weights = k.load(at, VECTOR)
            places.append(
                [k.at(self.shelf, _VECTOR_BYTES * (query * SCALED_WEIGHTS + part)) for part in range(groups_here)]
            )
            for to, scale in zip(places[-1], scales, strict=True):
                k.store(to, k.b.fmul(weights, scale))
        return [[row[part // vectors] for part in range(count)] for row in places]


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
