"""The byte-level BPE guest against `tiktoken`, on vocabularies whose ids are its ranks."""

from __future__ import annotations

import random

import pytest
from llamacpp_vocabularies import fetch
from plugin_harness import NORMAL, TokenizerGuest
from publishers_rules import CL100K, GPT2
from random_texts import random_text

pytestmark = pytest.mark.oracle

PATTERNS = {"gpt-2": GPT2, "llama-bpe": CL100K, "qwen2": CL100K.replace("{1,3}", "")}
COUNT = 20_000
LONG_S = "\u017f"
"""Folded to "s" by the library that models were trained with, and so by the guest; not by tiktoken's engine."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return fetch(tmp_path_factory.mktemp("llamacpp"))


@pytest.mark.parametrize("name", PATTERNS)
def test_random_texts_agree(guest_engine, bpe_module, models, name):
    import tiktoken

    from sealhost.host.weights.gguf import GgufFile
    from sealhost.host.weights.vocabulary import vocabulary

    words = vocabulary(GgufFile.parse(memoryview((models / f"ggml-vocab-{name}.gguf").read_bytes())))
    ranks = {raw: one for one, raw in enumerate(words.token_bytes) if words.types[one] == NORMAL}
    peer = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    guest, chance = TokenizerGuest(guest_engine, bpe_module, words.stream()), random.Random(41)
    for _ in range(COUNT):
        text = random_text(chance).replace(LONG_S, "s")
        assert guest.encode(text) == peer.encode_ordinary(text), text
