"""SHA-256 of several buffers, some side by side where the processor has instructions for it (README clause 12).

Only buffers of the same length, in whole blocks, go side by side: then one more block holds nothing but the padding of
all (FIPS 180-4, 5.1.1). Others, and what is left over, go to the next way, the last of which is hashlib.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ..sha256 import Sha256

BLOCK_BYTES: Final = 64
_INITIAL: Final = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
"""FIPS 180-4, 5.3.3: words A to H."""
_IN_LINES: Final = (5, 4, 1, 0, 7, 6, 3, 2)
"""Which of A to H stands where in a message's state; see `sha256.py`."""
_FEWEST: Final = {8: 4, 16: 10}
"""Messages for which so many lanes are worth their time; fewer are done sooner in pairs, or by hashlib."""


class PairedSha256:
    """SHA-256 of each of several buffers; two neighbours of the same length are hashed side by side.

    Args:
        hash_two: The kernel of `sha256.py`; it releases the GIL.
        others: Hashes the rest.
    """

    width: Final = 2

    def __init__(self, hash_two: Callable[[int, int, int, int], None], others: Sha256) -> None:
        self._hash_two, self._others = hash_two, others

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """See `Sha256`."""
        digests: list[bytes] = []
        for group in _alike(buffers, self.width):
            digests += self._pair(*group) if _fit(group, self.width) else self._others(group)
        return digests

    def _pair(self, first: memoryview, second: memoryview) -> list[bytes]:
        states = np.array([_INITIAL[word] for word in _IN_LINES] * 2, np.uint32)
        for one, other in ((first, second), (padding := _padding(first), padding)):
            addresses = _address(one), _address(other)
            self._hash_two(*addresses, one.nbytes // BLOCK_BYTES, states.ctypes.data)
        ordered = np.empty((2, len(_INITIAL)), np.uint32)
        ordered[:, list(_IN_LINES)] = states.reshape(2, -1)
        return _digests(ordered)


class LanedSha256:
    """SHA-256 of each of several buffers; up to eight or sixteen neighbours of the same length go side by side.

    Args:
        hash_lanes: A kernel of `sha256_lanes.py`; it releases the GIL.
        width: Its lanes.
        others: Hashes the rest.
    """

    def __init__(self, hash_lanes: Callable[[int, int, int], None], width: int, others: Sha256) -> None:
        self._hash_lanes, self.width, self._others = hash_lanes, width, others

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """See `Sha256`."""
        digests: list[bytes] = []
        for group in _alike(buffers, self.width):
            digests += self._lanes(group) if _fit(group, _FEWEST[self.width]) else self._others(group)
        return digests

    def _lanes(self, group: Sequence[memoryview]) -> list[bytes]:
        """Lanes that are left over hash the first message once more."""
        states = np.repeat(np.array(_INITIAL, np.uint32)[:, np.newaxis], self.width, axis=1)
        for messages in (group, [_padding(group[0])]):
            starts = np.full(self.width, _address(messages[0]), np.int64)
            starts[: len(messages)] = [_address(message) for message in messages]
            self._hash_lanes(starts.ctypes.data, messages[0].nbytes // BLOCK_BYTES, states.ctypes.data)
        return _digests(states.T[: len(group)])


def _alike(buffers: Sequence[memoryview], most: int) -> Iterator[list[memoryview]]:
    """Neighbours of the same length, so many at most."""
    for _, run in itertools.groupby(buffers, lambda buffer: buffer.nbytes):
        alike = list(run)
        yield from (alike[at : at + most] for at in range(0, len(alike), most))


def _fit(group: Sequence[memoryview], fewest: int) -> bool:
    """Whether these are enough, and in whole blocks."""
    return len(group) >= fewest and group[0].nbytes > 0 and group[0].nbytes % BLOCK_BYTES == 0


def _padding(message: memoryview) -> memoryview:
    """The block behind a message of whole blocks."""
    return memoryview(struct.pack(">B55xQ", 0x80, 8 * message.nbytes))


def _address(buffer: memoryview) -> int:
    """Of a buffer that is not empty; whoever uses it holds the buffer."""
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def _digests(words: NDArray[np.uint32]) -> list[bytes]:
    """Shape: (messages, 8), words A to H."""
    return [row.tobytes() for row in words.astype(">u4")]
