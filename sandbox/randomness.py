"""Counter-based randomness: the same request draws the same tokens, whatever else runs (clause 8.3).

draw(seed=7, choice=0, position=12)   # (u64, u64)
"""

from __future__ import annotations

import hashlib
import struct

_COUNTER = struct.Struct("<QQQ")
_PAIR = struct.Struct("<QQ")


def draw(seed: int, choice: int, position: int) -> tuple[int, int]:
    """Two u64 from BLAKE2b-128 over (seed, choice, position), each a little-endian u64.

    Args:
        seed: Of the request, u64.
        choice: Index of the choice, 0 for the first.
        position: Length of the history at this step.
    """
    first, second = _PAIR.unpack(hashlib.blake2b(_COUNTER.pack(seed, choice, position), digest_size=16).digest())
    return first, second


def unit(word: int) -> float:
    """A float64 in [0, 1) from the upper 53 bits of a u64."""
    return (word >> 11) * 2.0**-53
