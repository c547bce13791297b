"""The BPE guest against the `tokenizers` library, set up with the same vocabulary, merges and split patterns."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
from bpe_vocabulary import trained
from plugin_harness import CONTROL, PARSE_SPECIAL, VocabularyColumns
from publishers_rules import STEPS, WHOLE_PIECES
from random_texts import texts
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers


def reference(columns: VocabularyColumns) -> Tokenizer:
    """The library, with every control token as a special one."""
    vocabulary = {text: token for token, text in enumerate(columns.texts)}
    merges = [tuple(merge.split(" ")) for merge in columns.merges]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=columns.pre in WHOLE_PIECES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(STEPS[columns.pre])
    control = [text for text, kind in zip(columns.texts, columns.types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    return tokenizer


def disagreements(guest, tokenizer: Tokenizer, samples: list[str]) -> list[str]:
    """The samples whose ids differ."""
    expected = tokenizer.encode_batch(samples, add_special_tokens=False)
    return [
        text for text, right in zip(samples, expected, strict=True) if guest.encode(text, PARSE_SPECIAL) != right.ids
    ]


@pytest.fixture(scope="module")
def trained_columns() -> VocabularyColumns:
    """A vocabulary of 1,000 tokens, trained on random texts, with two control tokens."""
    return trained(1000)


@pytest.mark.parametrize("pre", STEPS)
def test_random_texts_agree_under_a_trained_vocabulary(load_tokenizer, trained_columns, pre):
    columns = replace(trained_columns, pre=pre)
    assert not disagreements(load_tokenizer(columns), reference(columns), texts(1000, 2))


@pytest.mark.parametrize("pre", STEPS)
def test_characters_at_the_edges_of_classes_split_as_in_the_library(load_tokenizer, trained_columns, unicode_runs, pre):
    # each between letters, digits, a space and a line break: a wrong class moves a split
    columns = replace(trained_columns, pre=pre)
    points = sorted(
        {point for start in unicode_runs for point in (start - 1, start)} & {*range(0xD800), *range(0xE000, 0x110000)}
    )
    around = [f"a{chr(p)}b1{chr(p)}2 {chr(p)}\n{chr(p)}{chr(p)}" for p in points]
    samples = ["".join(around[i : i + 64]) for i in range(0, len(around), 64)]
    assert not disagreements(load_tokenizer(columns), reference(columns), samples)


@pytest.mark.model
def test_the_goldens_prompts_give_the_goldens_ids(load_tokenizer, smollm2_columns, smollm2_goldens):
    guest = load_tokenizer(smollm2_columns)
    assert len(smollm2_goldens) >= 6
    for golden in smollm2_goldens:
        assert guest.encode(golden["prompt"]) == golden["token_ids"]


@pytest.mark.model
@pytest.mark.parametrize("pre", STEPS)
def test_random_texts_agree_under_the_demo_models_vocabulary(load_tokenizer, smollm2_columns, pre):
    columns = replace(smollm2_columns, pre=pre)
    assert not disagreements(load_tokenizer(columns), reference(columns), texts(2000, 3))


@pytest.mark.model
def test_the_token_bytes_of_the_demo_model_are_the_hosts(load_tokenizer, smollm2_columns):
    guest, count = load_tokenizer(smollm2_columns), len(smollm2_columns.texts)
    given = guest.token_bytes(0, count)
    control = smollm2_columns.types.count(CONTROL)
    assert given.count(b"") == control
    assert b"".join(given[guest_id] for guest_id in guest.encode("naïve 字 😀")) == "naïve 字 😀".encode()


@pytest.mark.model
def test_random_texts_agree_when_encoded_in_the_sandbox(smollm2_gguf, smollm2_columns, tmp_path):
    # the whole way: the verified file's vocabulary, the guest behind the host's proxy, its answers checked
    from sealhost.host.weights.gguf import GgufFile
    from sealhost.host.weights.vocabulary import vocabulary
    from sealhost.plugins import reference_plugin
    from sealhost.sandbox import Sandbox
    from sealhost.signing.declaration import read_plugin

    source = read_plugin(reference_plugin("tokenizer", "bpe") / "plugin.wasm")
    facts = {field.name: getattr(source, field.name) for field in fields(source)}
    plugin = SimpleNamespace(**facts, sha256=hashlib.sha256(source.wasm).hexdigest())
    words = vocabulary(GgufFile.parse(memoryview(smollm2_gguf.read_bytes())))
    with Sandbox(cache_directory=tmp_path) as sandbox:
        tokenizer, library = sandbox.load_tokenizer(plugin, words), reference(smollm2_columns)
        for text in texts(2000, 4):
            ids = tokenizer.encode(text, add_special=False, parse_special=True)
            assert ids == library.encode(text, add_special_tokens=False).ids


@pytest.mark.soak
@pytest.mark.parametrize("pre", STEPS)
def test_very_many_random_texts_agree(load_tokenizer, trained_columns, pre):
    columns = replace(trained_columns, pre=pre)
    assert not disagreements(load_tokenizer(columns), reference(columns), texts(20_000, 5))
