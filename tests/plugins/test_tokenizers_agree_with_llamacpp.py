"""The reference tokenizers on every vocabulary that comes with llama.cpp: its own test pairs, and random texts."""

from __future__ import annotations

import random
import runpy
import unicodedata
from contextlib import closing
from types import SimpleNamespace

import pytest
import wasmtime
from llamacpp_vocabularies import LlamaCpp, fetch, pairs
from plugin_harness import ADD_SPECIAL, PARSE_SPECIAL, TokenizerGuest
from random_texts import random_text

import sealhost.plugins

pytestmark = pytest.mark.oracle

FILES = (
    *("aquila", "baichuan", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "gpt-neox"),
    *("llama-bpe", "llama-spm", "mpt", "nomic-bert-moe", "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
)
"""Not among them: bert-bge, whose WordPiece cannot keep clause 3.3 (README of tokenizers/unigram)."""

COUNT = 20_000
PUNCT, STEP, ASCII = 64, 512, 128
"""Classes of bpe/unicode.h; the Punctuation step of the library follows an older Unicode."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return fetch(tmp_path_factory.mktemp("llamacpp"))


@pytest.fixture
def load_file(guest_engine):
    """A file's vocabulary as the host reads it, and what encodes with it."""
    from sealhost.host.weights.gguf import GgufFile
    from sealhost.host.weights.vocabulary import REFERENCE_GUESTS, vocabulary
    from sealhost.plugins import reference_plugin

    def load(path):
        file = GgufFile.parse(memoryview(path.read_bytes()))
        if file.metadata["tokenizer.ggml.model"] == "gpt2":
            file.metadata.setdefault("tokenizer.ggml.pre", "default")  # two old files lack it, which the host refuses
        words = vocabulary(file)
        wasm = (reference_plugin("tokenizer", REFERENCE_GUESTS[words.model]) / "plugin.wasm").read_bytes()
        guest = TokenizerGuest(guest_engine, wasmtime.Module(guest_engine, wasm), words.stream())
        normalize = words.normalize or str
        return words, lambda text, flags=0: guest.encode(normalize(text), flags)

    return load


@pytest.fixture(scope="module")
def classes():
    """The classes of every code point, as the guest knows them."""
    script = sealhost.plugins.PLUGINS / "tokenizers/unicode_tables.py"
    return runpy.run_path(str(script), run_name="unicode_tables")["classes"]()


def told_apart(name: str, classes: list[int]) -> set[str]:
    """Characters that llama.cpp takes for something else than the publishers' library does (README of tokenizers/bpe)."""
    found = {point for point, one in enumerate(classes) if one and unicodedata.category(chr(point)) == "Cn"}
    if name == "falcon":
        found |= {
            point for point, one in enumerate(classes) if bool(one & PUNCT) != bool(one & STEP) and point >= ASCII
        }
    return {chr(point) for point in found | ({0x3000} if name == "deepseek-llm" else set())}


def test_no_file_but_wordpieces_is_left_out(models):
    found = {path.name.removeprefix("ggml-vocab-").removesuffix(".gguf") for path in models.glob("*.gguf")}
    assert found == {*FILES, "bert-bge"}


@pytest.mark.parametrize("name", FILES)
def test_the_pairs_of_the_archive_all_hold(models, load_file, name):
    path = models / f"ggml-vocab-{name}.gguf"
    if not path.with_name(path.name + ".inp").exists():
        pytest.skip("the archive has no pairs for it")
    encode = load_file(path)[1]
    told = pairs(path)
    assert len(told) >= 40
    for text, ids in told:
        assert encode(text) == ids, text


@pytest.mark.parametrize("name", FILES)
def test_random_texts_agree(models, load_file, classes, name):
    path = models / f"ggml-vocab-{name}.gguf"
    words, encode = load_file(path)
    lacking = (
        set(range(256)) - {one[0] for one in words.token_bytes if len(one) == 1} if words.model == "gpt2" else set()
    )
    apart, tried, chance = told_apart(name, classes), 0, random.Random(31)
    with closing(LlamaCpp(path)) as peer:
        while tried < COUNT:
            text = random_text(chance)
            # what the vocabulary lacks is left out before merging here, and afterwards there (README of tokenizers/bpe)
            if not (lacking & set(text.encode()) or apart & set(text)):
                assert encode(text) == peer.encode(text), text
                tried += 1


@pytest.mark.parametrize("name", FILES)
def test_special_tokens_agree(models, load_file, name):
    path = models / f"ggml-vocab-{name}.gguf"
    words, encode = load_file(path)
    specials = [text.decode() for text, kind in zip(words.texts, words.types.tolist(), strict=True) if kind in {3, 4}][
        :40
    ]
    after_special = words.add_space_prefix  # llama.cpp puts a space there: R10 of the cases, README rule 4
    with closing(LlamaCpp(path)) as peer:
        for special in specials:
            for text in (special, "" if after_special else f"a {special}\nb{special}{special} c"):
                flags = {"add_special": False, "parse_special": True}
                assert encode(text, PARSE_SPECIAL) == peer.encode(text, **flags), text
        for text in ("hello", "", "  x"):
            assert encode(text, ADD_SPECIAL) == peer.encode(text, add_special=True), text


@pytest.mark.parametrize("name", ["llama-spm", "baichuan"])
def test_chats_whose_control_tokens_are_bos_and_eos_agree(models, load_file, name):
    # Phi-3's have others, and llama.cpp knows from the model's name that they swallow white space
    from sealhost.host.serving.chat_ids import chat_ids
    from sealhost.host.serving.control_text import ControlTexts
    from sealhost.host.serving.template import Piece, Rendering

    path, chance = models / f"ggml-vocab-{name}.gguf", random.Random(5)
    words, encode = load_file(path)
    tokenizer = SimpleNamespace(encode=lambda text, **flags: encode(text, flags["parse_special"] * PARSE_SPECIAL))
    model = SimpleNamespace(
        tokenizer=tokenizer, token_bytes=words.token_bytes, bos=words.bos, eos=words.eos, add_space_prefix=True
    )
    model.control = ControlTexts(["<s>", "</s>", "<unk>"])
    with closing(LlamaCpp(path)) as peer:
        for _ in range(500):
            own = [chance.choice(["<s>", "</s>", "<s>[INST] ", " [/INST] ", "</s>\n<|user|>\n", "x"]) for _ in range(6)]
            said = [Piece(random_text(chance), from_message=True) for _ in own]
            parts = [part for pair in zip(map(Piece, own, [False] * 6), said, strict=True) for part in pair]
            whole = "".join(part.text for part in parts)
            assert chat_ids(model, Rendering(whole, tuple(parts))) == peer.encode(whole, parse_special=True), whole
