"""Counter-based randomness: the same request draws the same tokens, whatever else runs (clause 8.3).

draw(seed=7, choice=0, position=12)   # (u64, u64)
"""

from __future__ import annotations

import hashlib
import struct

_PAIR = struct.Struct("<QQ")


def draw(seed: int, choice: int, position: int) -> tuple[int, int]:
    """Two u64 from BLAKE2b-128 over (seed, choice, position), each a little-endian u64.

    Args:
        seed: Of the request, u64.
        choice: Index of the choice, 0 for the first.
        position: Length of the history at this step.
    """
    hashed = begun(seed, choice)
    hashed.update(position.to_bytes(8, "little"))
    first, second = _PAIR.unpack(hashed.digest())
    return first, second


def begun(seed: int, choice: int) -> hashlib.blake2b:
    """What all positions of a choice have in common: a copy of it, updated with one as u64, has `draw`'s bytes."""
    return hashlib.blake2b(_PAIR.pack(seed, choice), digest_size=16)


def ahead(begun: hashlib.blake2b, position: int, count: int) -> list[bytes]:
    """`draw`'s bytes for as many positions from one on: one look at the code of a hash serves them all.

    Args:
        begun: Of the choice.
        position: The first one.
        count: How many.

    Returns:
        Two little-endian u64 for each position.
    """
    words = []
    for at in range(position, position + count):
        hashed = begun.copy()
        hashed.update(at.to_bytes(8, "little"))
        words.append(hashed.digest())
    return words


def unit(word: int) -> float:
    """A float64 in [0, 1) from the upper 53 bits of a u64."""
    return (word >> 11) * 2.0**-53
