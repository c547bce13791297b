"""Writes GGUF files field by field, so that any field can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACKED = {
    U8: "<B",
    I8: "<b",
    U16: "<H",
    I16: "<h",
    U32: "<I",
    I32: "<i",
    F32: "<f",
    BOOL: "<B",
    U64: "<Q",
    I64: "<q",
    F64: "<d",
}


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, content: object) -> bytes:
    """A type and its value; arrays are given as (element type, list)."""
    return struct.pack("<I", kind) + payload(kind, content)


def payload(kind: int, content: object) -> bytes:
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        element, items = content
        return struct.pack("<IQ", element, len(items)) + b"".join(payload(element, one) for one in items)
    return struct.pack(PACKED[kind], content)


@dataclass
class TensorPlan:
    """A tensor as the file describes it; `offset` and `data` default to what is right."""

    name: str
    dims: tuple[int, ...]  # in the file's order: contiguous axis first
    type_id: int = 0
    data: bytes | None = None
    offset: int | None = None

    def content(self) -> bytes:
        return bytes(4 * int(np.prod(self.dims))) if self.data is None else self.data


@dataclass
class GgufPlan:
    """A whole file."""

    metadata: list[tuple[str, int, object]] = field(default_factory=list)
    tensors: list[TensorPlan] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: bytes = struct.pack("<I", 3)
    alignment: int = 32
    tensor_count: int | None = None
    key_count: int | None = None
    trailer: bytes = b""

    def build(self) -> bytes:
        head = self.magic + self.version
        head += struct.pack("<Q", len(self.tensors) if self.tensor_count is None else self.tensor_count)
        head += struct.pack("<Q", len(self.metadata) if self.key_count is None else self.key_count)
        head += b"".join(string(key) + value(kind, content) for key, kind, content in self.metadata)
        body = b""
        for tensor in self.tensors:
            offset = len(body) if tensor.offset is None else tensor.offset
            head += string(tensor.name) + struct.pack("<I", len(tensor.dims))
            head += struct.pack(f"<{len(tensor.dims)}Q", *tensor.dims) + struct.pack("<IQ", tensor.type_id, offset)
            body += self._padded(tensor.content())
        return (self._padded(head) if self.tensors else head) + body + self.trailer

    def _padded(self, raw: bytes) -> bytes:
        return raw + bytes(-len(raw) % self.alignment)


class MemoryWeights:
    """The twin of signing's VerifiedWeights: a whole file in memory, and a note of what was done with it."""

    def __init__(self, raw: bytes) -> None:
        self.size = len(raw)
        self._raw = raw
        self.viewed: list[tuple[int, int]] = []
        self.released: list[tuple[int, int]] = []
        self.finished = self.closed = 0

    def hash_with(self, sha256) -> None:
        self.sha256 = sha256

    def view(self, start: int, stop: int) -> memoryview:
        assert 0 <= start <= stop <= self.size
        assert not self.closed
        self.viewed.append((start, stop))
        return memoryview(self._raw)[start:stop]

    def release(self, start: int, stop: int) -> None:
        self.released.append((start, stop))

    def finish(self) -> None:
        self.finished += 1

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(scope="session")
def memory_weights() -> type[MemoryWeights]:
    return MemoryWeights


@pytest.fixture(scope="session")
def gguf_plan() -> type[GgufPlan]:
    return GgufPlan


@pytest.fixture(scope="session")
def tensor_plan() -> type[TensorPlan]:
    return TensorPlan


TINY_TEXTS = [
    b"<|endoftext|>",
    b"<|im_end|>",
    "\u0120a".encode(),
    b"b",
    "\u0120ab".encode(),
    "\u00e9".encode(),
    b"c",
    b"d",
]
TINY_TYPES = [3, 3, 1, 1, 1, 4, 1, 1]


def _set(
    entries: list[tuple[str, int, object]], changes: dict[str, tuple[int, object] | None]
) -> list[tuple[str, int, object]]:
    kept = [entry for entry in entries if entry[0] not in changes]
    return kept + [(key, *new) for key, new in changes.items() if new is not None]


@pytest.fixture(scope="session")
def tiny_llama() -> Callable[..., GgufPlan]:
    """A one-layer llama in F32 with an eight-token vocabulary; keyword `changes` replaces or drops (None) keys."""

    def build(changes: dict[str, tuple[int, object] | None] | None = None, *, tied: bool = True) -> GgufPlan:
        metadata = [
            ("general.architecture", STRING, "llama"),
            ("llama.block_count", U32, 1),
            ("llama.context_length", U32, 64),
            ("llama.embedding_length", U32, 32),
            ("llama.feed_forward_length", U32, 64),
            ("llama.attention.head_count", U32, 2),
            ("llama.attention.head_count_kv", U32, 1),
            ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            ("llama.rope.dimension_count", U32, 16),
            ("llama.rope.freq_base", F32, 10000.0),
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, "smollm"),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, TINY_TEXTS)),
            ("tokenizer.ggml.token_type", ARRAY, (I32, TINY_TYPES)),
            ("tokenizer.ggml.merges", ARRAY, (STRING, ["\u0120a b"])),
            ("tokenizer.ggml.bos_token_id", U32, 0),
            ("tokenizer.ggml.eos_token_id", U32, 1),
        ]
        shapes = {
            "token_embd.weight": (32, 8),
            "blk.0.attn_norm.weight": (32,),
            "blk.0.attn_q.weight": (32, 32),
            "blk.0.attn_k.weight": (32, 16),
            "blk.0.attn_v.weight": (32, 16),
            "blk.0.attn_output.weight": (32, 32),
            "blk.0.ffn_norm.weight": (32,),
            "blk.0.ffn_gate.weight": (32, 64),
            "blk.0.ffn_up.weight": (32, 64),
            "blk.0.ffn_down.weight": (64, 32),
            "output_norm.weight": (32,),
        } | ({} if tied else {"output.weight": (32, 8)})
        numbers = np.random.default_rng(7)
        tensors = [
            TensorPlan(name, dims, 0, numbers.standard_normal(int(np.prod(dims)), np.float32).tobytes())
            for name, dims in shapes.items()
        ]
        return GgufPlan(_set(metadata, changes or {}), tensors)

    return build


def charsmap_blob(rules: dict[str, str]) -> bytes:
    """A double array, built in the plainest way: each node's children go where they all are free."""
    texts, offsets = b"", {}
    for text in dict.fromkeys(rules.values()):
        offsets[text] = len(texts)
        texts += text.encode() + b"\0"
    keys = {key.encode(): offsets[text] for key, text in rules.items()}
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()

    def place(prefix: bytes, at: int) -> None:
        below = sorted({key[len(prefix)] for key in keys if key.startswith(prefix) and len(key) > len(prefix)})
        wanted = [*below, *([0] if prefix in keys else [])]
        free = (base for base in range(1, 1 << 20) if base not in bases)
        base = next(base for base in free if all(base ^ one not in units for one in wanted))
        bases.add(base)
        units[at] |= (at ^ base if prefix else base) << 10 | (prefix in keys) << 8
        for one in wanted:
            units[base ^ one] = one
        if prefix in keys:
            units[base] = 1 << 31 | keys[prefix]
        for one in below:
            place(prefix + bytes([one]), base ^ one)

    place(b"", 0)
    packed = struct.pack(f"<{max(units) + 1}I", *(units.get(one, 0) for one in range(max(units) + 1)))
    return struct.pack("<I", len(packed)) + packed + texts


@pytest.fixture(scope="session")
def blob_of():
    """Makes the blob of a normaliser from what becomes what."""
    return charsmap_blob
