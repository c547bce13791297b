"""Malformed vocabulary streams: an error with a text, never a trap, never a loaded tokenizer."""

from __future__ import annotations

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plugin_harness import GuestRefusedError, VocabularyColumns, spell

INPUT, UNSUPPORTED, CAPACITY = -0x40000003, -0x40000002, -0x40000004
BYTES = [spell(bytes([byte])) for byte in range(256)]
VALID = VocabularyColumns([*BYTES, "ab", "<s>"], ["a b"], types=[1] * 257 + [3])


def sentencepiece_like(model: str) -> VocabularyColumns:
    pieces = ["\u2581", "a", "b", "ab", "\u2581ab"]
    types = [2, 3, *[6] * 256, *[1] * len(pieces)]
    texts = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = [0.0] * 258 + [-float(one) for one in range(len(pieces))]
    return VocabularyColumns(texts, [], "default", model, types, (5, 1, 1, 0), scores)


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
    # what: (stream, what the error says)
    "empty": (b"", "missing"),
    "half a header": (b"\1\0\0\0", "section header"),
    "section longer than the stream": (struct.pack("<II", 1, 100) + b"gpt2", "longer than the stream"),
    "section length near 2^32": (struct.pack("<II", 1, 0xFFFFFFFF) + b"gpt2", "longer than the stream"),
    "last byte missing": (VALID.stream()[:-1], "longer than the stream"),
    "tag 0": (join([(0, b""), *PARTS]), "ascending"),
    "tags out of order": (join([PARTS[1], PARTS[0], *PARTS[2:]]), "ascending"),
    "a tag twice": (join([PARTS[0], *PARTS]), "ascending"),
    **{f"section {tag} missing": (join([part for part in PARTS if part[0] != tag]), "missing") for tag in range(1, 6)},
    "flags empty": (with_part(3, b""), "flags section is too short"),
    "flags too short": (with_part(3, bytes(15)), "flags section is too short"),
    "BOS outside": (with_part(3, struct.pack("<Iiii", 1, 258, -1, -1)), "BOS, EOS or unknown"),
    "EOS below -1": (with_part(3, struct.pack("<Iiii", 1, -1, -2, -1)), "BOS, EOS or unknown"),
    "unknown outside": (with_part(3, struct.pack("<Iiii", 1, -1, -1, 258)), "BOS, EOS or unknown"),
    "tokens empty": (with_part(4, b""), "token count"),
    "no tokens": (tokens(0, b"", b"", [0], b""), "token count"),
    "count near 2^32": (tokens(0xFFFFFFFF, b"\1", bytes(4), [0, 1], b"a"), "token count"),
    "count above the columns": (tokens(3, b"\1", bytes(4), [0, 1], b"a"), "token columns"),
    "columns without offsets": (tokens(1, b"\1", bytes(4), [], b""), "offsets reach beyond"),
    "first offset not 0": (tokens(1, b"\1", bytes(4), [1, 1], b"a"), "out of order"),
    "offsets descend": (tokens(2, b"\1\1", bytes(8), [0, 2, 1], b"ab"), "out of order"),
    "offset beyond the bytes": (tokens(1, b"\1", bytes(4), [0, 2], b"a"), "last offset"),
    "offset near 2^32": (tokens(1, b"\1", bytes(4), [0, 0xFFFFFFFF], b"a"), "last offset"),
    "bytes left over": (tokens(1, b"\1", bytes(4), [0, 1], b"ab"), "last offset"),
    "unknown type": (tokens(1, b"\7", bytes(4), [0, 1], b"a"), "unknown type"),
    "merges empty": (with_part(5, b""), "merge count"),
    "merge count near 2^32": (merges(0xFFFFFFFF, [0, 0], b""), "merge count"),
    "merge offsets missing": (merges(2, [0], b""), "offsets reach beyond"),
    "merge without a space": (merges(1, [0, 2], b"ab"), "'left right'"),
    "merge without a right side": (merges(1, [0, 2], b"a "), "'left right'"),
    "merge without a left side": (merges(1, [0, 2], b" a"), "'left right'"),
    "merge of nothing": (merges(1, [0, 0], b""), "'left right'"),
}


@pytest.mark.parametrize(("stream", "problem"), CASES.values(), ids=CASES.keys())
def test_a_malformed_stream_is_refused_with_a_text(load_tokenizer, stream, problem):
    with pytest.raises(GuestRefusedError) as refusal:
        load_tokenizer(stream)
    status, text = refusal.value.args
    assert status == INPUT
    assert text.startswith("vocabulary stream: ")
    assert problem in text


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


SHORT = {"bpe": VALID, "spm": sentencepiece_like("llama"), "unigram": sentencepiece_like("t5")}


@st.composite
def spoiled(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid stream with some bytes changed, cut out or put in."""
    stream = bytearray(valid)
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


@pytest.mark.parametrize("guest", SHORT)
@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_spoiled_streams_are_refused_or_loaded_but_never_trap(load_tokenizer, load_spm, load_unigram, guest, data):
    load = {"bpe": load_tokenizer, "spm": load_spm, "unigram": load_unigram}[guest]
    stream = data.draw(spoiled(SHORT[guest].stream()))
    try:
        loaded = load(stream)
    except GuestRefusedError as refusal:
        status, text = refusal.args
        assert status in {INPUT, UNSUPPORTED, CAPACITY}
        assert text
    else:
        loaded.encode("ab<s> ab 12 \u5b57", 3)


@pytest.mark.parametrize("guest", SHORT)
def test_each_guest_takes_the_stream_that_is_spoiled(load_tokenizer, load_spm, load_unigram, guest):
    load = {"bpe": load_tokenizer, "spm": load_spm, "unigram": load_unigram}[guest]
    assert len(load(SHORT[guest]).encode("ab<s>", 2)) >= 2


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(stream=st.binary(max_size=200))
def test_noise_is_refused(load_tokenizer, stream):
    with pytest.raises(GuestRefusedError):
        load_tokenizer(stream)
