"""Reads GGUF v2 and v3: metadata, and where each tensor's bytes lie.

Rules
* Input is hostile until parsed: see clauses 1.1 and 1.2 of host/README.md.
* Parsing is all or nothing, makes no view of the data, and costs one pass over the header.
* What the values mean is decided elsewhere (families/, vocabulary).

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

Example:
    file = GgufFile.parse(bundle.weights)
    file.metadata["general.architecture"], file.tensors[0].name
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import WeightsError
from .gguf_reader import MAX_ARRAY_ELEMENTS, MIN_STRING_BYTES, InMemory, Reader, truncated
from .gguf_types import REMOVED_TENSOR_TYPES, SCALARS, TENSOR_TYPES, TensorType, ValueType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .gguf_reader import Contents

MAGIC = b"GGUF"
VERSIONS = (2, 3)

MAX_KEYS = 1 << 16
"""Most metadata keys: real files have tens."""

MAX_TENSORS = 1 << 16
"""Most tensors: the largest mixture-of-experts files have a few thousand."""

MAX_KEY_BYTES = (1 << 16) - 1
"""Longest key, bytes, by the format."""

MAX_NAME_BYTES = 256
"""Longest tensor name, bytes; ggml itself stops at 63."""

MAX_DIMENSIONS = 4
"""Most axes of a tensor, by ggml."""

MAX_ELEMENTS = (1 << 63) - 1
"""Most elements of a tensor, by ggml's signed counts."""

DEFAULT_ALIGNMENT = 32
ALIGNMENTS = tuple(1 << n for n in range(3, 17))
"""Alignments of tensor data, bytes: the format wants multiples of 8; beyond a large page it can only be an attack."""

_MIN_KEY_BYTES = MIN_STRING_BYTES + 4 + 1
"""Length field, type and one byte of value: the least that one key takes."""

_MIN_TENSOR_BYTES = MIN_STRING_BYTES + 4 + 8 + 4 + 8
"""Name, axes, one axis, type and offset: the least that one tensor's description takes."""

Value = int | float | bool | str | tuple[bytes, ...] | np.ndarray[tuple[int, ...], np.dtype[np.generic]]
"""A metadata value; arrays of strings stay bytes, arrays of numbers are read-only."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor's bytes lie.

    Attributes:
        name: Its name in the file.
        type_id: ggml's type id, a key of TENSOR_TYPES.
        shape: Row-major: the last axis is contiguous (GGUF lists it first).
        start: First byte in the file.
        stop: One past its last byte.
    """

    name: str
    type_id: int
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def type(self) -> TensorType:
        """Name and block size of its elements."""
        return TENSOR_TYPES[self.type_id]


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A parsed file.

    Attributes:
        version: GGUF version.
        metadata: Values by key.
        kinds: Type of each value; for arrays that of their elements.
        tensors: In the order of their bytes in the file.
        alignment: Alignment of tensor data, bytes.
    """

    version: int
    metadata: dict[str, Value]
    kinds: dict[str, ValueType]
    tensors: tuple[TensorInfo, ...]
    alignment: int

    @classmethod
    def parse(cls, data: Contents | memoryview | bytes) -> GgufFile:
        """Parses a whole file; only its header is touched.

        Args:
            data: The file; as memory, all its bytes, contiguous.

        Raises:
            WeightsError: the file is malformed, cut, big-endian, split or of an unknown version.
            SealError: verified weights were refused while they were read.
        """
        reader = Reader(InMemory(memoryview(data).cast("B")) if isinstance(data, memoryview | bytes) else data)
        version = _version(reader)
        tensor_count = reader.count("tensor count", most=MAX_TENSORS, element_bytes=_MIN_TENSOR_BYTES)
        key_count = reader.count("metadata count", most=MAX_KEYS, element_bytes=_MIN_KEY_BYTES)
        metadata, kinds = _metadata(reader, key_count)
        _refuse_split(metadata)
        alignment = _alignment(metadata, kinds)
        described = [_describe(reader, index) for index in range(tensor_count)]
        start = _aligned(reader.offset, alignment)
        return cls(version, metadata, kinds, _place(described, start, reader.size, alignment), alignment)


def _version(reader: Reader) -> int:
    magic = reader.take(len(MAGIC), "magic")
    if magic == MAGIC[::-1]:
        raise WeightsError("magic", "expected little-endian GGUF, got a big-endian file", "convert it to little-endian")
    if magic != MAGIC:
        raise WeightsError("magic", f"expected {MAGIC!r}, got {magic!r}", "give a GGUF file")
    version = reader.u32("version")
    swapped = struct.unpack(">I", struct.pack("<I", version))[0]
    if version not in VERSIONS and swapped in (1, *VERSIONS):
        raise WeightsError(
            "version",
            f"expected little-endian, got a big-endian file of version {swapped}",
            "convert it to little-endian",
        )
    if version not in VERSIONS:
        raise WeightsError("version", f"expected GGUF version 2 or 3, got {version}", "convert the model again")
    return version


def _metadata(reader: Reader, count: int) -> tuple[dict[str, Value], dict[str, ValueType]]:
    values: dict[str, Value] = {}
    kinds: dict[str, ValueType] = {}
    for index in range(count):
        key = reader.text(f"metadata key {index}", most=MAX_KEY_BYTES)
        if not key:
            raise WeightsError(f"metadata key {index}", "expected a name, got an empty one")
        if key in values:
            raise WeightsError(key, "expected each metadata key once, got it twice")
        values[key], kinds[key] = _value(reader, key)
    return values, kinds


def _value(reader: Reader, key: str) -> tuple[Value, ValueType]:
    kind = _kind(reader, key)
    if kind is ValueType.STRING:
        return reader.text(key), kind
    if kind is ValueType.ARRAY:
        return _array(reader, key)
    array = reader.numbers(kind, 1, key)
    if kind is ValueType.BOOL:
        return bool(_checked_bools(array, key)[0]), kind
    value: int | float = array[0].item()
    return value, kind


def _array(reader: Reader, key: str) -> tuple[Value, ValueType]:
    kind = _kind(reader, key)
    if kind is ValueType.ARRAY:
        raise WeightsError(key, "expected an array of plain values, got an array of arrays")
    if kind is ValueType.STRING:
        count = reader.count(key, most=MAX_ARRAY_ELEMENTS, element_bytes=MIN_STRING_BYTES)
        return reader.strings(count, key), kind
    count = reader.count(key, most=MAX_ARRAY_ELEMENTS, element_bytes=np.dtype(SCALARS[kind]).itemsize)
    array = reader.numbers(kind, count, key)
    return (_checked_bools(array, key) if kind is ValueType.BOOL else array), kind


def _kind(reader: Reader, key: str) -> ValueType:
    number = reader.u32(f"{key} (type)")
    try:
        return ValueType(number)
    except ValueError:
        raise WeightsError(key, f"expected a value type from 0 to {max(ValueType)}, got {number}") from None


def _checked_bools(array: NDArray[np.generic], key: str) -> NDArray[np.generic]:
    worst = int(array.max(initial=0))
    if worst > 1:
        raise WeightsError(key, f"expected a boolean of 0 or 1, got {worst}")
    return array


def _refuse_split(metadata: dict[str, Value]) -> None:
    parts = metadata.get("split.count", 1)
    if not isinstance(parts, int) or parts > 1:
        number = metadata.get("split.no", "?")
        raise WeightsError(
            "split.count",
            f"expected one whole file, got part {number} (counted from 0) of a file split into {parts}",
            "merge the parts with `llama-gguf-split --merge`",
        )


def _alignment(metadata: dict[str, Value], kinds: dict[str, ValueType]) -> int:
    key = "general.alignment"
    value = metadata.get(key, DEFAULT_ALIGNMENT)
    kind = kinds.get(key, ValueType.UINT32)
    if kind is not ValueType.UINT32 or not isinstance(value, int):
        raise WeightsError(key, f"expected a UINT32, got {kind.name}")
    if value not in ALIGNMENTS:
        raise WeightsError(key, f"expected a power of two from {ALIGNMENTS[0]} to {ALIGNMENTS[-1]}, got {value}")
    return value


@dataclass(frozen=True, slots=True)
class _Described:
    name: str
    type_id: int
    shape: tuple[int, ...]
    offset: int
    size: int


def _describe(reader: Reader, index: int) -> _Described:
    name = reader.text(f"name of tensor {index}", most=MAX_NAME_BYTES)
    if not name:
        raise WeightsError(f"tensor {index}", "expected a name, got an empty one")
    axes = reader.u32(f"{name} (number of dimensions)")
    if not 1 <= axes <= MAX_DIMENSIONS:
        raise WeightsError(name, f"expected 1 to {MAX_DIMENSIONS} dimensions, got {axes}")
    shape = tuple(reader.u64(f"{name} (dimension {axis})") for axis in range(axes))
    type_id = reader.u32(f"{name} (type)")
    offset = reader.u64(f"{name} (offset)")
    return _Described(name, type_id, shape[::-1], offset, _tensor_bytes(name, type_id, shape))


def _tensor_bytes(name: str, type_id: int, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor with `shape` in the file's order, contiguous axis first."""
    kind = TENSOR_TYPES.get(type_id)
    if kind is None:
        known = REMOVED_TENSOR_TYPES.get(type_id, "unknown")
        raise WeightsError(name, f"expected a tensor type of ggml, got {type_id} ({known})", "convert the model again")
    elements = 1
    for axis, length in enumerate(shape):
        if length == 0:
            raise WeightsError(name, f"expected at least 1 element along dimension {axis}, got 0")
        elements *= length  # a Python integer: it cannot wrap
    if elements > MAX_ELEMENTS:
        raise WeightsError(name, f"expected at most 2^63 - 1 elements, got {' x '.join(map(str, shape))}")
    if shape[0] % kind.block_elements:
        raise WeightsError(
            name, f"expected rows in blocks of {kind.block_elements} ({kind.name}), got {shape[0]} elements"
        )
    return elements // kind.block_elements * kind.block_bytes


def _place(described: list[_Described], start: int, size: int, alignment: int) -> tuple[TensorInfo, ...]:
    """Checks where the tensors lie: aligned, inside the file, apart from each other, and nothing after the last."""
    names: set[str] = set()
    end, before = start, "the header"
    placed: list[TensorInfo] = []
    for tensor in sorted(described, key=lambda one: one.offset):
        if tensor.name in names:
            raise WeightsError(tensor.name, "expected each tensor once, got it twice")
        names.add(tensor.name)
        if tensor.offset % alignment:
            raise WeightsError(tensor.name, f"expected an offset in multiples of {alignment}, got {tensor.offset}")
        first = start + tensor.offset
        last = first + tensor.size
        if first < end:
            raise WeightsError(tensor.name, f"expected it to start at {end} or later, got {first}, inside {before}")
        if _aligned(last, alignment) > size:
            raise truncated(tensor.name, _aligned(last, alignment) - min(first, size), size - min(first, size))
        placed.append(TensorInfo(tensor.name, tensor.type_id, tensor.shape, first, last))
        end, before = last, tensor.name
    if size - _aligned(end, alignment) >= alignment:
        raise WeightsError(
            before,
            f"expected the file to end at {_aligned(end, alignment)}, got {size} bytes: more follows the last tensor",
            "give one whole file; joined parts must be merged with `llama-gguf-split --merge`",
        )
    return tuple(placed)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
