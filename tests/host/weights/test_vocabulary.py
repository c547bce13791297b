"""The vocabulary: trusted spellings, ids in range, ends of answers."""

from __future__ import annotations

import hashlib
import io
import mmap
from dataclasses import replace

import msgspec
import pytest

from sealhost.host.errors import WeightsError
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.vocabulary import byte_alphabet, end_ids, vocabulary

U8, U32, I32, F32, BOOL, STRING, ARRAY = 0, 4, 5, 6, 7, 8, 9
KEY = "tokenizer.ggml."


def words_of(plan):
    file = GgufFile.parse(plan.build())
    return file, vocabulary(file)


def test_the_alphabet_names_every_byte_once():
    alphabet = byte_alphabet()
    assert sorted(alphabet.values()) == [chr(byte) for byte in range(256)]
    assert alphabet[ord("Ġ")] == " "
    assert alphabet[ord("Ċ")] == "\n"
    assert alphabet[ord("A")] == "A"


def test_ids_spell_bytes_through_the_alphabet_and_specials_spell_themselves(tiny_llama):
    _, words = words_of(tiny_llama())
    assert words.token_bytes == (b"<|endoftext|>", b"<|im_end|>", b" a", b"b", b" ab", "é".encode(), b"c", b"d")


@pytest.mark.parametrize(("key", "at"), [("tokens", 5), ("merges", 0)])
def test_a_vocabularys_digest_is_of_its_strings_though_they_are_hashed_when_they_are_read(tiny_llama, key, at):
    _, words = words_of(tiny_llama())
    assert words_of(tiny_llama())[1].digest == words.digest
    columns = {"tokens": list(words.texts), "merges": list(words.merges)}
    columns[key][at] += b"e"
    _, other = words_of(tiny_llama({KEY + key: (ARRAY, (STRING, columns[key]))}))
    assert other.digest != words.digest


def test_the_hosts_table_is_part_of_the_digest(tiny_llama):
    """Two tokenizer models spell the same texts differently; so would another version of the host."""
    _, words = words_of(tiny_llama())
    other = replace(words, token_bytes=(b"other", *words.token_bytes[1:]))
    assert other.digest != words.digest
    assert (
        words.token_bytes.sha256
        == hashlib.sha256(b"MessagePack strings\n" + msgspec.msgpack.encode(words.token_bytes)).digest()
    )


def test_a_word_outside_the_alphabet_stands_for_itself(tiny_llama):
    texts = [*(bytes((97 + index,)) for index in range(6)), "字".encode(), b"\xff\xfe"]
    _, words = words_of(tiny_llama({KEY + "tokens": (ARRAY, (STRING, texts)), KEY + "token_type": None}))
    assert words.token_bytes[6:] == ("字".encode(), b"\xff\xfe")
    assert words.types.tolist() == [1] * 8


def test_flags_and_ids_are_read_and_missing_ones_mean_none(tiny_llama):
    _, words = words_of(tiny_llama())
    assert (words.bos, words.eos, words.unknown) == (0, 1, -1)
    assert (words.add_bos, words.add_eos, words.add_space_prefix) == (False, False, False)
    _, words = words_of(tiny_llama({KEY + "add_bos_token": (BOOL, 1), KEY + "bos_token_id": None}))
    assert words.add_bos
    assert words.bos == -1


@pytest.mark.parametrize("pre", ["llama-bpe", "llama3", "tekken", "falcon3"])
def test_some_rules_begin_with_bos_unless_the_file_says_otherwise(tiny_llama, pre):
    assert words_of(tiny_llama({KEY + "pre": (STRING, pre)}))[1].add_bos
    changes = {KEY + "pre": (STRING, pre), KEY + "add_bos_token": (BOOL, 0)}
    assert not words_of(tiny_llama(changes))[1].add_bos


def test_an_answer_ends_with_eos_named_ids_and_control_tokens_known_by_name(tiny_llama):
    file, words = words_of(tiny_llama({KEY + "eos_token_id": None}))
    assert end_ids(file, words) == {0, 1}
    file, words = words_of(tiny_llama({KEY + "eot_token_id": (U32, 6), KEY + "token_type": (ARRAY, (I32, [1] * 8))}))
    assert end_ids(file, words) == {1, 6}  # names count for control tokens only


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"model": None}, "model", "missing"),
        ({"model": (STRING, "bert")}, "model", "gpt2, gemma4, llama, t5; got bert"),
        ({"model": (U32, 1)}, "model", "expected a string, got a UINT32"),
        ({"pre": None}, "pre", "missing"),
        ({"tokens": None}, "tokens", "missing"),
        ({"tokens": (ARRAY, (STRING, []))}, "tokens", "got 0"),
        ({"tokens": (ARRAY, (U32, [1, 2]))}, "tokens", "array of strings"),
        ({"tokens": (STRING, "a")}, "tokens", "array of strings"),
        ({"merges": None}, "merges", "missing"),
        ({"merges": (ARRAY, (I32, [1]))}, "merges", "array of strings"),
        ({"token_type": (ARRAY, (I32, [1] * 7))}, "token_type", "expected 8 entries"),
        ({"token_type": (ARRAY, (I32, [1] * 7 + [7]))}, "token_type", "got 7"),
        ({"token_type": (ARRAY, (I32, [1] * 7 + [-1]))}, "token_type", "got -1"),
        ({"token_type": (ARRAY, (F32, [1.0] * 8))}, "token_type", "expected an array of INT32"),
        ({"scores": (ARRAY, (F32, [1.0] * 9))}, "scores", "expected 8 entries"),
        ({"scores": (ARRAY, (STRING, ["1"] * 8))}, "scores", "expected an array of FLOAT32"),
        ({"bos_token_id": (U32, 8)}, "bos_token_id", "0 to 7, got 8"),
        ({"eos_token_id": (I32, -1)}, "eos_token_id", "0 to 7, got -1"),
        ({"unknown_token_id": (STRING, "0")}, "unknown_token_id", "one integer"),
        ({"eos_token_id": (BOOL, 1)}, "eos_token_id", "one integer"),
        ({"add_bos_token": (U32, 1)}, "add_bos_token", "a boolean"),
    ],
)
def test_a_bad_key_is_refused_by_name(tiny_llama, changes, key, words):
    plan = tiny_llama({KEY + name: change for name, change in changes.items()})
    with pytest.raises(WeightsError) as caught:
        words_of(plan)
    assert f"E_GGUF {KEY}{key}:" in str(caught.value)
    assert words in str(caught.value)


BLANK = "\u2581"


def spm_plan(plan, model="llama", **changes):
    """A file with a SentencePiece vocabulary."""
    texts = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xfF>", f"{BLANK}a", f"b{BLANK}", f"<|t{BLANK}|>"]
    keys = {
        "model": (STRING, model),
        "pre": None,
        "tokens": (ARRAY, (STRING, [text.encode() for text in texts])),
        "token_type": (ARRAY, (I32, [2, 3, 3, 6, 6, 1, 5, 4])),
        "scores": (ARRAY, (F32, [0.0] * 5 + [-1.0, -2.0, 0.0])),
        "merges": None,
        "bos_token_id": None,
        "eos_token_id": None,
        **changes,
    }
    return plan({KEY + name: change for name, change in keys.items()})


def test_a_sentencepiece_vocabulary_spells_spaces_and_bytes_its_own_way(tiny_llama):
    _, words = words_of(spm_plan(tiny_llama))
    assert words.token_bytes == (b"<unk>", b"<s>", b"</s>", b"\n", b"\xff", b" a", b"b ", f"<|t{BLANK}|>".encode())
    assert words.scores.tolist()[5:7] == [-1.0, -2.0]


def test_a_sentencepiece_file_that_says_nothing_begins_with_bos_and_a_space(tiny_llama):
    _, words = words_of(spm_plan(tiny_llama))
    assert (words.pre, words.merges) == ("default", ())
    assert (words.bos, words.eos, words.unknown) == (1, 2, 0)
    assert (words.add_bos, words.add_eos, words.add_space_prefix) == (True, False, True)
    said = {
        "add_bos_token": (BOOL, 0),
        "add_eos_token": (BOOL, 1),
        "add_space_prefix": (BOOL, 0),
        "bos_token_id": (U32, 5),
    }
    _, words = words_of(spm_plan(tiny_llama, **said))
    assert (words.bos, words.add_bos, words.add_eos, words.add_space_prefix) == (5, False, True, False)


def test_a_byte_token_that_spells_none_keeps_its_text(tiny_llama):
    texts = [b"<0x0A>", b"<0x0>", b"<0xGG>", b"0x0A", b"<0x0A> ", b"a", b"b", b"c"]
    _, words = words_of(spm_plan(tiny_llama, tokens=(ARRAY, (STRING, texts)), token_type=(ARRAY, (I32, [6] * 8))))
    assert words.token_bytes == (b"\n", *texts[1:])


def test_gemma_4_merges_by_rank_over_the_same_spelling(tiny_llama):
    _, words = words_of(spm_plan(tiny_llama, "gemma4", merges=(ARRAY, (STRING, [b"a b"]))))
    assert (words.pre, words.merges, words.add_bos, words.bos) == ("gemma4", (b"a b",), True, -1)
    assert words.token_bytes[5] == b" a"
    assert not words.add_space_prefix
    with pytest.raises(WeightsError, match="merges"):
        words_of(spm_plan(tiny_llama, "gemma4"))


def test_a_unigram_file_ends_with_eos_and_brings_its_normaliser(tiny_llama, blob_of):
    _, words = words_of(spm_plan(tiny_llama, "t5"))
    assert (words.bos, words.eos, words.unknown) == (-1, 1, 2)
    assert (words.add_bos, words.add_eos, words.add_space_prefix) == (False, True, False)
    assert words.normalize(" A  b ") == " A  b "
    assert words_of(spm_plan(tiny_llama))[1].normalize is None
    keys = {
        "remove_extra_whitespaces": (BOOL, 1),
        "precompiled_charsmap": (ARRAY, (U8, list(blob_of({"A": "a", "\t": " "})))),
    }
    _, words = words_of(spm_plan(tiny_llama, "t5", **keys))
    assert words.normalize(" A\t  b ") == "a b"
    with pytest.raises(WeightsError, match="precompiled_charsmap"):
        words_of(spm_plan(tiny_llama, "t5", precompiled_charsmap=(ARRAY, (U32, [1, 2, 3]))))
    with pytest.raises(WeightsError, match="precompiled_charsmap"):
        words_of(spm_plan(tiny_llama, "t5", precompiled_charsmap=(STRING, "abc")))


def test_user_defined_markers_count_as_control_and_other_user_defined_tokens_do_not(tiny_llama):
    texts = ["<|START|>", "<\uff5cUser\uff5c>", "</s>", "<think>", "<|", "<|a|>b", "  ", "<|x|>"]
    changes = {
        KEY + "tokens": (ARRAY, (STRING, [text.encode() for text in texts])),
        KEY + "token_type": (ARRAY, (I32, [4] * 7 + [1])),
    }
    file, words = words_of(tiny_llama(changes))
    assert words.types.tolist() == [3, 3, 3, 4, 4, 4, 4, 1]
    assert {0, 1, 2} & end_ids(file, words) == {0, 1, 2} & {words.eos, 2}


def test_default_ids_that_a_small_vocabulary_lacks_are_none(tiny_llama):
    plan = spm_plan(tiny_llama, tokens=(ARRAY, (STRING, [b"a", b"b"])), token_type=None, scores=None)
    _, words = words_of(plan)
    assert (words.bos, words.eos, words.unknown) == (1, -1, 0)


@pytest.mark.parametrize(
    ("plan", "guest"), [("gpt2", "bpe"), ("gemma4", "bpe"), ("llama", "spm"), ("t5", "unigram"), ("bert", "bpe")]
)
def test_pack_takes_the_reference_tokenizer_for_the_files_model(tiny_llama, tmp_path, plan, guest):
    from sealhost.host.cli.packing import facts_of

    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_llama({KEY + "model": (STRING, plan)}).build())
    assert facts_of(path).tokenizer == guest


def test_tokenize_encodes_a_bare_file_with_the_guest_for_its_model(tiny_llama, tmp_path, monkeypatch, capsys):
    from sealhost.host.cli.main import run

    path = tmp_path / "model.gguf"
    path.write_bytes(spm_plan(tiny_llama).build())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n a")))
    assert run(["tokenize", str(path), "--add-special"]) == 0
    assert capsys.readouterr().out == "[1, 5, 3, 5]\n"


@pytest.mark.model
def test_the_demo_model_spells_its_golden_prompts(smollm2_gguf, smollm2_goldens):
    with smollm2_gguf.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        file = GgufFile.parse(memoryview(data))
    words = vocabulary(file)
    for golden in smollm2_goldens:
        assert b"".join(words.token_bytes[one] for one in golden["token_ids"]).decode() == golden["prompt"]
    assert end_ids(file, words) == {0, 2}
