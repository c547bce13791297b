"""The GGUF reader: what it reads, and everything that it refuses by name."""

from __future__ import annotations

import hashlib
import mmap
import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealhost.host.errors import WeightsError
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.gguf_types import TENSOR_TYPES, ValueType

U8, U32, I32, F32, BOOL, STRING, ARRAY, U64, F64 = 0, 4, 5, 6, 7, 8, 9, 10, 12


@pytest.fixture
def two_tensors(gguf_plan, tensor_plan):
    """A small valid file of two tensors, the second with padding behind it."""
    metadata = [
        ("general.architecture", STRING, "llama"),
        ("numbers", ARRAY, (I32, [1, -2, 3])),
        ("words", ARRAY, (STRING, ["a", "", "c" * 40])),
        ("yes", BOOL, 1),
        ("half", F64, 0.5),
    ]
    return gguf_plan(metadata, [tensor_plan("first", (8, 2)), tensor_plan("second", (3,))])


def refusal(raw: bytes) -> str:
    with pytest.raises(WeightsError) as caught:
        GgufFile.parse(raw)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("E_GGUF ")
    return str(caught.value)


def test_values_and_tensors_come_back_as_written(two_tensors):
    file = GgufFile.parse(two_tensors.build())
    assert file.metadata["general.architecture"] == "llama"
    assert file.metadata["numbers"].tolist() == [1, -2, 3]
    assert file.metadata["words"] == (b"a", b"", b"c" * 40)
    assert file.metadata["yes"] is True
    assert file.metadata["half"] == 0.5
    assert file.kinds["numbers"] is ValueType.INT32
    assert [(one.name, one.shape, one.stop - one.start) for one in file.tensors] == [
        ("first", (2, 8), 64),
        ("second", (3,), 12),
    ]


def test_arrays_do_not_keep_the_file_in_memory(two_tensors):
    raw = bytearray(two_tensors.build())
    file = GgufFile.parse(memoryview(raw))
    raw.clear()  # raises BufferError if anything still looks at it
    assert file.metadata["numbers"].tolist() == [1, -2, 3]
    assert not file.metadata["numbers"].flags.writeable


def test_a_file_without_tensors_is_a_file(gguf_plan):
    assert GgufFile.parse(gguf_plan([("general.architecture", STRING, "llama")]).build()).tensors == ()


@pytest.mark.parametrize("version", [2, 3])
def test_little_endian_versions_two_and_three_load(two_tensors, version):
    two_tensors.version = struct.pack("<I", version)
    assert GgufFile.parse(two_tensors.build()).version == version


def test_every_cut_of_a_file_is_refused_with_a_name(two_tensors):
    raw = two_tensors.build()
    assert len(raw) < 2048
    GgufFile.parse(raw)
    for length in range(len(raw)):
        message = refusal(raw[:length])
        assert "truncated" in message, length


@pytest.mark.parametrize(
    ("magic", "version", "words"),
    [
        (b"GGUF", bytes((0, 0, 0, 3)), "big-endian"),
        (b"GGUF", bytes((0, 0, 0, 2)), "big-endian"),
        (b"FUGG", bytes((0, 0, 0, 3)), "big-endian"),
        (b"GGUF", struct.pack("<I", 1), "got 1"),
        (b"GGUF", struct.pack("<I", 4), "got 4"),
        (b"GGUF", struct.pack("<I", 0), "got 0"),
        (b"GGML", struct.pack("<I", 3), "magic"),
        (b"PK\3\4", struct.pack("<I", 3), "magic"),
    ],
)
def test_other_magics_byte_orders_and_versions_are_refused_by_name(two_tensors, magic, version, words):
    two_tensors.magic, two_tensors.version = magic, version
    message = refusal(two_tensors.build())
    assert words in message
    assert ("big-endian" in message) == (words == "big-endian")


@pytest.mark.parametrize(
    ("kind", "content", "fits"),
    [
        (U32, 32, True),
        (U32, 64, True),
        (U32, 8, True),
        (U32, 0, False),
        (U32, 3, False),
        (U32, 4, False),
        (U32, 48, False),
        (U32, 1 << 30, False),
        (I32, -1, False),
        (I32, 32, False),
        (U64, 32, False),
        (STRING, "32", False),
        (ARRAY, (U32, [32]), False),
    ],
)
def test_alignment_is_a_sane_power_of_two_of_the_right_type(gguf_plan, tensor_plan, kind, content, fits):
    plan = gguf_plan([("general.alignment", kind, content)], [tensor_plan("a", (8,)), tensor_plan("b", (8,))])
    plan.alignment = content if fits else 32
    if fits:
        assert GgufFile.parse(plan.build()).alignment == content
    else:
        assert "general.alignment" in refusal(plan.build())


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ((1 << 32, 1 << 32), "2^63"),
        ((1 << 62, 4), "2^63"),
        (((1 << 42) + 1, 1 << 22), "2^63"),
        ((2, 0x7FFF_FFFF_FFFF_FFFF), "2^63"),
        ((0xFFFF_FFFF_FFFF_FFFF, 2), "2^63"),
        ((1 << 40, 1 << 20), "truncated"),
        ((0,), "at least 1"),
        ((8, 0), "at least 1"),
        ((), "1 to 4 dimensions"),
        ((1, 1, 1, 1, 1), "1 to 4 dimensions"),
    ],
)
def test_shapes_that_wrap_or_are_empty_are_refused(gguf_plan, tensor_plan, dims, words):
    plan = gguf_plan(tensors=[tensor_plan("big", dims, data=bytes(32))])
    message = refusal(plan.build())
    assert words in message
    assert "big" in message


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"offset": 64}, {"offset": 0}, None),  # any order in the header
        ({}, {"offset": 32}, "inside first"),
        ({}, {"offset": 0}, "inside first"),
        ({}, {"offset": 65}, "multiples of 32"),
        ({}, {"offset": 1 << 40}, "truncated"),
        ({}, {"offset": (1 << 64) - 32}, "truncated"),
    ],
)
def test_tensors_lie_apart_aligned_and_inside_the_file(gguf_plan, tensor_plan, first, second, words):
    plan = gguf_plan(tensors=[tensor_plan("first", (16,), **first), tensor_plan("second", (16,), **second)])
    if words is None:
        assert [one.name for one in GgufFile.parse(plan.build()).tensors] == ["second", "first"]
        return
    message = refusal(plan.build())
    assert words in message
    assert "second" in message


def test_a_name_or_a_key_that_comes_twice_is_refused(gguf_plan, tensor_plan):
    twice = gguf_plan([("a", U32, 1), ("a", U32, 1)])
    assert "E_GGUF a: expected each metadata key once" in refusal(twice.build())
    twice = gguf_plan([("general.alignment", U32, 32), ("general.alignment", U32, 64)])
    assert "general.alignment" in refusal(twice.build())
    tensors = gguf_plan(tensors=[tensor_plan("t", (8,)), tensor_plan("t", (8,))])
    assert "expected each tensor once" in refusal(tensors.build())


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (struct.pack("<I", 13) + bytes(8), "value type"),
        (struct.pack("<I", 0xFFFF_FFFF) + bytes(8), "value type"),
        (struct.pack("<IIQ", 9, 9, 0), "array of arrays"),
        (struct.pack("<IIQ", 9, 77, 0), "value type"),
        (struct.pack("<IIQ", 9, 4, 1 << 62), "at most"),
        (struct.pack("<IIQ", 9, 4, (1 << 64) - 1), "at most"),
        (struct.pack("<IIQ", 9, 8, 1 << 24), "truncated"),
        (struct.pack("<IIQ", 9, 10, 1 << 20), "truncated"),
        (struct.pack("<IQ", 8, 1 << 40), "at most"),
        (struct.pack("<IQ", 8, 1 << 20), "truncated"),
        (struct.pack("<IQ", 8, (1 << 64) - 1), "at most"),
        (struct.pack("<IIQQ", 9, 8, 1, 1 << 63) + bytes(8), "at most"),
        (struct.pack("<IB", 7, 2), "0 or 1"),
        (struct.pack("<IIQBB", 9, 7, 2, 1, 3), "0 or 1"),
        (struct.pack("<IQ", 8, 2) + b"\xff\xfe", "UTF-8"),
    ],
)
def test_a_malformed_value_is_refused_with_its_key(gguf_plan, entry, words):
    raw = gguf_plan(key_count=1).build() + struct.pack("<Q", 3) + b"key" + entry
    message = refusal(raw)
    assert words in message
    assert "key" in message


@pytest.mark.parametrize("field", ["tensor_count", "key_count"])
@pytest.mark.parametrize("count", [1 << 16, (1 << 16) + 1, 1 << 32, 1 << 63, (1 << 64) - 1])
def test_counts_that_the_file_cannot_hold_are_refused_before_anything_is_made(gguf_plan, field, count):
    raw = gguf_plan(**{field: count}).build()
    tracemalloc.start()
    try:
        refusal(raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 16  # a byte for each of the fewest


def test_a_key_longer_than_the_format_allows_is_refused(gguf_plan):
    raw = gguf_plan(key_count=1).build() + struct.pack("<Q", 1 << 16) + bytes(1 << 17)
    assert "at most 65535 bytes" in refusal(raw)


@pytest.mark.parametrize(
    ("type_id", "words"), [(4, "Q4_2"), (31, "Q4_0_4_4"), (99, "unknown"), (0xFFFF_FFFF, "unknown")]
)
def test_tensor_types_that_do_not_exist_are_refused(gguf_plan, tensor_plan, type_id, words):
    message = refusal(gguf_plan(tensors=[tensor_plan("t", (32,), type_id)]).build())
    assert words in message
    assert "E_GGUF t:" in message


def test_a_row_that_does_not_fill_its_blocks_is_refused(gguf_plan, tensor_plan):
    message = refusal(gguf_plan(tensors=[tensor_plan("t", (48, 2), 2)]).build())
    assert "blocks of 32 (Q4_0)" in message


@pytest.mark.parametrize(
    ("metadata", "loads"),
    [
        ([("split.count", 2, 3), ("split.no", 2, 0)], False),
        ([("split.count", 2, 3), ("split.no", 2, 1)], False),
        ([("split.count", STRING, "2")], False),
        ([("split.count", 2, 1), ("split.no", 2, 0)], True),
        ([("split.count", 2, 0)], True),
    ],
)
def test_parts_of_a_split_file_are_refused_by_name(gguf_plan, metadata, loads):
    raw = gguf_plan(metadata).build()
    if loads:
        GgufFile.parse(raw)
    else:
        assert "split" in refusal(raw)


def test_joined_parts_are_refused(two_tensors):
    message = refusal(two_tensors.build() + two_tensors.build())
    assert "more follows the last tensor" in message


def test_types_and_block_sizes_are_those_of_the_gguf_package():
    constants = pytest.importorskip("gguf.constants")
    sizes = {one.value: (one.name, *constants.GGML_QUANT_SIZES[one]) for one in constants.GGMLQuantizationType}
    shared = sizes.keys() & TENSOR_TYPES.keys()
    assert len(shared) >= 30
    assert {key: tuple(TENSOR_TYPES[key]) for key in shared} == {key: sizes[key] for key in shared}
    assert {one.name: one.value for one in ValueType} == {one.name: one.value for one in constants.GGUFValueType}


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_changed_byte_gives_a_file_or_a_refusal_and_nothing_else(position, byte, module_raw):
    raw = bytearray(module_raw)
    raw[position % len(raw)] = byte
    try:
        file = GgufFile.parse(bytes(raw))
    except WeightsError:
        return
    assert all(0 < one.start < one.stop <= len(raw) for one in file.tensors)


@pytest.fixture(scope="module")
def module_raw(tiny_llama):
    return tiny_llama().build()


def test_string_arrays_longer_than_a_window_come_back_whole(gguf_plan):
    rng = np.random.default_rng(3)
    words = [bytes(rng.integers(0, 256, int(n), np.uint8)) for n in rng.integers(0, 40, 60_000)]
    words[100] = b"x" * (3 << 20)  # one that is longer than a window itself
    file = GgufFile.parse(gguf_plan([("words", ARRAY, (STRING, words))]).build())
    assert list(file.metadata["words"]) == words
    spelled = b"".join(len(word).to_bytes(8, "little") + word for word in words)
    assert file.metadata["words"].sha256 == hashlib.sha256(b"GGUF strings\n" + spelled).digest()


@pytest.mark.model
def test_the_demo_model_opens_in_a_fraction_of_a_second(smollm2_gguf):
    seconds = []
    with smollm2_gguf.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for _ in range(5):
            began = time.thread_time()  # of the processor: a busy machine takes none of it
            file = GgufFile.parse(memoryview(data))
            seconds.append(time.thread_time() - began)
    assert len(file.tensors) == 272
    assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
    assert file.tensors[-1].stop <= smollm2_gguf.stat().st_size
    assert min(seconds) < 0.15
