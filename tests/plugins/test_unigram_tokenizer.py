"""The Unigram guest, run directly, and against the `tokenizers` library's Unigram with the same scores."""

from __future__ import annotations

import random

import numpy as np
import pytest
from plugin_harness import (
    ADD_SPECIAL,
    BYTE,
    CONTROL,
    NORMAL,
    PARSE_SPECIAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    GuestRefusedError,
    VocabularyColumns,
)
from random_texts import texts
from sentencepiece_reference import ADD_BOS, ADD_EOS, ADD_SPACE_PREFIX, BLANK

PIECES = {BLANK: -2.0, "a": -3.0, "b": -3.5, "ab": -5.0, f"{BLANK}ab": -5.5, "abab": -9.0, "c": -20.0, "\n": -4.0}
PAD, EOS, UNK, FIRST = 0, 1, 2, 3
ID = {piece: FIRST + place for place, piece in enumerate(PIECES)}


def columns(pieces: dict[str, float], more=(), more_types=(), bits: int = ADD_EOS | ADD_SPACE_PREFIX, **changes):
    """A vocabulary like T5's: <pad>, </s>, <unk>, pieces with their scores, then `more` tokens."""
    types = [CONTROL, CONTROL, UNKNOWN, *[NORMAL] * len(pieces), *more_types]
    scores = [0.0] * FIRST + [*pieces.values()] + [0.0] * len(more)
    facts = {
        "pre": "default",
        "model": "t5",
        "types": types,
        "scores": scores,
        "flags": (bits, -1, EOS, UNK),
        **changes,
    }
    return VocabularyColumns(["<pad>", "</s>", "<unk>", *pieces, *more], [], **facts)


def library(pieces: dict[str, float]):
    """Special tokens under names that no text spells: the library would find them in plain text."""
    from tokenizers import Tokenizer, models

    listed = [(f"\ue000{one}", 0.0) for one in range(FIRST)] + [*pieces.items()]
    return Tokenizer(models.Unigram(listed, unk_id=UNK, byte_fallback=False))


def random_pieces(chance: random.Random, samples: list[str], count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    joined = [text.replace(" ", BLANK) for text in samples if text]
    while len(found) < count:
        text = chance.choice(joined)
        start = chance.randrange(len(text))
        found[text[start : start + chance.randrange(1, 7)]] = -chance.randrange(8, 64) / 4  # float32 holds them exactly
    return found


def test_the_best_sum_of_scores_wins_and_the_first_of_equal_ways(load_unigram):
    guest = load_unigram(columns(PIECES, bits=0))
    assert guest.encode("ab") == [ID["ab"]]
    assert guest.encode("abab") == [ID["abab"]]
    assert guest.encode("ababab") == [ID["ab"], ID["abab"]]
    assert guest.encode("ba") == [ID["b"], ID["a"]]
    assert guest.encode("") == []


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_agree_with_the_library(load_unigram, seed):
    samples = texts(300, seed)
    pieces = random_pieces(random.Random(seed), samples, 400)
    guest, peer = load_unigram(columns(pieces)), library(pieces)
    for text in samples:
        assert guest.encode(text) == peer.encode((" " + text).replace(" ", BLANK)).ids, text


@pytest.mark.soak
def test_very_many_random_texts_agree_with_the_library(load_unigram):
    samples = texts(20_000, 9)
    pieces = random_pieces(random.Random(9), samples, 3000)
    guest, peer = load_unigram(columns(pieces)), library(pieces)
    for text in samples:
        assert guest.encode(text) == peer.encode((" " + text).replace(" ", BLANK)).ids, text


def test_the_best_way_is_found_among_all_tokens_of_a_byte_tree(load_unigram):
    # every node has up to 95 children, and texts end at every depth
    chance = random.Random(3)
    printable = [chr(code) for code in range(32, 127)]
    found = {one: -8.0 for one in printable if one != " "}
    while len(found) < 5000:
        text = "".join(chance.choice(printable[:30] if chance.random() < 0.5 else printable) for _ in range(2))
        found[(chance.choice([*found]) + text).replace(" ", BLANK)[: chance.randrange(2, 9)]] = (
            -chance.randrange(8, 64) / 4
        )
    guest, peer = load_unigram(columns(found, bits=0)), library(found)
    for _ in range(300):
        text = "".join(chance.choice([*found])[: chance.randrange(1, 9)] for _ in range(20)).replace(BLANK, " ")
        assert guest.encode(text) == peer.encode(text.replace(" ", BLANK)).ids, text


def test_what_stays_after_loading_is_small(load_unigram):
    guest = load_unigram(columns({f"{i:04x}": -1.0 for i in range(0x10000)}))
    guest.write(guest.input, bytes(guest.input_capacity))
    memory = np.frombuffer(guest.read(0, guest.memory.data_len(guest.store)), np.uint8)
    # of a token its bytes, an offset, a type, an entry and a score; of a node a child, a byte and an id
    tokens, nodes = 0x10000, 0x10000 + 0x1000 + 0x100 + 0x10
    tables = (4 + 4 + 1 + 4 + 4) * tokens + 9 * nodes + 4 * tokens // 4
    assert 4096 * np.count_nonzero(memory.reshape(-1, 4096).any(axis=1)) < tables + 64 * 1024


def test_characters_that_no_token_spells_become_one_unknown_token(load_unigram):
    guest = load_unigram(columns(PIECES))
    assert guest.encode("a字😀b") == [ID[BLANK], ID["a"], UNK, ID["b"]]
    assert guest.encode("\xff") == [ID[BLANK], UNK]
    without = load_unigram(columns(PIECES, flags=(0, -1, EOS, -1)))
    assert without.encode("a字b") == [ID["a"], ID["b"]]


def test_bytes_stand_for_such_characters_where_the_vocabulary_has_them(load_unigram):
    more = tuple(f"<0x{byte:02X}>" for byte in range(0x80, 256))
    guest = load_unigram(columns(PIECES, more, [BYTE] * 128, bits=0))
    first = FIRST + len(PIECES) - 0x80
    assert guest.encode("a字") == [ID["a"], *(first + byte for byte in "字".encode())]
    assert guest.encode("a?字") == [ID["a"], UNK, *(first + byte for byte in "字".encode())]


def test_broken_utf8_never_traps(load_unigram):
    guest = load_unigram(columns(PIECES, bits=0))
    for raw in (b"\xff\xfe", b"\xc3", b"\xe5\xad", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xe2\x96", b"\xc0\x80\xf5"):
        assert guest.encode(b"a" + raw) == [ID["a"], UNK]


def test_flags_and_special_tokens(load_unigram):
    guest = load_unigram(columns(PIECES, ("<extra>", "<tool>", "ab"), (CONTROL, USER_DEFINED, UNUSED)))
    extra, tool = FIRST + len(PIECES), FIRST + len(PIECES) + 1
    assert guest.encode("ab", ADD_SPECIAL) == [ID[f"{BLANK}ab"], EOS]
    assert guest.encode("ab</s>", ADD_SPECIAL | PARSE_SPECIAL) == [ID[f"{BLANK}ab"], EOS]
    assert guest.encode("<extra>ab<unk>", PARSE_SPECIAL) == [extra, ID["ab"], UNK]
    assert not {extra, EOS} & set(guest.encode("<extra></s>"))
    assert guest.encode("a<tool>a") == [ID[BLANK], ID["a"], tool, ID["a"]]
    assert guest.encode(f"ab{BLANK}ab") == guest.encode("ab ab")
    begun = load_unigram(columns(PIECES, bits=ADD_BOS, flags=(ADD_BOS, PAD, EOS, UNK)))
    assert begun.encode("ab", ADD_SPECIAL) == [PAD, ID["ab"]]


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [({"model": "llama"}, "tokenizer.ggml.model", "llama"), ({"pre": "smollm"}, "tokenizer.ggml.pre", "smollm")],
)
def test_another_model_or_rule_is_refused_by_name(load_unigram, changes, key, value):
    with pytest.raises(GuestRefusedError) as refusal:
        load_unigram(columns(PIECES, **changes))
    assert refusal.value.args[0] == -0x40000002
    assert key in refusal.value.args[1]
    assert value in refusal.value.args[1]


def test_scores_that_are_no_numbers_count_as_the_worst(load_unigram):
    for bad in ("nan", "inf", "-inf"):
        guest = load_unigram(columns({"a": float(bad), "aa": -1.0}, bits=0))
        assert guest.encode("aaaa") == [FIRST + 1] * 2
        assert sorted(guest.encode("aaa")) == [FIRST, FIRST + 1]


@pytest.mark.parametrize("unit", ["a", "ab", "字", " ", "\n", "a b ", "?"])
def test_cost_grows_linearly_with_the_text(load_unigram, unit):
    growth = load_unigram(columns(PIECES | {"a" * size: -1.0 * size for size in range(2, 40)})).doublings(unit)
    assert max(growth) < 2.1, growth


def test_a_large_vocabulary_and_a_long_text_fit(load_unigram):
    pieces = {"y": -1.0} | {f"{one:06d}" + "x" * 3: -float(one % 977) for one in range(262_000)}
    guest = load_unigram(columns(pieces, bits=0))
    assert guest.encode("y" * (1 << 20)) == [FIRST] * (1 << 20)
    assert guest.encode("000007xxx261999xxx") == [FIRST + 8, FIRST + 262_000]
