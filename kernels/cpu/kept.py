"""How keys and values lie in a KV block of each type, and how one position's are written.

Layout  One head of one block. Keys: [head_dim][16 positions], values: [16 positions][head_dim], elements of the type.
        int8 has behind them float16 scales [dimensions / 32][16 positions], the last group may be of 16 dimensions.
Thread  One call writes one position of one head.
Sums    int8: scale = largest magnitude / 127, rounded to float16; integer = nearest even of value / that scale.
Limits  head_dim a multiple of 16. What is stored is finite, so 0 * value is 0 (clause 4.4): values are clamped to
        float16's range (float32: to its own), NaN to its lower end.
Moves   head_dim elements and their scales, twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backend import KV_BLOCK_TOKENS
from ..kv_type import KV_SCALE_DIMS, KvType
from .elementwise import LANES, LARGEST, REAL, whole_steps
from .emit import F16, F32, I8, I32, vector

if TYPE_CHECKING:
    from .emit import Emit

FLOAT_MAX = 3.4028234663852886e38
HALF_MAX = 65504.0
SCALES_BYTES = 2 * KV_BLOCK_TOKENS
"""Bytes of one group's scales."""
_GROUP_VECTORS = KV_SCALE_DIMS // LANES


class Kept:
    """A type without scales.

    Attributes:
        size: Bytes of an element.
        scaled: Whether there are scales.
    """

    scaled = False

    def __init__(self, kv_type: KvType) -> None:
        self.size = kv_type.element_bytes
        self._element = {KvType.FLOAT16: F16, KvType.FLOAT32: F32, KvType.INT8: I8}[kv_type]
        self._limit = FLOAT_MAX if kv_type is KvType.FLOAT32 else HALF_MAX

    def load(self, k: Emit, at: Any, lanes: int) -> Any:
        """Neighbouring elements as float32, without their scale."""
        raw, real = k.load(at, vector(self._element, lanes)), vector(F32, lanes)
        return k.b.fpext(raw, real) if self._element is F16 else raw

    def scales_at(self, k: Emit, block: Any, width: Any, group: Any) -> Any:
        """Where a group's scales of 16 positions are."""
        return k.at(block, k.times(width, self.size * KV_BLOCK_TOKENS), k.times(group, SCALES_BYTES))

    def scales(self, k: Emit, block: Any, width: Any, group: Any) -> Any:
        """Those scales as float32."""
        raw = k.load(self.scales_at(k, block, width, group), vector(F16, KV_BLOCK_TOKENS))
        return k.b.fpext(raw, vector(F32, KV_BLOCK_TOKENS))

    def store(self, k: Emit, key: Any, value: Any, key_block: Any, value_block: Any, slot: Any, width: Any) -> None:
        """Writes one position of one KV head from float32[head_dim] each; `slot` is the position in the block."""
        with k.loop(k.b.lshr(width, k.i64(3))) as step:
            at = k.times(step, 4 * LANES)
            self._put_column(k, self._rounded(k, k.load(k.at(key, at), REAL)), key_block, slot, step)
            self._put_row(k, self._rounded(k, k.load(k.at(value, at), REAL)), value_block, slot, step, width)

    def _rounded(self, k: Emit, value: Any) -> Any:
        limited = self._finite(k, value)
        return k.b.fptrunc(limited, vector(F16, LANES)) if self._element is F16 else limited

    def _finite(self, k: Emit, value: Any) -> Any:
        """Within the limit; NaN becomes its lower end."""
        return k.smaller(k.larger(value, k.all(REAL, -self._limit)), k.all(REAL, self._limit))

    def _put_column(self, k: Emit, elements: Any, block: Any, slot: Any, step: Any) -> None:
        """Eight dimensions of a key from 8 * step on."""
        distance = self.size * KV_BLOCK_TOKENS
        to = k.at(block, k.times(slot, self.size), k.times(step, LANES * distance))
        for lane in range(LANES):
            k.store(k.at(to, lane * distance), k.lane(elements, lane))

    def _put_row(self, k: Emit, elements: Any, block: Any, slot: Any, step: Any, width: Any) -> None:
        """The same of a value."""
        row = k.at(block, k.b.mul(slot, k.times(width, self.size)))
        k.store(k.at(row, k.times(step, LANES * self.size)), elements)


class KeptInt8(Kept):
    """Integers with scales."""

    scaled = True

    def load(self, k: Emit, at: Any, lanes: int) -> Any:
        """Neighbouring integers as float32."""
        whole = k.b.sext(k.load(at, vector(I8, lanes)), vector(I32, lanes))
        return k.b.sitofp(whole, vector(F32, lanes))

    def store(self, k: Emit, key: Any, value: Any, key_block: Any, value_block: Any, slot: Any, width: Any) -> None:
        """As `Kept.store`, group by group."""
        vectors = k.b.lshr(width, k.i64(3))
        with k.loop(groups(k, width)) as group:
            first = k.times(group, _GROUP_VECTORS)
            left = k.b.sub(vectors, first)
            count = k.b.select(k.b.icmp_signed("<", left, k.i64(_GROUP_VECTORS)), left, k.i64(_GROUP_VECTORS))
            for source, block in ((key, key_block), (value, value_block)):
                inverse = self._put_scale(k, k.at(source, k.times(first, 4 * LANES)), count, block, slot, width, group)
                with k.loop(count) as index:
                    step = k.at(first, index)
                    x = self._finite(k, k.load(k.at(source, k.times(step, 4 * LANES)), REAL))
                    elements = k.b.trunc(whole_steps(k, x, inverse), vector(I8, LANES))
                    if block is key_block:
                        self._put_column(k, elements, block, slot, step)
                    else:
                        self._put_row(k, elements, block, slot, step, width)

    def _put_scale(
        self, k: Emit, source: Any, count: Any, block: Any, slot: Any, width: Any, group: Any
    ) -> Any:  # fmt: skip
        """Writes the scale of `count` vectors of values; returns what they are multiplied with."""
        peaks = k.var(k.all(REAL, 0.0))
        with k.loop(count) as index:
            x = self._finite(k, k.load(k.at(source, k.times(index, 4 * LANES)), REAL))
            k.set(peaks, k.larger(k.abs(x), k.get(peaks)))
        scale = k.b.fptrunc(k.b.fdiv(k.fold(k.get(peaks), k.larger), k.f32(LARGEST)), F16)
        k.store(k.at(self.scales_at(k, block, width, group), k.times(slot, 2)), scale)
        real = k.b.fpext(scale, F32)
        none = k.b.fcmp_ordered("==", real, k.f32(0.0))
        return k.b.select(none, k.f32(0.0), k.b.fdiv(k.f32(1.0), real))


KEPT = {kv_type: (KeptInt8 if kv_type is KvType.INT8 else Kept)(kv_type) for kv_type in KvType}


def groups(k: Emit, width: Any) -> Any:
    """Groups of dimensions that share a scale."""
    return k.b.lshr(k.at(width, KV_SCALE_DIMS - 1), k.i64(KV_SCALE_DIMS.bit_length() - 1))
