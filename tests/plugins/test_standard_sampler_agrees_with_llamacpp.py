"""The float64 reference of the configured chain against llama.cpp's own samplers: the same sets, the same probabilities.

The guest is held to the reference elsewhere; this says that the reference means what the peer means.
"""

from __future__ import annotations

import ctypes
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from configured_reference import BREAKERS, configured, repeats
from plugin_harness import Parameters

pytestmark = pytest.mark.oracle

TOKEN_DATA = np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")])
CASES, SIZE = 200, 300
NEAR = 2e-4
"""llama.cpp computes in float32: relative error of a probability, and how near to a bound either answer is right."""


@pytest.fixture(scope="module")
def peer():
    return pytest.importorskip("llama_cpp")


def applied(peer, sampler: Any, logits: np.ndarray, history: tuple[int, ...] = ()) -> dict[int, float]:
    """Probabilities of what one of its samplers leaves."""
    data = np.zeros(len(logits), TOKEN_DATA)
    data["id"], data["logit"] = np.arange(len(logits)), logits
    pointer = data.ctypes.data_as(ctypes.POINTER(peer.llama_token_data))
    array = peer.llama_token_data_array(pointer, len(data), -1, False)
    for token in history:
        peer.llama_sampler_accept(sampler, token)
    peer.llama_sampler_apply(sampler, ctypes.byref(array))
    peer.llama_sampler_free(sampler)
    left = data if array.data.contents.id == data[0]["id"] and array.size == len(data) else None
    count = int(array.size)
    if left is None:
        address = ctypes.cast(array.data, ctypes.c_void_p).value
        left = np.ctypeslib.as_array((ctypes.c_uint8 * (12 * count)).from_address(address)).view(TOKEN_DATA)
    left = left[:count][left[:count]["logit"] > -np.inf]
    weights = np.exp(left["logit"].astype(np.float64) - left["logit"].max())
    return dict(zip(left["id"].tolist(), (weights / weights.sum()).tolist(), strict=True))


def same(who, theirs: dict[int, float]) -> bool:
    shares = np.diff(who.cumulative, prepend=0)
    ours = dict(zip(who.ids.tolist(), shares.tolist(), strict=True))
    return ours.keys() == theirs.keys() and all(
        abs(share - theirs[token]) <= NEAR * (share + theirs[token]) + 1e-7 for token, share in ours.items()
    )


STAGES = {
    "typical": lambda peer, v: (peer.llama_sampler_init_typical(v, 1), {"typical_p": v}),
    "top_n_sigma": lambda peer, v: (peer.llama_sampler_init_top_n_sigma(3 * v), {"top_n_sigma": 3 * v}),
    "xtc": lambda peer, v: (
        peer.llama_sampler_init_xtc(1.0, v / 4, 1, 0),
        {"xtc_probability": 1, "xtc_threshold": v / 4},
    ),
    "dynamic temperature": lambda peer, v: (
        peer.llama_sampler_init_temp_ext(1.0, v, 0.5 + v),
        {"dynatemp_range": v, "dynatemp_exponent": 0.5 + v},
    ),
    "mirostat": lambda peer, v: (
        peer.llama_sampler_init_mirostat_v2(0, 4 * v, 0.1),
        {"mirostat": 2, "mirostat_tau": 4 * v},
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_leaves_what_the_peers_leaves(peer, stage):
    chance, agreed = np.random.default_rng(70), 0
    for _ in range(CASES):
        logits = chance.normal(0, chance.choice([0.5, 1.5, 4]), SIZE).astype(np.float32)
        value = float(np.float32(chance.uniform(0.02, 0.98)))
        sampler, config = STAGES[stage](peer, value)
        who = configured(logits, Parameters(), config, 2 * config.get("mirostat_tau", 0))
        agreed += same(who, applied(peer, sampler, logits))
    assert agreed >= 0.97 * CASES  # the rest lies at a bound, where float32 decides otherwise


def test_the_penalties_are_the_peers(peer):
    chance = np.random.default_rng(71)
    for _ in range(CASES):
        logits = chance.normal(0, 3, SIZE).astype(np.float32)
        history = tuple(chance.integers(0, 20, 40).tolist())
        rate, frequency, presence = (float(np.float32(value)) for value in chance.uniform(0.1, 2, 3))
        sampler = peer.llama_sampler_init_penalties(SIZE, 64, rate, frequency, presence)
        asked = Parameters(repetition=rate, frequency=frequency, presence=presence, generated=history)
        who = configured(logits, asked, {"samplers": ["penalties"]})
        assert same(who, applied(peer, sampler, logits, history))


@pytest.mark.parametrize("breakers", [[], [3], [0, 1]])
def test_dry_is_the_peers(peer, smollm2_gguf, breakers):
    parameters = peer.llama_model_default_params()
    parameters.vocab_only = True
    chance, acted = np.random.default_rng(72), 0
    model = peer.llama_model_load_from_file(str(smollm2_gguf).encode(), parameters)
    with closing(_Freed(peer, model)):
        vocabulary = peer.llama_model_get_vocab(model)
        piece = ctypes.create_string_buffer(64)
        texts = []
        for token in range(40, 44):  # ids whose text is one token, and begins no other
            peer.llama_token_to_piece(vocabulary, token, piece, 64, 0, False)
            texts.append(piece.value)
        for _ in range(CASES):
            logits = chance.normal(0, 3, SIZE).astype(np.float32)
            history = tuple((40 + chance.integers(0, 5, 40)).tolist())
            base, allowed = float(np.float32(chance.uniform(1, 2))), int(chance.integers(1, 4))
            last = int(chance.choice([40, 20, 7]))
            words = (ctypes.c_char_p * len(breakers))(*(texts[breaker] for breaker in breakers))
            sampler = peer.llama_sampler_init_dry(vocabulary, 0.8, base, allowed, last, words, len(breakers))
            config = {
                "dry_multiplier": float(np.float32(0.8)),
                "dry_base": base,
                "dry_allowed_length": allowed,
                "dry_penalty_last_n": last,
                "dry_sequence_breakers": [40 + breaker for breaker in breakers],
                "samplers": ["dry"],
            }
            who = configured(logits, Parameters(generated=history), config)
            plain = configured(logits, Parameters(), {"samplers": []})
            assert same(who, applied(peer, sampler, logits, history))
            acted += who.cumulative.tolist() != plain.cumulative.tolist()
    assert acted > CASES / 8


PIECES = ["q", "x", "z", "j", " it", " the", ":", "\n", " at", "at", "he", '"', " *", "."]
SPELLED = [
    None,
    ["qx", "tq"],
    ["he", "zqj"],
    ["\n", "x"],
    [" itq", "jz", "z"],
    ["t:", "e:"],
    [".q", "zx", "xz", "jq", "qj"],
]


@pytest.mark.parametrize("breakers", SPELLED)
def test_dry_breaks_at_the_peers_texts(peer, smollm2_gguf, breakers):
    parameters = peer.llama_model_default_params()
    parameters.vocab_only = True
    chance, acted, broke, size = np.random.default_rng(73), 0, 0, 4000
    model = peer.llama_model_load_from_file(str(smollm2_gguf).encode(), parameters)
    with closing(_Freed(peer, model)):
        vocabulary = peer.llama_model_get_vocab(model)
        words = _words(peer, vocabulary, size)
        ids = [token for token, word in words.items() if word.decode(errors="ignore") in PIECES]
        assert len(ids) >= len(PIECES) - 1
        given = list(BREAKERS) if breakers is None else breakers
        texts = (ctypes.c_char_p * len(given))(*(text.encode() for text in given))
        for _ in range(CASES):
            logits = chance.normal(0, 3, size).astype(np.float32)
            motif = chance.choice(ids, int(chance.integers(3, 9))).tolist()
            history = tuple((motif * 9)[: int(chance.integers(8, 40))])
            allowed, last = int(chance.integers(1, 4)), int(chance.choice([40, 20]))
            sampler = peer.llama_sampler_init_dry(vocabulary, 0.8, 1.2, allowed, last, texts, len(given))
            config = {"dry_multiplier": float(np.float32(0.8)), "dry_base": float(np.float32(1.2))}
            config |= {"dry_allowed_length": allowed, "dry_penalty_last_n": last, "samplers": ["dry"]}
            unbroken = repeats(list(history), {**config, "dry_sequence_breakers": []})
            if breakers is not None:
                config["dry_sequence_breakers"] = breakers
            who = configured(logits, Parameters(generated=history), config, words=words)
            assert same(who, applied(peer, sampler, logits, history)), (history, config)
            found = repeats(list(history), config, words)
            acted += bool(found)
            broke += found != unbroken
    assert min(acted, broke) > CASES / 20


def _words(peer: Any, vocabulary: Any, size: int) -> dict[int, bytes]:
    """What its first tokens spell."""
    piece, words = ctypes.create_string_buffer(256), {}
    for token in range(size):
        length = peer.llama_token_to_piece(vocabulary, token, piece, 256, 0, False)
        words[token] = piece.raw[: max(length, 0)]
    return words


class _Freed:
    """A model that is freed at the end."""

    def __init__(self, peer: Any, model: Any) -> None:
        self.peer, self.model = peer, model

    def close(self) -> None:
        self.peer.llama_model_free(self.model)
