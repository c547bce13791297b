"""The reference tokenizers the whole way: a model file's vocabulary, the guest behind the host's proxy, its answers checked."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from random_texts import texts
from sentencepiece_reference import BLANK, FIRST_BYTE, Reference, columns, random_pieces

from sealhost.host.weights.vocabulary import FAMILIES, REFERENCE_GUESTS
from sealhost.plugins import reference_plugin, reference_plugins
from sealhost.sandbox import Sandbox, SandboxError, Vocabulary
from sealhost.signing.declaration import read_plugin


def reference_guest(name: str) -> SimpleNamespace:
    source = read_plugin(reference_plugin("tokenizer", name) / "plugin.wasm")
    facts = {field.name: getattr(source, field.name) for field in fields(source)}
    return SimpleNamespace(**facts, sha256=hashlib.sha256(source.wasm).hexdigest())


@pytest.fixture(scope="module")
def tokenizer_sandbox(tmp_path_factory):
    with Sandbox(cache_directory=tmp_path_factory.mktemp("cache")) as sandbox:
        yield sandbox


def vocabulary(made, model: str, merges: tuple[bytes, ...] = ()) -> Vocabulary:
    spelled = [text.replace(BLANK, " ").encode() for text in made.texts]
    spelled[FIRST_BYTE : FIRST_BYTE + 256] = [bytes([byte]) for byte in range(256)]
    bits, bos, eos, unknown = made.flags
    return Vocabulary(
        model=model,
        pre={"llama": "default"}.get(model, model),
        texts=tuple(text.encode() for text in made.texts),
        types=np.array(made.types, np.uint8),
        scores=np.array(made.scores, np.float32),
        merges=merges,
        bos=bos,
        eos=eos,
        unknown=unknown,
        add_bos=bool(bits & 1),
        add_eos=bool(bits & 2),
        add_space_prefix=bool(bits & 4),
        token_bytes=tuple(spelled),
    )


def test_every_tokenizer_model_that_the_host_spells_has_its_guest():
    assert REFERENCE_GUESTS.keys() == FAMILIES.keys()
    assert set(REFERENCE_GUESTS.values()) == set(reference_plugins("tokenizer"))


@pytest.mark.parametrize("bits", [1, 5])
def test_byte_fallback_and_the_prefixed_space_pass_the_hosts_check(tokenizer_sandbox, bits):
    import random

    samples = [*texts(200, 11), f"a{BLANK}b", BLANK, "", " ", "  x"]
    pieces = random_pieces(random.Random(11), samples, count=300, scores=50)
    made = columns(pieces, bits=bits)
    tokenizer = tokenizer_sandbox.load_tokenizer(reference_guest("spm"), vocabulary(made, "llama"))
    reference = Reference(pieces, prefix=bits == 5)
    for text in samples:
        assert tokenizer.encode(text, add_special=False, parse_special=False) == reference.encode(text)
        assert tokenizer.encode(text, add_special=True, parse_special=False) == [1, *reference.encode(text)]


def test_gemma_4_merges_characters_by_rank_and_keeps_runs_of_line_feeds(tokenizer_sandbox):
    pieces = dict.fromkeys(["a", "b", BLANK, "\n", "ab", BLANK + "ab", "\n\n", "\n\n\n", BLANK * 2, f"b{BLANK}"], 0.0)
    merges = ("a b", f"{BLANK} ab", "\n \n", f"b {BLANK}")
    made = columns(pieces, bits=1)
    words = vocabulary(made, "gemma4", tuple(merge.encode() for merge in merges))
    tokenizer = tokenizer_sandbox.load_tokenizer(reference_guest("bpe"), words)
    ids = Reference(pieces).ids

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=False)

    assert encode(f"ab ab{BLANK}ab") == [ids["ab"], ids[f"{BLANK}ab"], ids[f"{BLANK}ab"]]
    assert encode("bb  b") == [ids["b"], ids[f"b{BLANK}"], ids[BLANK], ids["b"]]
    # a run that is a token is one, whatever the merges say; a longer one merges
    assert encode("a\n\n\nb\n") == [ids["a"], ids["\n\n\n"], ids["b"], ids["\n"]]
    assert encode("\n" * 5) == [ids["\n\n"], ids["\n\n"], ids["\n"]]
    assert encode("a字") == [ids["a"], *(FIRST_BYTE + byte for byte in "字".encode())]
    for text in texts(200, 12):
        assert b"".join(words.token_bytes[one] for one in encode(text)) == text.encode().replace(BLANK.encode(), b" ")


def test_a_unigram_vocabulary_normalises_and_has_an_unknown_token(tokenizer_sandbox):
    pieces = {BLANK: -2.0, "a": -3.0, "b": -3.5, f"{BLANK}ab": -4.0, "<": -5.0}
    made = columns(pieces, bits=4)
    kept = [one for one in range(len(made.texts)) if not FIRST_BYTE <= one < FIRST_BYTE + 256]
    words = replace(vocabulary(made, "t5"), normalize=lambda text: " ".join(filter(None, text.lower().split(" "))))
    words = replace(
        words,
        pre="default",
        texts=tuple(words.texts[one] for one in kept),
        token_bytes=tuple(words.token_bytes[one] for one in kept),
        types=words.types[kept],
        scores=words.scores[kept],
    )
    tokenizer = tokenizer_sandbox.load_tokenizer(reference_guest("unigram"), words)
    blank, a, b, word, less = range(3, 8)

    def encode(text: str, *, parse_special: bool = False) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=parse_special)

    assert encode("  AB   ab ") == [word, word]
    assert encode("a\u5b57\u5b57b") == [blank, a, 0, b]
    assert encode("<unk>a", parse_special=True) == [0, a]
    assert encode("<unk>a") == [blank, less, 0, a]
    for text in texts(300, 13):
        encode(text)
        encode(text, parse_special=True)
    with pytest.raises(SandboxError, match="at most 1048576 bytes"):
        encode(" " * (2 << 20))  # though nothing would be left of it
