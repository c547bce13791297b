"""Drawing without sorting: the very token that sorting draws, for whatever logits and parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sealhost.sandbox import SamplingParams, selection
from sealhost.sandbox.randomness import unit
from sealhost.sandbox.sampling import PLAIN, processed, sample
from sealhost.sandbox.selection import Filters, select

NONE = np.array([], dtype=np.uint32)
SIZES = (PLAIN + 1, 3000, 8192, 9001)
"""Above PLAIN, whole blocks and odd ones."""


def plain_sample(logits, params, history, prompt_length, random_word):
    """The contract's chain after the penalties, word for word: sort, add up, search."""
    scores = processed(logits, params, history, prompt_length)
    if params.temperature == 0:
        return int(scores.argmax())
    ids = np.argsort(-scores, kind="stable")
    if params.top_k > 0:
        ids = ids[: params.top_k]
    ids = ids[scores[ids] > -np.inf]
    if scores[ids[0]] == np.inf:
        weights = np.where(scores[ids] == np.inf, 1.0, 0.0)
    else:
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp((scores[ids] - scores[ids[0]]) / float(np.float32(params.temperature)))
    top_p, min_p = float(np.float32(params.top_p)), float(np.float32(params.min_p))
    if top_p < 1:
        cumulative = np.cumsum(weights)
        weights = weights[: int(np.searchsorted(cumulative, top_p * cumulative[-1], side="left")) + 1]
    weights = weights[: max(int(np.count_nonzero(weights >= min_p * weights[0])), 1)]
    cumulative = np.cumsum(weights)
    drawn = int(np.searchsorted(cumulative, unit(random_word) * cumulative[-1], side="right"))
    return int(ids[min(drawn, len(weights) - 1)])


def peaked(random, n):
    logits = random.normal(-5, 3, n)
    logits[random.integers(0, n, 20)] += 15
    return logits


def spoiled(random, n):
    logits = random.normal(0, 3, n)
    for value in (math.nan, -math.inf):
        logits[random.integers(0, n, n // 3)] = value
    return logits


def infinite(random, n):
    logits = spoiled(random, n)
    logits[random.integers(0, n, int(random.choice([1, 7, n // 2])))] = math.inf
    return logits


SHAPES = {
    "bell": lambda random, n: random.normal(0, 3, n),
    "flat": lambda random, n: np.full(n, random.normal()),
    "nearly flat": lambda random, n: random.normal(0, 10.0 ** -random.integers(1, 30), n),
    "few values": lambda random, n: random.integers(-3, 4, n) * 0.5,
    "two values": lambda random, n: random.integers(0, 2, n) * 30.0,
    "one above many equals": lambda _, n: np.where(np.arange(n) == n // 2, 9.0, 1.0),
    "one far below many equals": lambda _, n: np.where(np.arange(n) == n // 2, -3e38, 1.0),
    "a bin within a bin": lambda random, n: np.where(np.arange(n) < 9, 5.0, random.normal(0, 1e-6, n)),
    "huge": lambda random, n: random.normal(0, 1e38, n).clip(-3e38, 3e38),
    "one candidate": lambda _, n: np.where(np.arange(n) == 77, 1.0, -math.inf),
    "powers": lambda random, n: -(2.0 ** -random.integers(0, 120, n)),
    "steps of a bin's width": lambda random, n: random.integers(0, 5000, n) / -64.0,
    "peaked": peaked,
    "spoiled": spoiled,
    "infinite": infinite,
}


def any_params(random):
    pick = random.choice
    return SamplingParams(
        temperature=float(pick([1, 1, 0.7, 2, 0.01, 50, 1e-30, 3e38])),
        top_k=int(pick([0, 0, 1, 50, PLAIN, PLAIN + 1, 2999, 8000, 10**9])),
        top_p=float(pick([1, 1, 0.9, 0.5, 0.999, 1e-9, random.uniform(0.01, 1)])),
        min_p=float(pick([0, 0, 0.05, 1, 1e-3, 1e-20, random.uniform(0, 1)])),
        repetition_penalty=float(pick([1, 1, 1.3])),
        presence_penalty=float(pick([0, 0.5])),
        logit_bias=((5, -math.inf), (6, 2.5)) if random.random() < 0.2 else (),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_the_drawn_token_is_that_of_the_plain_way(shape):
    random = np.random.default_rng(sum(map(ord, shape)))
    for _ in range(80):
        logits = SHAPES[shape](random, int(random.choice(SIZES))).astype(np.float32)
        params = any_params(random)
        history = random.integers(0, PLAIN, 9).astype(np.uint32)
        for word in random.integers(0, 1 << 64, 2, dtype=np.uint64).tolist():
            assert sample(logits, params, history, 4, word) == plain_sample(logits, params, history, 4, word)


@pytest.mark.parametrize("word", [0, (1 << 64) - 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_ends_of_randomness_draw_what_the_plain_way_draws(shape, word):
    logits = SHAPES[shape](np.random.default_rng(3), 5000).astype(np.float32)
    for params in (SamplingParams(), SamplingParams(top_p=0.8, min_p=0.01)):
        assert sample(logits, params, NONE, 0, word) == plain_sample(logits, params, NONE, 0, word)


def test_a_boundary_belongs_to_the_plain_way_and_its_neighbourhood_does_not():
    scores = np.zeros(4096)
    off = Filters(1.0, 1.0, 0.0)
    assert select(scores, off, 1024.5 / 4096) == 1024
    assert select(scores, off, 1024 / 4096) is None
    assert select(scores, off, 1 - 2**-53) is None
    assert select(scores, off, 1.0) is None
    assert select(scores, off, 0.0) == 0
    assert select(scores, Filters(1.0, 0.5, 0.0), 0.3) is None  # exactly half of the candidates make half of the mass


@pytest.mark.parametrize("shape", ["bell", "peaked", "nearly flat", "few values", "a bin within a bin"])
def test_hardly_a_draw_is_left_to_the_plain_way(shape):
    random = np.random.default_rng(1)
    scores = SHAPES[shape](random, 9001)
    filters = Filters(0.8, 0.95, 0.001)
    assert [select(scores, filters, u) for u in random.random(200)].count(None) <= 1


def test_where_rounding_could_decide_the_plain_way_decides(monkeypatch):
    monkeypatch.setattr(selection, "_SERIES_ERROR", 2.0)  # nothing is sure any more
    logits = np.random.default_rng(2).normal(0, 3, 5000).astype(np.float32)
    scores = logits.astype(np.float64)
    assert select(scores, Filters(1.0, 1.0, 0.0), 0.5) is None
    assert select(scores, Filters(1.0, 0.9, 0.0), 0.5) is None
    word = 1 << 63
    assert sample(logits, SamplingParams(), NONE, 0, word) == plain_sample(logits, SamplingParams(), NONE, 0, word)
