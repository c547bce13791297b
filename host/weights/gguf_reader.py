"""A cursor over a model file that never reads past its end and names what it was reading.

Rules
* Positions and sizes are Python integers, compared with the buffer's size before any access (clause 1.1).
* Only bytes that were asked for through `Contents.view` are touched: of verified weights, those are checked by then.
* Nothing here outlives the reader as a view: strings are `bytes`, arrays are copies, so that the pages can go.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import WeightsError
from .gguf_types import SCALARS, Strings, ValueType

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_STRING_BYTES = 64 << 20
"""Longest string, bytes: some files carry a whole tokenizer.json; no name or template comes near."""

MAX_ARRAY_ELEMENTS = 1 << 24
"""Most elements of one array: 64 times the largest vocabulary in use."""

MIN_STRING_BYTES = 8
"""A string's length field, bytes: the least that one element of a string array takes."""

_WINDOW_BYTES = 1 << 20
"""Piece of the file that is asked for at a time, bytes, so that single fields cost no call each."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Contents(Protocol):
    """A file's bytes, given out piece by piece; signing's VerifiedWeights are such."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`; what it raises ends the reading."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """A file that is in memory as a whole. Shape of `data`: (size,), uint8."""

    data: memoryview

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.data)

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`."""
        return self.data[start:stop]


class Reader:
    """Reads little-endian fields one after another.

    Args:
        contents: The file.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._window = memoryview(b"")
        self._window_start = 0
        self.size = contents.size
        self.offset = 0

    def need(self, count: int, what: str) -> memoryview:
        """The next `count` bytes, for the field `what`.

        Raises:
            WeightsError: fewer bytes are left.
        """
        start, end = self.offset, self.offset + count
        if end > self.size:
            raise truncated(what, count, self.size - start)
        if end > self._window_start + len(self._window):
            self._window_start = start
            self._window = self._contents.view(start, min(max(end, start + _WINDOW_BYTES), self.size))
        self.offset = end
        return self._window[start - self._window_start : end - self._window_start]

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        return bytes(self.need(count, what))

    def u32(self, what: str) -> int:
        """An unsigned 32-bit integer."""
        value: int = _U32.unpack(self.need(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        """An unsigned 64-bit integer."""
        value: int = _U64.unpack(self.need(8, what))[0]
        return value

    def count(self, what: str, *, most: int, element_bytes: int) -> int:
        """A 64-bit count of elements that follow, each of at least `element_bytes`."""
        value = self.u64(what)
        room = (self.size - self.offset) // element_bytes
        if value > most:
            raise WeightsError(what, f"expected at most {most} elements, got {value}")
        if value > room:
            raise truncated(what, value * element_bytes, self.size - self.offset)
        return value

    def text(self, what: str, *, most: int = MAX_STRING_BYTES) -> str:
        """A string: 64-bit length, then UTF-8."""
        length = self.u64(what)
        if length > most:
            raise WeightsError(what, f"expected a string of at most {most} bytes, got {length}")
        raw = self.take(length, what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise WeightsError(what, f"expected UTF-8, got byte {raw[error.start]:#04x} at {error.start}") from None

    def numbers(self, kind: ValueType, count: int, what: str) -> NDArray[np.generic]:
        """`count` values of a fixed-size type, as a read-only copy."""
        dtype = np.dtype(SCALARS[kind])
        array = np.frombuffer(self.need(count * dtype.itemsize, what), dtype, count).copy()
        array.flags.writeable = False
        return array

    def strings(self, count: int, what: str) -> Strings:
        """`count` strings as the file spells them; not decoded, because vocabularies may hold any bytes.

        They are hashed as the file spells them, each behind its length, while a window's bytes are in the caches:
        looking at a hundred thousand strings once more takes milliseconds.
        """
        found: list[bytes] = []
        hashed = hashlib.sha256(b"GGUF strings\n")
        while len(found) < count:
            # slicing `bytes` is twice as fast as slicing a memoryview
            window = bytes(self._contents.view(self.offset, min(self.offset + _WINDOW_BYTES, self.size)))
            whole, end = _whole_strings(window, count - len(found))
            hashed.update(memoryview(window)[:end])
            self.offset += end
            found += whole
            if not whole:  # longer than a window, or cut: the careful way decides which
                one = self._string(f"{what}[{len(found)}]")
                hashed.update(_U64.pack(len(one)) + one)
                found.append(one)
        return Strings.hashed(found, hashed.digest())

    def _string(self, what: str) -> bytes:
        length = self.u64(what)
        if length > MAX_STRING_BYTES:
            raise WeightsError(what, f"expected a string of at most {MAX_STRING_BYTES} bytes, got {length}")
        return self.take(length, what)


def _whole_strings(window: bytes, most: int) -> tuple[list[bytes], int]:
    """The strings, at most `most`, that lie in a window as a whole, and where they end.

    This loop runs a million times for a large vocabulary, so it does only what it must; its speed is a test.
    """
    found: list[bytes] = []
    append, unpack, size, end = found.append, _U64.unpack_from, len(window), 0
    last = size - MIN_STRING_BYTES
    for _ in range(most):
        if end > last:
            break
        (length,) = unpack(window, end)
        start = end + MIN_STRING_BYTES
        stop = start + length
        if stop > size:
            break
        append(window[start:stop])
        end = stop
    return found, end


def truncated(what: str, wanted: int, left: int) -> WeightsError:
    """The refusal of a file that ends too early."""
    return WeightsError(
        what, f"expected {wanted} more bytes, got {left}: the file is truncated", "fetch the file again"
    )
