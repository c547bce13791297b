"""SHA-256 of several buffers, two at a time where the processor has instructions for it (README clause 12)."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BLOCK_BYTES: Final = 64
_INITIAL: Final = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
"""FIPS 180-4, 5.3.3: words A to H."""
_IN_LINES: Final = (5, 4, 1, 0, 7, 6, 3, 2)
"""Which of A to H stands where in a message's state; see `sha256.py`."""


def sha256_each(buffers: Sequence[memoryview]) -> list[bytes]:
    """SHA-256 of each buffer, one after the other."""
    return [hashlib.sha256(buffer).digest() for buffer in buffers]


def _alike(pair: Sequence[memoryview]) -> bool:
    """Whether these are two buffers of as many whole blocks."""
    if len(pair) != 2:
        return False
    length, other = (buffer.nbytes for buffer in pair)
    return 0 < length == other and length % BLOCK_BYTES == 0


class PairedSha256:
    """SHA-256 of each of several buffers; two of the same length are hashed side by side.

    Args:
        hash_two: The kernel; it releases the GIL.
    """

    def __init__(self, hash_two: Callable[[int, int, int, int], None]) -> None:
        self._hash_two = hash_two

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """The digests, 32 bytes each, in the buffers' order."""
        digests: list[bytes] = []
        for at in range(0, len(buffers), 2):
            pair = buffers[at : at + 2]
            digests += self._pair(*pair) if _alike(pair) else sha256_each(pair)
        return digests

    def _pair(self, first: memoryview, second: memoryview) -> tuple[bytes, bytes]:
        """Both are as long and whole blocks, so one more block holds nothing but the padding (FIPS 180-4, 5.1.1)."""
        state = [_INITIAL[word] for word in _IN_LINES]
        states = np.array(state * 2, np.uint32)
        padding = np.frombuffer(struct.pack(">B55xQ", 0x80, 8 * first.nbytes), np.uint8)
        messages = np.frombuffer(first, np.uint8), np.frombuffer(second, np.uint8)
        for one, other in (messages, (padding, padding)):
            self._hash_two(one.ctypes.data, other.ctypes.data, one.size // BLOCK_BYTES, states.ctypes.data)
        ordered = np.empty((2, 8), ">u4")
        ordered[:, list(_IN_LINES)] = states.reshape(2, 8)
        return ordered[0].tobytes(), ordered[1].tobytes()
