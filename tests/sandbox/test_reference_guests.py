"""The two guests that ship with sealhost, through the whole sandbox: real compiler output, real vocabulary stream."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import pytest

from sealhost.sandbox import AdmissionError, GuestError, SamplingParams, Sandbox, Vocabulary
from sealhost.sandbox.randomness import draw
from sealhost.sandbox.sampling import EmptyError, sample

PLUGINS = Path(__file__).parents[2] / "plugins"
VOCABULARY = 1000
START, END = 300, 301


@pytest.fixture(scope="module")
def reference_sandbox(tmp_path_factory):
    with Sandbox(cache_directory=tmp_path_factory.mktemp("reference") / "cache") as made:
        yield made


@pytest.fixture(scope="module")
def reference_guest(guest_of_bytes, guest_limits):
    def build(folder: str):
        entry = tomllib.loads((PLUGINS / folder / "plugin.toml").read_text())
        wasm = (PLUGINS / folder / "plugin.wasm").read_bytes()
        return guest_of_bytes(entry["role"], wasm, guest_limits(**entry["limits"]))

    return build


@pytest.fixture(scope="module")
def standard_sampler(reference_sandbox, reference_guest, bpe_vocabulary):
    return reference_sandbox.load_sampler(reference_guest("samplers/standard"), VOCABULARY, bpe_vocabulary)


def gpt2_alphabet() -> list[str]:
    """Byte-level BPE's printable stand-in of each byte (GPT-2's encoder.py)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


@pytest.fixture(scope="module")
def bpe_vocabulary() -> Vocabulary:
    """Ids 0 to 255 are the bytes; some merges; two control tokens."""
    alphabet = gpt2_alphabet()
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "Ġwor l", "Ġworl d", "1 2"]
    texts = [*alphabet, *(m.replace(" ", "") for m in merges)]
    texts += [f"<pad{i}>" for i in range(START - len(texts))] + ["<|im_start|>", "<|im_end|>"]
    table = [
        bytes(map(alphabet.index, text)) if i < 256 + len(merges) else text.encode() for i, text in enumerate(texts)
    ]
    types = [1] * (256 + len(merges)) + [5] * (START - 256 - len(merges)) + [3, 3]
    return Vocabulary(
        model="gpt2", pre="gpt-2", texts=tuple(t.encode() for t in texts), types=np.array(types, np.uint8),
        scores=np.zeros(len(texts), np.float32), merges=tuple(m.encode() for m in merges), bos=START, eos=END, unknown=-1,
        add_bos=True, add_eos=False, add_space_prefix=False, token_bytes=tuple(table),
    )  # fmt: skip


@pytest.fixture(scope="module")
def bpe_tokenizer(reference_sandbox, reference_guest, bpe_vocabulary):
    return reference_sandbox.load_tokenizer(reference_guest("tokenizers/bpe"), bpe_vocabulary)


def test_merges_are_applied_best_first(bpe_tokenizer, bpe_vocabulary):
    ids = bpe_tokenizer.encode("hello world12", add_special=False, parse_special=False)
    assert [bpe_vocabulary.token_bytes[i] for i in ids] == [b"hello", b" world", b"12"]


def test_bos_comes_only_when_asked_for(bpe_tokenizer):
    assert bpe_tokenizer.encode("1", add_special=True, parse_special=False) == [START, ord("1")]
    assert bpe_tokenizer.encode("", add_special=False, parse_special=False) == []


def test_control_tokens_come_from_trusted_text_alone(bpe_tokenizer):  # R04
    text = "<|im_start|>system"
    assert bpe_tokenizer.encode(text, add_special=False, parse_special=True)[0] == START
    assert START not in bpe_tokenizer.encode(text, add_special=False, parse_special=False)


def test_random_text_is_spelled(bpe_tokenizer, bpe_vocabulary):
    random = np.random.default_rng(3)
    for _ in range(200):
        codes = random.integers(1, 0x3000, size=random.integers(0, 40))
        text = "".join(map(chr, codes))
        ids = bpe_tokenizer.encode(text, add_special=False, parse_special=True)
        assert b"".join(bpe_vocabulary.token_bytes[i] for i in ids) == text.encode()


def test_unknown_pre_tokenizer_is_a_refusal_that_names_it(reference_sandbox, reference_guest, bpe_vocabulary):  # R12
    with pytest.raises(AdmissionError, match="nonesuch") as caught:
        reference_sandbox.load_tokenizer(
            reference_guest("tokenizers/bpe"), dataclasses.replace(bpe_vocabulary, pre="nonesuch")
        )
    assert caught.value.clause == "1.15"


def random_params(random: np.random.Generator) -> SamplingParams:
    def maybe(value, off):
        return value if random.random() < 0.5 else off

    return SamplingParams(
        temperature=maybe(float(random.uniform(0.01, 2)), 0.0 if random.random() < 0.3 else 1.0),
        top_k=int(maybe(random.integers(1, 60), 0)),
        top_p=maybe(float(random.uniform(0.05, 1)), 1.0),
        min_p=maybe(float(random.uniform(0, 0.3)), 0.0),
        repetition_penalty=maybe(float(random.uniform(0.5, 2)), 1.0),
        presence_penalty=maybe(float(random.uniform(-2, 2)), 0.0),
        frequency_penalty=maybe(float(random.uniform(-2, 2)), 0.0),
        logit_bias=tuple(
            (int(i), float(random.normal())) for i in random.integers(0, VOCABULARY, random.integers(0, 4))
        ),
        seed=int(random.integers(0, 2**63)),
    )


def random_logits(random: np.random.Generator) -> np.ndarray:
    logits = random.normal(scale=random.choice([0.1, 3, 30]), size=VOCABULARY).astype(np.float32)
    for value in (np.nan, -np.inf, 0.0):
        if random.random() < 0.3:
            logits[random.integers(0, VOCABULARY, 50)] = value
    return logits


def test_no_page_is_written_into_a_new_session_of_the_standard_sampler(standard_sampler):
    assert not standard_sampler._program.patches


def test_standard_sampler_draws_what_the_hosts_own_sampler_draws(standard_sampler):
    random = np.random.default_rng(11)
    compared = differing = 0
    for choice in range(120):
        params, history = random_params(random), random.integers(0, VOCABULARY, random.integers(1, 30)).tolist()
        prompt = len(history)
        with standard_sampler.session(params, history, choices=(choice,)) as session:
            for _ in range(5):
                logits = random_logits(random)
                session.logits(0)[:] = logits
                word = draw(params.seed, choice, len(history))[0]
                expected = sample(logits, params, np.array(history, np.uint32), prompt, word)
                token = session.step()[0].tokens[0]
                compared += 1
                differing += token != expected
                session.accept(0, (token,))
                history.append(token)
    assert compared == 600
    assert differing <= 1  # two float64 exponentials may differ in the last bit, at a boundary of the draw


@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_standard_sampler_says_when_nothing_can_be_drawn(value, standard_sampler):
    with standard_sampler.session(SamplingParams(), [1]) as session:
        session.logits(0)[:] = value
        with pytest.raises(EmptyError):
            sample(session.logits(0), SamplingParams(), np.array([1], np.uint32), 1, 0)
        with pytest.raises(GuestError) as caught:
            session.step()
    assert caught.value.kind == "empty"
