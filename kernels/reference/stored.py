"""Takes stored blocks apart: unsigned weights, scales and minima as arrays, whatever the format's bytes look like.

Byte layouts are those of ggml's `ggml-common.h` (little-endian; d and m are float16):

    Q4_0  d, qs[16]              Q5_0  d, qh[4], qs[16]          Q8_0    d, i8[32]
    Q4_1  d, m, qs[16]           Q5_1  d, m, qh[4], qs[16]       IQ4_NL  d, qs[16]
    Q2_K  scales[16], qs[64], d, dmin                            Q3_K    hmask[32], qs[64], scales[12], d
    Q4_K  d, dmin, scales[12], qs[128]                           Q5_K    d, dmin, scales[12], qh[32], qs[128]
    Q6_K  ql[128], qh[64], i8 scales[16], d                      IQ4_XS  d, scales_h[2], scales_l[4], qs[128]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..formats import Format
from ..layouts import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


class Stored(NamedTuple):
    """Stored blocks of one format, taken apart.

    Attributes:
        weights: Unsigned weights, or indices of the codebook. Shape: (n, columns of a stored block), uint8.
        scale: float16 as its bits. Shape: (n,), uint16.
        minimum: The same for minima, None without.
        fine_scale: Integer factors of `scale`, one for each 16 or 32 columns, None without. Shape: (n, 8 or 16), int8.
        fine_minimum: The same for `minimum`, which is then subtracted. Shape: as fine_scale, uint8.
    """

    weights: Bytes
    scale: NDArray[np.uint16]
    minimum: NDArray[np.uint16] | None = None
    fine_scale: NDArray[np.int8] | None = None
    fine_minimum: NDArray[np.uint8] | None = None


def _half(blocks: Bytes, at: int) -> NDArray[np.uint16]:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<u2")[:, 0]


def _nibbles(packed: Bytes, run: int) -> Bytes:
    """Each run of bytes holds 2 * run weights: the low nibbles, then the high ones."""
    runs = packed.reshape(len(packed), -1, run)
    return np.concatenate([runs & 15, runs >> np.uint8(4)], axis=-1).reshape(len(packed), -1)


def _crumbs(packed: Bytes) -> Bytes:
    """Each run of 32 bytes holds 128 weights of two bits, 32 to each position of the bits."""
    runs = packed.reshape(len(packed), -1, 1, BLOCK)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return ((runs >> shifts) & np.uint8(3)).reshape(len(packed), -1)


def _bits(packed: Bytes) -> Bytes:
    """32 bytes hold 256 bits, 32 to each position."""
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    return ((packed.reshape(len(packed), 1, BLOCK) >> shifts) & np.uint8(1)).reshape(len(packed), -1)


def _little_bits(packed: Bytes) -> Bytes:
    """Bit j of a little-endian word is weight j's."""
    return np.unpackbits(packed, axis=1, bitorder="little")


def _six_bit_pairs(packed: Bytes) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    """The 8 scales and 8 minima of Q4_K and Q5_K, 6 bits each, in 12 bytes."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | ((low >> np.uint8(2)) & 48)], axis=1)
    minima = np.concatenate([middle & 63, (high >> np.uint8(4)) | ((middle >> np.uint8(2)) & 48)], axis=1)
    return scales.view(np.int8), minima


def _q4_0(b: Bytes) -> Stored:
    return Stored(_nibbles(b[:, 2:], 16), _half(b, 0))


def _q4_1(b: Bytes) -> Stored:
    return Stored(_nibbles(b[:, 4:], 16), _half(b, 0), _half(b, 2))


def _q5_0(b: Bytes) -> Stored:
    return Stored(_nibbles(b[:, 6:], 16) | (_little_bits(b[:, 2:6]) << np.uint8(4)), _half(b, 0))


def _q5_1(b: Bytes) -> Stored:
    return Stored(_nibbles(b[:, 8:], 16) | (_little_bits(b[:, 4:8]) << np.uint8(4)), _half(b, 0), _half(b, 2))


def _q8_0(b: Bytes) -> Stored:
    return Stored(b[:, 2:] ^ np.uint8(128), _half(b, 0))


def _q2_k(b: Bytes) -> Stored:
    scales = b[:, :16]
    return Stored(_crumbs(b[:, 16:80]), _half(b, 80), _half(b, 82), (scales & 15).view(np.int8), scales >> np.uint8(4))


def _q3_k(b: Bytes) -> Stored:
    packed = b[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> np.uint8(4)], axis=1)
    high = np.concatenate([(packed[:, 8:] >> np.uint8(shift)) & np.uint8(3) for shift in (0, 2, 4, 6)], axis=1)
    scales = (low | (high << np.uint8(4))).view(np.int8) - np.int8(32)
    return Stored(_crumbs(b[:, 32:96]) | (_bits(b[:, :32]) << np.uint8(2)), _half(b, 108), None, scales)


def _q4_k(b: Bytes) -> Stored:
    return Stored(_nibbles(b[:, 16:], 32), _half(b, 0), _half(b, 2), *_six_bit_pairs(b[:, 4:16]))


def _q5_k(b: Bytes) -> Stored:
    weights = _nibbles(b[:, 48:], 32) | (_bits(b[:, 16:48]) << np.uint8(4))
    return Stored(weights, _half(b, 0), _half(b, 2), *_six_bit_pairs(b[:, 4:16]))


def _q6_k(b: Bytes) -> Stored:
    weights = _nibbles(b[:, :128], 64) | (_crumbs(b[:, 128:192]) << np.uint8(4))
    return Stored(weights, _half(b, 208), None, np.ascontiguousarray(b[:, 192:208]).view(np.int8))


def _iq4_xs(b: Bytes) -> Stored:
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> np.uint8(4)], axis=-1).reshape(len(b), 8)
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    high = ((_half(b, 2)[:, None] >> shifts) & 3).astype(np.uint8)
    scales = (low | (high << np.uint8(4))).view(np.int8) - np.int8(32)
    return Stored(_nibbles(b[:, 8:], 16), _half(b, 0), None, scales)


_SPLITTERS: dict[Format, Callable[[Any], Stored]] = {
    Format.Q4_0: _q4_0,
    Format.Q4_1: _q4_1,
    Format.Q5_0: _q5_0,
    Format.Q5_1: _q5_1,
    Format.Q8_0: _q8_0,
    Format.Q2_K: _q2_k,
    Format.Q3_K: _q3_k,
    Format.Q4_K: _q4_k,
    Format.Q5_K: _q5_k,
    Format.Q6_K: _q6_k,
    Format.IQ4_NL: _q4_0,
    Format.IQ4_XS: _iq4_xs,
}


def split(fmt: Format, data: Bytes) -> Stored:
    """Takes whole blocks of a quantised format apart.

    Args:
        fmt: A quantised format.
        data: Stored blocks. Shape: (n * fmt.block_bytes,), uint8.
    """
    return _SPLITTERS[fmt](np.ascontiguousarray(data).reshape(-1, fmt.block_bytes))
