"""Packs stored rows into tiles: the bytes that `reference/stored.py` describes become those of `records.py`.

pack(kind, source, row_bytes, order, rows, first, end, records, out)
        Tiles `first` to `end` of a matrix of `rows` stored rows, each `records` records wide; `out` is tile 0, zeroed.
        Row r is row order[r] (int64) of the source; `order` 0 leaves them in place. Lanes without a row stay zero.

Layout  A stored row is one block after another; 16 rows go side by side into each record.
Thread  One call packs its tiles; calls for other tiles may run beside it.
Moves   Each byte once in and once out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import BLOCK, DENSE_BYTES, LINE, QUANTISED, RECORD_BYTES, SUPER_BLOCKS, TILE_ROWS, Kind
from .emit import I1, I8, I16, I32, I64, vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from .emit import Emit
    from .native import Library

_STORED_BYTES = {
    Kind.Q4_0: 18, Kind.Q4_1: 20, Kind.Q5_0: 22, Kind.Q5_1: 24, Kind.Q8_0: 34, Kind.IQ4_NL: 18,
    Kind.Q2_K: 84, Kind.Q3_K: 110, Kind.Q4_K: 144, Kind.Q5_K: 176, Kind.Q6_K: 210, Kind.IQ4_XS: 136,
}  # fmt: skip
_HALVES_AT = {
    Kind.Q4_1: (0, 2), Kind.Q5_1: (0, 2), Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2),
    Kind.Q2_K: (80, 82), Kind.Q3_K: (108,), Kind.Q6_K: (208,),
}  # fmt: skip
"""Where a stored block's float16 scale and minimum lie, unless it is (0,)."""
_NIBBLES_AT = {Kind.Q4_0: 2, Kind.Q4_1: 4, Kind.Q5_0: 6, Kind.Q5_1: 8, Kind.IQ4_NL: 2, Kind.IQ4_XS: 8}
_LITTLE_BITS_AT = {Kind.Q5_0: 2, Kind.Q5_1: 4}
_K_NIBBLES_AT = {Kind.Q4_K: 16, Kind.Q5_K: 48}
_CRUMBS_AT = {Kind.Q2_K: 16, Kind.Q3_K: 32}
_Q5_K_BITS_AT, _Q6_K_CRUMBS_AT, _Q3_K_SCALES_AT, _Q6_K_SCALES_AT, _SIX_BITS_AT = 16, 128, 96, 192, 4
_WHOLE = vector(I8, BLOCK)


def add_packing(library: Library) -> None:
    """Adds `pack`, and what it calls, to a library."""
    for kind in Kind:
        body = _dense_row(kind) if kind in DENSE_BYTES else _quantised_row(kind)
        library.native(f"pack_{kind.name}", body)

    def pack(
        k: Emit, kind: Any, source: Any, row_bytes: Any, order: Any, rows: Any, first: Any, end: Any, records: Any,
        out: Any,
    ) -> None:  # fmt: skip
        for member in Kind:
            with k.b.if_then(k.b.icmp_signed("==", kind, k.i64(member))), k.loop(k.b.sub(end, first)) as index:
                tile = k.at(first, index)
                to = k.at(out, k.b.mul(tile, k.times(records, RECORD_BYTES[member])))
                with k.loop(k.i64(TILE_ROWS)) as lane:
                    row = k.at(k.times(tile, TILE_ROWS), lane)
                    with k.b.if_then(k.b.icmp_signed("<", row, rows)):
                        chosen = k.var(row)
                        with k.b.if_then(k.b.icmp_signed("!=", order, k.i64(0))):
                            k.set(chosen, k.load(k.at(order, k.times(row, 8)), I64))
                        at = k.at(source, k.b.mul(k.get(chosen), row_bytes))
                        library.invoke(k, f"pack_{member.name}", at, to, lane, records)

    library.native("pack", pack)


def _dense_row(kind: Kind) -> Callable[..., None]:
    size = DENSE_BYTES[kind]
    element = I16 if size == 2 else I32

    def emit(k: Emit, source: Any, tile: Any, lane: Any, records: Any) -> None:
        with k.loop(k.times(records, BLOCK)) as column:
            value = k.load(k.at(source, k.times(column, size)), element)
            k.store(k.at(tile, k.times(column, TILE_ROWS * size), k.times(lane, size)), value)

    return emit


def _quantised_row(kind: Kind) -> Callable[..., None]:
    layout = QUANTISED[kind]

    def emit(k: Emit, source: Any, tile: Any, lane: Any, records: Any) -> None:
        with k.loop(records) as index:
            at, to = k.at(source, k.times(index, _STORED_BYTES[kind])), k.at(tile, k.times(index, RECORD_BYTES[kind]))
            halves = _HALVES_AT.get(kind, (0,))
            for number, offset in enumerate(halves):
                half = k.load(k.at(at, offset), I16)
                k.store(k.at(to, 2 * TILE_ROWS * number, k.times(lane, 2)), half)
            if layout.blocks > 1:
                _factors(k, kind, at, k.at(to, 2 * TILE_ROWS * len(halves), lane))
            for block in range(layout.blocks):
                weights, body = _weights(k, kind, at, block), k.at(to, layout.head + block * layout.block_bytes)
                _plane(k, weights, layout.low, 0, body, lane)
                if layout.high:
                    _plane(k, weights, layout.high, layout.low, k.at(body, layout.low_bytes), lane)

    return emit


# weights as stored


def _weights(k: Emit, kind: Kind, at: Any, block: int) -> Any:
    """Block `block` of a stored block as unsigned bytes, or indices of the codebook: <32 x i8>."""
    if kind is Kind.Q8_0:
        raw = k.load(k.at(at, 2), _WHOLE)
        return k.b.xor(raw, k.all(_WHOLE, 128))
    if kind in _NIBBLES_AT:
        raw = k.load(k.at(at, _NIBBLES_AT[kind] + block * BLOCK // 2), vector(I8, BLOCK // 2))
        low = k.shuffle(_bits(k, raw, 0, 4), _bits(k, raw, 4, 4), list(range(BLOCK)))
        if kind not in _LITTLE_BITS_AT:
            return low
        bits = k.b.bitcast(k.load(k.at(at, _LITTLE_BITS_AT[kind]), I32), vector(I1, BLOCK))
        return _over(k, low, k.b.zext(bits, _WHOLE), 4)
    return _k_weights(k, kind, at, block)


def _k_weights(k: Emit, kind: Kind, at: Any, block: int) -> Any:
    """The same of the K formats, where a run of 32 bytes holds some bits of several blocks."""
    half, quarter = divmod(block, 4)

    def run(offset: int, start: int, count: int) -> Any:
        return _bits(k, k.load(k.at(at, offset), _WHOLE), start, count)

    if kind in _K_NIBBLES_AT:
        low = run(_K_NIBBLES_AT[kind] + block // 2 * BLOCK, 4 * (block % 2), 4)
        return low if kind is Kind.Q4_K else _over(k, low, run(_Q5_K_BITS_AT, block, 1), 4)
    if kind is Kind.Q6_K:
        low = run((2 * half + quarter % 2) * BLOCK, quarter // 2 * 4, 4)
        return _over(k, low, run(_Q6_K_CRUMBS_AT + half * BLOCK, 2 * quarter, 2), 4)
    low = run(_CRUMBS_AT[kind] + half * BLOCK, 2 * quarter, 2)
    return low if kind is Kind.Q2_K else _over(k, low, run(0, block, 1), 2)


def _bits(k: Emit, raw: Any, start: int, count: int) -> Any:
    """Some bits of each byte."""
    if start:
        raw = k.b.lshr(raw, k.all(raw.type, start))
    return raw if start + count == 8 else k.b.and_(raw, k.all(raw.type, (1 << count) - 1))


def _over(k: Emit, low: Any, high: Any, bits: int) -> Any:
    """Low, with `high` above so many bits."""
    return k.b.or_(low, k.b.shl(high, k.all(high.type, bits)))


# weights as packed


def _plane(k: Emit, weights: Any, bits: int, shift: int, body: Any, lane: Any) -> None:
    """Writes some bits of 32 weights to a lane of a plane; see `records.py` for where each goes."""
    part = _bits(k, weights, shift, bits)
    if bits == 1:
        _bit_plane(k, part, body, lane)
        return
    if bits == 2:
        words = [_four_fields(k, part, line) for line in range(2)]
    else:
        if bits == 4:
            half = list(range(BLOCK // 2))
            part = _over(k, k.shuffle(part, part, half), k.shuffle(part, part, [BLOCK // 2 + one for one in half]), 4)
        lanes = part.type.count // 4
        wide = k.b.bitcast(part, vector(I32, lanes))
        words = [k.lane(wide, word) for word in range(lanes)]
    for line, word in enumerate(words):
        k.store(k.at(body, line * LINE, k.times(lane, 4)), word)


def _four_fields(k: Emit, part: Any, line: int) -> Any:
    """Sixteen weights of 2 bits in one word: weight 4f + c is field f of byte c."""
    words = k.b.bitcast(part, vector(I32, BLOCK // 4))
    whole = k.lane(words, 4 * line)
    for field in range(1, 4):
        whole = k.b.or_(whole, k.b.shl(k.lane(words, 4 * line + field), k.i32(2 * field)))
    return whole


def _bit_plane(k: Emit, part: Any, body: Any, lane: Any) -> None:
    """Four bits for each 4 columns: a nibble of byte lane / 2, the lower one for an even lane."""
    mask = k.b.bitcast(k.b.trunc(part, vector(I1, BLOCK)), I32)
    odd = k.b.trunc(k.times(k.b.and_(lane, k.i64(1)), 4), I32)
    for group in range(BLOCK // 4):
        at = k.at(body, group * LINE // 8, k.b.lshr(lane, k.i64(1)))
        nibble = k.b.and_(k.b.lshr(mask, k.i32(4 * group)), k.i32(15))
        moved = k.b.trunc(k.b.shl(nibble, odd), I8)
        k.store(at, k.b.or_(k.load(at, I8), moved))


# factors


def _factors(k: Emit, kind: Kind, at: Any, to: Any) -> None:
    """A stored block's integer factors; `to` is this lane's byte of the first row of them."""

    def byte(offset: int) -> Any:
        return k.load(k.at(at, offset), I8)

    if kind is Kind.IQ4_XS:
        _copy(k, [byte(4 + index) for index in range(4)] + [byte(2), byte(3)], to)
    elif kind in (Kind.Q2_K, Kind.Q6_K):
        first = _Q6_K_SCALES_AT if kind is Kind.Q6_K else 0
        _copy(k, [byte(first + index) for index in range(2 * SUPER_BLOCKS)], to)
    else:
        six_bits = _q3_k_scales if kind is Kind.Q3_K else _scales_and_minima
        pairs = [six_bits(k, byte, block) for block in range(SUPER_BLOCKS)]
        ups = [_bits(k, second, 2, 6) for _, second in pairs]
        _copy(k, [_over(k, first, _bits(k, second, 0, 2), 6) for first, second in pairs], to)
        rest = [_over(k, ups[block], ups[block + 1], 4) for block in range(0, SUPER_BLOCKS, 2)]
        _copy(k, rest, k.at(to, SUPER_BLOCKS * TILE_ROWS))


def _copy(k: Emit, rows: list[Any], to: Any) -> None:
    for index, value in enumerate(rows):
        k.store(k.at(to, index * TILE_ROWS), value)


def _scales_and_minima(k: Emit, byte: Callable[[int], Any], block: int) -> tuple[Any, Any]:
    """Scale and minimum of a block of Q4_K or Q5_K, 6 bits each."""
    at, low = _SIX_BITS_AT, block % 4
    if block == low:
        return _bits(k, byte(at + low), 0, 6), _bits(k, byte(at + 4 + low), 0, 6)
    joint = byte(at + 8 + low)
    scale = _over(k, _bits(k, joint, 0, 4), _bits(k, byte(at + low), 6, 2), 4)
    return scale, _over(k, _bits(k, joint, 4, 4), _bits(k, byte(at + 4 + low), 6, 2), 4)


def _q3_k_scales(k: Emit, byte: Callable[[int], Any], block: int) -> tuple[Any, Any]:
    """The scales of both halves of a block of Q3_K, 6 bits each, plus 32."""

    def scale(index: int) -> Any:
        low = _bits(k, byte(_Q3_K_SCALES_AT + index % 8), 4 * (index // 8), 4)
        return _over(k, low, _bits(k, byte(_Q3_K_SCALES_AT + 8 + index % 4), 2 * (index // 4), 2), 4)

    return scale(2 * block), scale(2 * block + 1)
