"""SentencePiece's normaliser: longest runs first, and no malformed blob that does harm."""

from __future__ import annotations

import random
import struct
import unicodedata

import pytest

from sealhost.host.errors import WeightsError
from sealhost.host.weights.charsmap import MAX_REPLACEMENT_BYTES, Charsmap

RULES = {"\t": " ", "A": "a", "\uff21": "A", "é": "e\u0301", "e\u0301": "é", "ﬁ": "fi", "가": "가", "\u00ad": ""}


def test_the_longest_run_at_a_place_is_replaced_from_left_to_right(blob_of):
    charsmap = Charsmap(blob_of(RULES | {"ab": "x", "abc": "y", "bc": "z"}))
    assert charsmap.normalize("abcab abd bc") == "yx xd z"
    assert charsmap.normalize("\uff21ée\u0301\tﬁ\u00adA") == "Ae\u0301é fia"
    assert charsmap.normalize("") == ""
    assert charsmap.normalize("字🙂 plain") == "字🙂 plain"
    assert charsmap.normalize("a" + "b" * 1000) == "x" + "b" * 999


def test_ascii_alone_goes_the_short_way_to_the_same_text(blob_of):
    charsmap, text = Charsmap(blob_of(RULES)), "AbA\tx" * 3
    assert charsmap.normalize(text) == charsmap.normalize(text + "字").removesuffix("字") == "aba x" * 3


def test_compositions_of_a_whole_script_are_found(blob_of):
    composed = {unicodedata.normalize("NFD", chr(one)): chr(one) for one in range(0xAC00, 0xAC00 + 600)}
    charsmap = Charsmap(blob_of(composed))
    text = "".join(composed)
    assert charsmap.normalize(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (b"", "got 0"),
        (b"\0\0\0", "got 3"),
        (struct.pack("<I", 8) + bytes(4), "got one of 8"),
        (struct.pack("<I", 0) + b"a\0", "got one of 0"),
        (struct.pack("<I", 6) + bytes(9), "got one of 6"),
        (struct.pack("<I", 0xFFFFFFFC) + bytes(9), "got one of 4294967292"),
        (bytes((4 << 20) + 1), "got 4194305"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused_by_key(blob, problem):
    with pytest.raises(WeightsError) as caught:
        Charsmap(blob)
    assert "E_GGUF tokenizer.ggml.precompiled_charsmap:" in str(caught.value)
    assert problem in str(caught.value)


def test_a_spoiled_blob_replaces_something_else_or_nothing_and_never_fails(blob_of):
    good, text = blob_of(RULES), "".join(RULES) * 3 + "abc 字"
    for seed in range(400):
        chance = random.Random(seed)
        blob = bytearray(good)
        for _ in range(chance.randrange(1, 30)):
            blob[chance.randrange(4, len(blob))] = chance.randrange(256)
        assert isinstance(Charsmap(bytes(blob)).normalize(text), str)


def test_a_replacement_that_would_blow_up_a_text_is_none(blob_of):
    longest = "x" * MAX_REPLACEMENT_BYTES
    charsmap = Charsmap(blob_of({"字": longest, "é": longest + "x", "ab": "y" * (3 << 20)}))
    assert charsmap.normalize("字éab") == longest + "éab"


def test_replacements_without_an_end_or_outside_are_none(blob_of):
    good = blob_of({"A": "bc"})
    assert Charsmap(good).normalize("A") == "bc"
    assert Charsmap(good[:-1]).normalize("A") == "A"
    size = struct.unpack_from("<I", good)[0]
    far = bytearray(good)
    for at in range(4, 4 + size, 4):
        (unit,) = struct.unpack_from("<I", far, at)
        if unit >> 31:
            struct.pack_into("<I", far, at, 1 << 31 | 1 << 30)
    assert Charsmap(bytes(far)).normalize("A") == "A"
