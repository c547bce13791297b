"""GBNF grammars in the guest `json` and in llama.cpp's own grammar sampler: the same tokens may follow, along random texts.

Where the two differ on purpose (the guest's README, clause 3.7) stands in `DIFFERENT`, and what llama.cpp allows beside
text is left out of the comparison: control tokens, and bytes that no UTF-8 text goes on with.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import wasmtime
from gbnf_grammars import EXAMPLES, GRAMMARS, REFUSED, random_grammar
from grammar_guest import GrammarGuest, Words
from grammar_reference import _lowest
from llamacpp_vocabularies import LlamaCpp
from plugin_harness import CONTROL, SPELLING, GuestRefusedError

from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.oracle

TOKEN_DATA = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])

DIFFERENT = {
    'root ::= "a" | b\nb ::= "b" b': "begins what never ends",
    r'root ::= "a" | "b" [^\x00-\U0010FFFF] | "ab"': "the same",
    'root ::= "a"\n  | "b"\n  | "ab" "c"\n': "takes no line that begins with |",
    'root ::= a-1 B_2 3c\na-1 ::= "a"\nB_2 ::= "b" | a-1\n3c ::= "12" | [0-9]': "takes no _ in a name",
    'root ::= ("" | "a" | "" "b")+ "c"': "takes a repetition of what is empty for left recursion",
    'root ::= "a"*?+ "b"{1,2}{2}': "the same",
}
"""Grammars that llama.cpp reads otherwise, and what it does."""

BEYOND = re.compile(r"\[\^[^\]]*(\\u|\\U|[^\x00-\x7f])")
"""A negated class of characters that are not ASCII. llama.cpp allows no token that ends within a character of which one
completion is in the class, though others are not; the guest does."""

TAKEN_THERE = {
    'root ::= "a"\nroot ::= "b"': "the second one stands",
    "root ::= []": "a class of nothing is the empty text",
    "root ::= [^]": "the same",
    "root ::= [z-a]": "a class that no character is in",
    r'root ::= "\ud83d\ude00"': "characters that no text has",
    r"root ::= [a-\U00110000]": "the same",
    r"root ::= [^\x00-\U0010FFFF]": "nothing fits, and nothing says so",
    'root ::= "a" root': "the same",
    "root ::= <[1000]>": "tokens",
}
"""What the guest refuses and llama.cpp takes."""

NOT_ASKED = {
    'root ::= "a"{3,2}': "counts from 3 to 2 past all numbers",
    "": "means no grammar at all",
}


DEEPEST = 90
"""Characters that no recursion makes more calls of than the guest keeps open (clause 3.8)."""


class Peer:
    """llama.cpp's grammar sampler over a model's vocabulary."""

    def __init__(self, path: str) -> None:
        self.model = LlamaCpp(path)
        self.library = self.model.library
        self.size = self.library.llama_vocab_n_tokens(self.model.vocabulary)

    def begin(self, raw: str) -> ctypes.c_void_p | None:
        return self.library.llama_sampler_init_grammar(self.model.vocabulary, raw.encode(), b"root")

    def allowed(self, sampler: ctypes.c_void_p) -> set[int]:
        data = np.zeros(self.size, TOKEN_DATA)
        data["id"] = np.arange(self.size)
        pointer = data.ctypes.data_as(ctypes.POINTER(self.library.llama_token_data))
        array = self.library.llama_token_data_array(pointer, self.size, -1, False)
        self.library.llama_sampler_apply(sampler, ctypes.byref(array))
        return set(np.flatnonzero(data["logit"] > -np.inf).tolist())


@pytest.fixture(scope="module")
def peer(smollm2_gguf) -> Iterator[Peer]:
    pytest.importorskip("llama_cpp")
    found = Peer(str(smollm2_gguf))
    yield found
    found.model.close()


@pytest.fixture(scope="module")
def words(smollm2_columns) -> Words:
    bytes_of = {letter: byte for byte, letter in SPELLING.items()}
    texts = [
        b"" if kind == CONTROL else bytes(bytes_of[letter] for letter in text)
        for text, kind in zip(smollm2_columns.texts, smollm2_columns.types, strict=True)
    ]
    return Words(tuple(texts), bytes(smollm2_columns.types), smollm2_columns.flags[2])


@pytest.fixture(scope="module")
def guest(guest_engine, words) -> GrammarGuest:
    path = reference_plugin("sampler", "json") / "plugin.wasm"
    return GrammarGuest(guest_engine, wasmtime.Module(guest_engine, path.read_bytes()), words)


def is_text(raw: bytes, pending: bytes) -> bytes | None:
    """What is pending of a character after these bytes; None: no UTF-8 text goes on so, or llama.cpp ends it at a NUL."""
    for byte in raw:
        pending += bytes([byte])
        found = _lowest(pending)
        if byte == 0 or found is None:
            return None
        pending = b"" if found[0] == found[1] else pending
    return pending


@cache
def texts_of(words: Words, pending: bytes, *, whole: bool) -> frozenset[int]:
    """Ids whose bytes a UTF-8 text may go on with (to the end of a character if `whole`), and the end."""
    left = ((id_, is_text(text, pending)) for id_, text in enumerate(words.texts) if text)
    return frozenset(id_ for id_, rest in left if rest is not None and not (whole and rest)) | {words.eos}


def compare(peer: Peer, guest: GrammarGuest, raw: str, seed: object, steps: int) -> int:
    """Steps along one text in which both allowed the same."""
    rng, config, words = random.Random(f"{raw} {seed}"), {"grammar": raw}, guest.words
    sampler = peer.begin(raw)
    assert sampler, raw
    generated: list[int] = []
    pending, told = b"", 0
    for _step in range(steps):
        try:
            ours = guest.allowed(config, generated, new=not generated)
        except GuestRefusedError as error:
            assert "too many" in str(error)  # noqa: PT017 -- a bound; what came before was compared
            break
        texts = texts_of(words, pending, whole=BEYOND.search(raw) is not None)
        theirs = peer.allowed(sampler) & texts
        written = b"".join(words.texts[id_] for id_ in generated)
        differ = {words.texts[id_] for id_ in (ours & texts) ^ theirs}
        assert all(len(written + text) > DEEPEST for text in differ), (raw, written)
        told += 1
        choices = sorted(theirs - {words.eos})
        if not choices:
            break
        generated.append(rng.choice(choices))
        peer.library.llama_sampler_accept(sampler, generated[-1])
        left = is_text(words.texts[generated[-1]], pending)
        assert left is not None
        pending = left
    peer.library.llama_sampler_free(sampler)
    return told


@pytest.mark.parametrize("raw", [raw for raw in GRAMMARS if raw not in DIFFERENT])
def test_both_allow_the_same_tokens(raw, peer, guest):
    assert sum(compare(peer, guest, raw, walk, 8) for walk in range(3)) >= 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_allow_the_same_tokens_of_whole_languages(name, peer, guest):
    assert sum(compare(peer, guest, EXAMPLES[name][0], walk, 25) for walk in range(6)) > 60


def test_both_allow_the_same_tokens_of_random_grammars(peer, guest):
    told = 0
    for seed in range(200):
        raw = random_grammar(random.Random(seed), empties=seed % 4 == 0)
        if sampler := peer.begin(raw):
            peer.library.llama_sampler_free(sampler)
            told += compare(peer, guest, raw, seed, 5)
    assert told > 300


@pytest.mark.parametrize("raw", [raw for raw, _ in REFUSED if raw not in NOT_ASKED])
def test_both_refuse_the_same_but_for_what_is_listed(raw, peer):
    sampler = peer.begin(raw)
    assert bool(sampler) == (raw in TAKEN_THERE)
    if sampler:
        peer.library.llama_sampler_free(sampler)
