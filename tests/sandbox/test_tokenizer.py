"""The tokenizer's proxy: what it sends, what it accepts, what it refuses."""

from __future__ import annotations

import dataclasses
import struct
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from sealhost.sandbox import AdmissionError, GuestError, SandboxError, Vocabulary
from sealhost.sandbox.abi import VocabTag
from sealhost.sandbox.integrity import check, unspellable
from sealhost.signing.errors import Code

BOS, EOS = 256, 257


@pytest.fixture(scope="module")
def loaded_tokenizer(sandbox, build_guest, byte_vocabulary):
    return sandbox.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)


def encode(tokenizer, text, *, add_special=False, parse_special=False):
    return tokenizer.encode(text, add_special=add_special, parse_special=parse_special)


@pytest.mark.parametrize("text", ["", "a", "Hello, world", "héllo ✓ 𝄞", "\0\x01\x7f", "a" * 2047])
def test_ids_spell_the_text(text, loaded_tokenizer):
    assert encode(loaded_tokenizer, text) == list(text.encode())
    assert encode(loaded_tokenizer, text[:100], add_special=True) == [BOS, *text[:100].encode()]


def test_facts_are_those_of_the_plugin(loaded_tokenizer, build_guest):
    assert loaded_tokenizer.name == "guest"
    assert loaded_tokenizer.sha256 == build_guest("tokenizer").sha256
    assert loaded_tokenizer.limits.encode_ms == 50
    assert loaded_tokenizer.max_text_bytes == 4096


@pytest.mark.parametrize(("text", "shown"), [("a\ud800", "U+D800 at index 1"), ("\udfff\udfff", "U+DFFF at index 0")])
def test_lone_surrogates_are_refused_with_their_place(text, shown, loaded_tokenizer):
    with pytest.raises(SandboxError) as caught:
        encode(loaded_tokenizer, text)
    assert shown in str(caught.value)
    assert caught.value.code is Code.USAGE


def test_text_over_the_input_area_is_refused_with_the_limit(loaded_tokenizer):
    with pytest.raises(SandboxError, match="at most 4096 bytes of text, got 4097"):
        encode(loaded_tokenizer, "a" * 4097)


def test_text_whose_ids_do_not_fit_is_refused_with_the_limit(loaded_tokenizer):
    with pytest.raises(GuestError, match="needs 2048 ids, and its output area holds 2048") as caught:
        encode(loaded_tokenizer, "a" * 2048)
    assert caught.value.kind == "error"


def test_eight_threads_encode_at_once(loaded_tokenizer):
    texts = [f"text {i} " * (i % 50) for i in range(400)]
    with ThreadPoolExecutor(8) as pool:
        for text, ids in zip(texts, pool.map(lambda t: encode(loaded_tokenizer, t), texts), strict=True):
            assert ids == list(text.encode())


def test_every_request_starts_from_the_state_after_the_whole_stream(sandbox, build_guest, byte_vocabulary):
    """This guest sums up the stream in globals of all four types; each encode traps unless they hold the right values."""
    vocabulary = dataclasses.replace(byte_vocabulary, merges=tuple(b"left%d right" % i for i in range(600)))
    stream = vocabulary.stream()
    total = 1
    for byte in stream:
        total = (total * 31 + byte) % 2**64
    pieces = -(-len(stream) // 4096)
    assert pieces == 4
    text = f"""
    (global $sum (mut i64) (i64.const 1)) (global $finals (mut f32) (f32.const 0.5))
    (global $calls (mut f64) (f64.const 0)) (global $length (mut i32) (i32.const -1)) (global $constant i32 (i32.const 7))
    (func (export "load") (param $length i32) (param $final i32) (result i32) (local $i i32)
      (loop $next
        (global.set $sum (i64.add (i64.mul (global.get $sum) (i64.const 31)) (i64.load8_u offset=8192 (local.get $i))))
        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $length))))
      (global.set $length (i32.sub (global.get $length) (local.get $length)))
      (global.set $calls (f64.add (global.get $calls) (f64.const 1)))
      (if (local.get $final) (then (global.set $finals (f32.add (global.get $finals) (f32.const 1)))))
      (i32.const 0))
    (func (export "encode") (param i32 i32) (result i32)
      (if (i64.ne (global.get $sum) (i64.const {total})) (then (unreachable)))
      (if (i32.ne (global.get $length) (i32.const {-1 - len(stream)})) (then (unreachable)))
      (if (f64.ne (global.get $calls) (f64.const {pieces})) (then (unreachable)))
      (if (f32.ne (global.get $finals) (f32.const 1.5)) (then (unreachable)))
      (if (i32.ne (global.get $constant) (i32.const 7)) (then (unreachable)))
      (i32.const 0))
    """
    tokenizer = sandbox.load_tokenizer(build_guest("tokenizer", text), vocabulary)
    assert [encode(tokenizer, "") for _ in range(3)] == [[], [], []]


def test_vocabulary_stream_follows_the_header(byte_vocabulary):
    vocabulary = dataclasses.replace(byte_vocabulary, add_eos=True, add_space_prefix=True)
    stream, at, sections = vocabulary.stream(), 0, {}
    while at < len(stream):
        tag, length = struct.unpack_from("<II", stream, at)
        sections[VocabTag(tag)] = stream[at + 8 : at + 8 + length]
        at += 8 + length
    assert list(sections) == sorted(VocabTag)
    assert sections[VocabTag.MODEL] == b"gpt2"
    assert sections[VocabTag.PRE] == b"bytes"
    assert struct.unpack("<Iiii", sections[VocabTag.FLAGS]) == (7, 256, 257, 258)
    tokens = sections[VocabTag.TOKENS]
    assert struct.unpack_from("<I", tokens) == (260,)
    assert tokens[4:264] == vocabulary.types.tobytes()
    offsets = np.frombuffer(tokens, "<u4", 261, 4 + 260 + 1040)
    texts = tokens[4 + 260 + 1040 + 4 * 261 :]
    assert [texts[a:b] for a, b in pairwise(offsets)] == list(vocabulary.texts)
    assert sections[VocabTag.MERGES] == struct.pack("<III", 1, 0, 3) + b"a b"


@pytest.mark.parametrize(
    "changes",
    [
        {"bos": 260},
        {"eos": -2},
        {"unknown": 1000},
        {"types": np.zeros(3, np.uint8)},
        {"scores": np.zeros(3, np.float32)},
        {"token_bytes": ()},
    ],
)
def test_vocabulary_that_does_not_add_up_is_refused(changes, byte_vocabulary):
    with pytest.raises(SandboxError, match="vocabulary"):
        dataclasses.replace(byte_vocabulary, **changes)


def test_column_that_32_bits_cannot_index_is_refused(byte_vocabulary):
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 31

    texts = (*byte_vocabulary.texts[:-2], Huge(b"a"), Huge(b"b"))
    with pytest.raises(SandboxError, match="4 GiB"):
        dataclasses.replace(byte_vocabulary, texts=texts).stream()


def test_host_table_that_differs_from_the_guests_is_a_refusal(sandbox, build_guest, byte_vocabulary):
    table = (*byte_vocabulary.token_bytes[:65], b"B", *byte_vocabulary.token_bytes[66:])
    with pytest.raises(AdmissionError, match="expected id 65 to spell b'B', got b'A'") as caught:
        sandbox.load_tokenizer(build_guest("tokenizer"), dataclasses.replace(byte_vocabulary, token_bytes=table))
    assert caught.value.clause == "1.16"


def test_guest_that_counts_more_bytes_than_the_host_is_asked_for_less(sandbox, build_guest, byte_vocabulary):
    """Types that are not compared may be longer in the guest: it answers -needed until the batch is small."""
    text = """
    (func (export "token_bytes") (param $first i32) (param $count i32) (result i32) (local $i i32)
      (if (i32.gt_u (local.get $count) (i32.const 50)) (then (return (i32.const -9000))))
      (loop $next
        (i32.store offset=12288 (i32.shl (local.get $i) (i32.const 2)) (i32.const 1))
        (i32.store8 offset=12288 (i32.add (i32.shl (local.get $count) (i32.const 2)) (local.get $i)) (i32.add (local.get $first) (local.get $i)))
        (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $count))))
      (i32.mul (local.get $count) (i32.const 5)))
    """
    tokenizer = sandbox.load_tokenizer(build_guest("tokenizer", text), byte_vocabulary)
    assert encode(tokenizer, "ok") == [111, 107]


def test_token_longer_than_the_output_area_is_asked_for_alone(sandbox, build_guest, byte_vocabulary):
    table = (*byte_vocabulary.token_bytes[:65], b"A" * 9000, *byte_vocabulary.token_bytes[66:])
    with pytest.raises(AdmissionError, match="id 65") as caught:
        sandbox.load_tokenizer(build_guest("tokenizer"), dataclasses.replace(byte_vocabulary, token_bytes=table))
    assert caught.value.clause == "1.16"


def test_sampler_cannot_be_loaded_as_a_tokenizer(sandbox, build_guest, byte_vocabulary):
    with pytest.raises(AdmissionError, match="expected a tokenizer, got a sampler"):
        sandbox.load_tokenizer(build_guest("sampler"), byte_vocabulary)


def test_load_has_one_deadline_for_all_pieces(sandbox, build_guest, byte_vocabulary, guest_limits, monkeypatch):
    clock = iter([0.0, 0.1, 0.3, 0.5, 0.7])
    monkeypatch.setattr("sealhost.sandbox.tokenizer.time.monotonic", lambda: next(clock))
    guest = build_guest("tokenizer", limits=guest_limits(load_ms=50), size=33)
    with pytest.raises(AdmissionError, match="load took longer than 50 ms"):
        sandbox.load_tokenizer(guest, byte_vocabulary)


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


# text, ids, add_special, parse_special, vocabulary changes; whether the answer holds
ANSWERS = {
    "plain": (b"ab", ids(97, 98), False, False, {}, True),
    "empty": (b"", ids(), True, True, {}, True),
    "BOS that was asked for": (b"a", ids(BOS, 97), True, False, {}, True),
    "BOS that was not asked for": (b"a", ids(BOS, 97), False, False, {}, False),
    "BOS that the vocabulary does not add": (b"a", ids(BOS, 97), True, False, {"add_bos": False}, False),
    "BOS left out": (b"a", ids(97), True, False, {}, True),
    "BOS twice": (b"a", ids(BOS, BOS, 97), True, False, {}, False),
    "BOS alone": (b"", ids(BOS), True, False, {"add_eos": True}, True),
    "EOS that was asked for": (b"a", ids(BOS, 97, EOS), True, False, {"add_eos": True}, True),
    "EOS that the vocabulary does not add": (b"a", ids(97, EOS), True, False, {}, False),
    "EOS first": (b"a", ids(EOS, 97), True, False, {"add_eos": True}, False),
    "the same token as BOS and EOS, once": (b"", ids(BOS), True, False, {"add_eos": True, "eos": BOS}, True),
    "control spelled by the text, parsed": (b"<s>a", ids(BOS, 97), False, True, {}, True),
    "control spelled by the text, parsed, after BOS": (b"<s>a", ids(BOS, BOS, 97), True, True, {}, True),
    "control spelled by the text that stands for BOS": (b"<s>a", ids(BOS, 97), True, True, {}, True),
    "control spelled by the text, not parsed": (b"<s>a", ids(BOS, 97), False, False, {}, False),
    "control of another text": (b"a", ids(97, EOS), False, True, {}, False),
    "space before the text": (b"a", ids(32, 97), False, False, {"add_space_prefix": True}, True),
    "space that the vocabulary does not add": (b"a", ids(32, 97), False, False, {}, False),
    "id out of range": (b"a", ids(260), False, False, {}, False),
    "the largest id": (b"a", ids(2**32 - 1), False, True, {}, False),
    "other bytes": (b"ab", ids(97, 97), False, False, {}, False),
    "too few bytes": (b"ab", ids(97), False, False, {}, False),
    "too many bytes": (b"ab", ids(97, 98, 99), False, False, {}, False),
    "a space for U+2581 in SentencePiece": (b"a\xe2\x96\x81b", ids(97, 32, 98), False, False, {"model": "llama"}, True),
    "U+2581 left out in SentencePiece": (b"a\xe2\x96\x81b", ids(97, 98), False, False, {"model": "llama"}, False),
    "the unknown token in Unigram": (b"ab", ids(97, 258, 98), False, False, {"model": "t5"}, True),
    "the unknown token for a byte that has one": (b"ab", ids(97, 258), False, False, {"model": "t5"}, False),
    "the unknown token in Unigram, spelled": (b"a<unk>b", ids(97, 258, 98), False, True, {"model": "t5"}, True),
    "the unknown token in Unigram, spelled, not parsed": (b"a<unk>", ids(97, 258), False, False, {"model": "t5"}, False),
    "control in Unigram": (b"a", ids(97, EOS), False, False, {"model": "t5"}, False),
    "a vocabulary without the unknown token": (b"a", ids(97), False, False, {"model": "t5", "unknown": -1}, True),
    "the unknown token elsewhere": (b"ab", ids(97, 258, 98), False, False, {}, False),
    "a space for U+2581 elsewhere": (b"a\xe2\x96\x81b", ids(97, 32, 98), False, False, {}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_holds_only_when_it_spells_the_text(name, byte_vocabulary: Vocabulary):
    text, answer, add_special, parse_special, changes, holds = ANSWERS[name]
    vocabulary = dataclasses.replace(byte_vocabulary, **changes)
    problem = check(vocabulary, text, answer, add_special=add_special, parse_special=parse_special)
    assert (problem is None) == holds, problem


@pytest.mark.parametrize(
    ("answer", "holds"),
    [(ids(97, 98), True), (ids(97, 256, 98), True), (ids(97), False), (ids(98, 97), False), (ids(97, 97, 98), False)],
    ids=["left out", "spelled by a longer token", "more left out", "out of order", "put in"],
)
def test_only_bytes_that_no_token_spells_alone_may_be_left_out(answer, holds, byte_vocabulary: Vocabulary):
    spelled = (
        *byte_vocabulary.token_bytes[:4],
        b"four",
        *byte_vocabulary.token_bytes[5:256],
        b"\x04\x04",
        b"",
        b"",
        b"\x04",
    )
    types = np.array([1] * 257 + [3, 3, 5], dtype=np.uint8)
    vocabulary = dataclasses.replace(byte_vocabulary, token_bytes=spelled, types=types)
    assert unspellable(vocabulary) == b"\x04"
    problem = check(
        vocabulary, b"a\x04\x04b", answer, add_special=False, parse_special=False, dropped=unspellable(vocabulary)
    )
    assert (problem is None) == holds, problem


def test_first_difference_is_named(byte_vocabulary):
    problem = check(byte_vocabulary, b"abc", ids(97, 99, 99), add_special=False, parse_special=False)
    assert problem is not None
    assert "byte 1" in problem


def test_models_own_normaliser_comes_before_the_guest(sandbox, build_guest, byte_vocabulary):
    shouting = dataclasses.replace(byte_vocabulary, normalize=lambda text: text.upper() * 2)
    tokenizer = sandbox.load_tokenizer(build_guest("tokenizer"), shouting)
    assert tokenizer.encode("ok", add_special=False, parse_special=False) == [79, 75, 79, 75]
    for length in (3000, 5000):  # too long after it, too long before it
        with pytest.raises(SandboxError, match="bytes of text"):
            tokenizer.encode("a" * length, add_special=False, parse_special=False)
