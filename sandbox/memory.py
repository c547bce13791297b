"""A guest's linear memory as bounds-checked views (clause 4.4).

    memory = GuestMemory(address, size)
    memory.array(offset, count, np.float32)   # live view, no copy
    memory.close()                            # before the store is closed

* The memory never moves nor grows (clauses 1.5, `memory_may_move`), so its address is taken once.
* Every offset is checked here as well, although layouts have been checked already.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from . import abi
from .errors import SandboxError

if TYPE_CHECKING:
    import struct

    from numpy.typing import NDArray


_WRITABLE = 0x200
"""PyBUF_WRITE of CPython's object.h."""

_view_of = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of.restype = ctypes.py_object
_view_of.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]


class GuestMemory:
    """The bytes `[address, address + size)` of one instance.

    Args:
        address: Of the host's mapping.
        size: Bytes.
    """

    __slots__ = ("_bytes", "address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self._bytes: memoryview | None = _view_of(address, size, _WRITABLE)

    @property
    def view(self) -> NDArray[np.uint8]:
        """The whole memory. Shape: (size,), uint8, live.

        Raises:
            SandboxError: After `close`.
        """
        return np.frombuffer(self._span(0, self.size), np.uint8)

    def base(self) -> int:
        """Address of the first byte; raises as `view` does."""
        self._span(0, 0)  # refuses when closed
        return self.address

    def array(self, offset: int, count: int, dtype: type[np.generic]) -> NDArray[Any]:
        """A live view of `count` elements at `offset`. Shape: (count,).

        Raises:
            SandboxError: When it would leave the memory, or after `close`.
        """
        size = np.dtype(dtype).itemsize * count
        return np.frombuffer(self._span(offset, size), dtype)

    def buffer(self, offset: int, size: int) -> memoryview:
        """A live view of `size` bytes at `offset`; raises as `array` does."""
        return self._span(offset, size)

    def read(self, offset: int, size: int) -> bytes:
        """A copy of `size` bytes at `offset`; raises as `array` does."""
        return self._span(offset, size).tobytes()

    def write(self, offset: int, data: bytes) -> None:
        """Copies `data` to `offset`; raises as `array` does."""
        self._span(offset, len(data))[:] = data

    def pack(self, layout: struct.Struct, offset: int, *values: float) -> None:
        """Writes one struct at `offset`; raises as `array` does."""
        layout.pack_into(self._span(offset, layout.size), 0, *values)

    def close(self) -> None:
        """Drops the view; views handed out before must not be used any more."""
        self._bytes = None

    def _span(self, offset: int, size: int) -> memoryview:
        if offset < 0 or size < 0 or offset + size > self.size:
            problem = f"expected {size} bytes at {offset:#x} inside {self.size}, got an offset outside"
            raise SandboxError("sandbox", problem, "report it: a checked layout was overrun")
        if self._bytes is None:
            raise SandboxError("sandbox", "expected an open instance, got a closed one", "start a new one")
        return self._bytes[offset : offset + size]


def host_rows(count: int, vocab_size: int) -> list[NDArray[np.float32]]:
    """Page-aligned rows of logits in memory of the host's own, zero until somebody writes there."""
    stride = -(-4 * vocab_size // abi.LOGITS_ALIGNMENT) * abi.LOGITS_ALIGNMENT
    pages = mmap.mmap(-1, count * stride)
    return [np.frombuffer(pages, np.float32, vocab_size, row * stride) for row in range(count)]
