"""Memory for weights, cache and scratch: large anonymous maps, cut front to back, on huge pages where there are some.

Pages that were never written cost nothing, so a chunk that is not full does no harm.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

from ..errors import KernelError
from ..layouts import ALIGNMENT, round_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK_BYTES = 64 << 20
HUGE_PAGE = 2 << 20


class Arena:
    """Hands out zeroed, aligned byte arrays; they live as long as the arena: compiled code knows their addresses only.

    Attributes:
        used: Bytes handed out.
    """

    def __init__(self) -> None:
        self.used = 0
        self._chunks: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
        self._next = 0

    def take(self, size: int) -> NDArray[np.uint8]:
        """A zeroed array of `size` bytes, aligned to a cache line."""
        if self._next + size > len(self._chunks[-1]):
            self._chunks.append(_map(max(size, CHUNK_BYTES)))
            self._next = 0
        start = self._next
        self._next = round_up(start + size, ALIGNMENT)
        self.used += self._next - start
        return self._chunks[-1][start : start + size]


def _map(size: int) -> NDArray[np.uint8]:
    try:
        area = mmap.mmap(-1, round_up(size, HUGE_PAGE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError) as error:
        raise KernelError(f"expected room for {size} bytes of memory, got: {error}; ask for fewer KV blocks") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(area, np.uint8)


def address(array: NDArray[np.generic]) -> int:
    """Where an array's first element lies."""
    return int(array.__array_interface__["data"][0])
