"""Malformed vocabulary streams: an error with a text, never a trap, never a loaded tokenizer."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_harness import GuestRefusedError, VocabularyColumns, spell

INPUT, UNSUPPORTED, CAPACITY = -0x40000003, -0x40000002, -0x40000004
BYTES = [spell(bytes([byte])) for byte in range(256)]
VALID = VocabularyColumns([*BYTES, "ab", "<s>"], ["a b"], types=[1] * 257 + [3], flags=(1, 257, -1, -1))


def sections(stream: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(stream):
        tag, size = struct.unpack_from("<II", stream, at)
        found.append((tag, stream[at + 8 : at + 8 + size]))
        at += 8 + size
    return found


def join(parts: list[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack("<II", tag, len(part)) + part for tag, part in parts)


PARTS = sections(VALID.stream())


def with_part(tag: int, part: bytes) -> bytes:
    return join([(t, part if t == tag else p) for t, p in PARTS])


def tokens(count: int, types: bytes, scores: bytes, offsets: list[int], text: bytes) -> bytes:
    return with_part(4, struct.pack("<I", count) + types + scores + struct.pack(f"<{len(offsets)}I", *offsets) + text)


def merges(count: int, offsets: list[int], text: bytes) -> bytes:
    return with_part(5, struct.pack("<I", count) + struct.pack(f"<{len(offsets)}I", *offsets) + text)


CASES = {
    "empty": b"",
    "half a header": b"\1\0\0\0",
    "section longer than the stream": struct.pack("<II", 1, 100) + b"gpt2",
    "section length near 2^32": struct.pack("<II", 1, 0xFFFFFFFF) + b"gpt2",
    "tag 0": join([(0, b""), *PARTS]),
    "tags out of order": join([PARTS[1], PARTS[0], *PARTS[2:]]),
    "a tag twice": join([PARTS[0], *PARTS]),
    **{f"section {tag} missing": join([part for part in PARTS if part[0] != tag]) for tag in range(1, 6)},
    **{f"section {tag} empty": with_part(tag, b"") for tag in range(3, 6)},
    "flags too short": with_part(3, bytes(12)),
    "BOS outside": with_part(3, struct.pack("<Iiii", 1, 258, -1, -1)),
    "EOS below -1": with_part(3, struct.pack("<Iiii", 1, -1, -2, -1)),
    "no tokens": tokens(0, b"", b"", [0], b""),
    "count near 2^32": tokens(0xFFFFFFFF, b"\1", bytes(4), [0, 1], b"a"),
    "count above the columns": tokens(3, b"\1", bytes(4), [0, 1], b"a"),
    "columns without offsets": tokens(1, b"\1", bytes(4), [], b""),
    "first offset not 0": tokens(1, b"\1", bytes(4), [1, 1], b"a"),
    "offsets descend": tokens(2, b"\1\1", bytes(8), [0, 2, 1], b"ab"),
    "offset beyond the bytes": tokens(1, b"\1", bytes(4), [0, 2], b"a"),
    "offset near 2^32": tokens(1, b"\1", bytes(4), [0, 0xFFFFFFFF], b"a"),
    "bytes left over": tokens(1, b"\1", bytes(4), [0, 1], b"ab"),
    "unknown type": tokens(1, b"\7", bytes(4), [0, 1], b"a"),
    "merge count near 2^32": merges(0xFFFFFFFF, [0, 0], b""),
    "merge offsets missing": merges(2, [0], b""),
    "merge without a space": merges(1, [0, 2], b"ab"),
    "merge without a right side": merges(1, [0, 2], b"a "),
    "merge without a left side": merges(1, [0, 2], b" a"),
    "merge of nothing": merges(1, [0, 0], b""),
}


@pytest.mark.parametrize("stream", CASES.values(), ids=CASES.keys())
def test_a_malformed_stream_is_refused_with_a_text(load_tokenizer, stream):
    with pytest.raises(GuestRefusedError) as refusal:
        load_tokenizer(stream)
    status, text = refusal.value.args
    assert status == INPUT
    assert "vocabulary stream" in text


def test_the_stream_that_the_cases_spoil_is_valid(load_tokenizer):
    assert load_tokenizer(VALID).encode("ab") == [256]


def test_sections_of_later_versions_are_skipped(load_tokenizer):
    assert load_tokenizer(join([*PARTS, (6, b"later"), (1000, b"")])).encode("ab") == [256]


def test_merges_that_name_unknown_tokens_never_fire(load_tokenizer):
    vocabulary = VocabularyColumns([*BYTES, "ab"], ["a c", "x yz", "字 a", "a b"])
    assert load_tokenizer(vocabulary).encode("acab") == [*b"ac", 256]


def test_the_better_of_two_equal_merges_counts_and_the_first_of_equal_tokens(load_tokenizer):
    vocabulary = VocabularyColumns([*BYTES, "ab", "bc", "ab"], ["a b", "b c", "a b"])
    assert load_tokenizer(vocabulary).encode("abc") == [256, ord("c")]


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """The valid stream with some bytes changed, cut out or put in."""
    stream = bytearray(VALID.stream())
    heads = st.sampled_from([0, 4, 12, 16, 20, 35, 36, 40, 52, 56, 60, 64, *range(312, 330), *range(1350, 1380)])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.one_of(heads, st.integers(0, len(stream) - 1))) % len(stream)
        what = draw(st.sampled_from(["set", "word", "cut", "put"]))
        if what == "set":
            stream[at] = draw(st.integers(0, 255))
        elif what == "word":
            word = draw(st.sampled_from([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF, 0x40000001]))
            stream[at : at + 4] = struct.pack("<I", word)
        elif what == "cut":
            del stream[at : at + draw(st.integers(1, 64))]
        else:
            stream[at:at] = draw(st.binary(min_size=1, max_size=16))
        if not stream:
            break
    return bytes(stream)


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(stream=spoiled())
def test_spoiled_streams_are_refused_or_loaded_but_never_trap(load_tokenizer, stream):
    try:
        guest = load_tokenizer(stream)
    except GuestRefusedError as refusal:
        status, text = refusal.args
        assert status in {INPUT, UNSUPPORTED, CAPACITY}
        assert text
    else:
        guest.encode("ab<s> 12 字", 3)


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(stream=st.binary(max_size=200))
def test_noise_is_refused(load_tokenizer, stream):
    with pytest.raises(GuestRefusedError):
        load_tokenizer(stream)
