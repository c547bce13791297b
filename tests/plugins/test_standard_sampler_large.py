"""The standard sampler on rows of large vocabularies, where the few hundred best do not decide: against the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from configured_reference import configured
from plugin_harness import Parameters
from sampler_reference import drawn, survivors
from test_standard_sampler import INF, u64
from test_standard_sampler_configured import written

QUICK, LONG = 40, 1500
SIZES = [9_001, 20_000, 49_152, 131_072]


def row_of(chance: np.random.Generator, size: int) -> np.ndarray:
    """Logits as models and misuse make them: flat, with a head, tied, rounded to bfloat16, masked, far from 0, equal."""
    x = chance.normal(0, chance.choice([0.01, 0.5, 1.5, 3]), size)
    kind = int(chance.integers(9))
    if kind == 0:
        x[chance.integers(0, size, 20)] += chance.uniform(4, 12, 20)
    elif kind == 1:
        x = np.round(x * 4) / 4
    elif kind == 2:
        x = (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    elif kind == 3:
        x[chance.random(size) < 0.9] = -INF
    elif kind == 4:
        x = x - chance.choice([1e3, -1e3, 3e4])
    elif kind == 5:
        x[:] = x[0]
        x[chance.integers(0, size, int(chance.integers(0, 3)))] += 1
    elif kind == 6:
        x[chance.random(size) < 0.1] = np.nan
    elif kind == 7:
        x = x * chance.choice([1e-4, 50])
    return x.astype(np.float32)


def asked(chance: np.random.Generator, size: int) -> Parameters:
    history = chance.integers(0, size, 40).tolist() if chance.random() < 0.3 else []
    return Parameters(
        temperature=float(chance.choice([0.05, 0.6, 1, 1, 1.7, 5, 300])),
        repetition=float(chance.choice([1, 1.3])),
        presence=float(chance.choice([0, 0.7])),
        prompt=tuple(history[:20]),
        generated=tuple(history[20:]),
        bias=((int(chance.integers(size)), float(chance.choice([3, -INF, -40]))),) if chance.random() < 0.3 else (),
        random=u64(float(chance.choice([chance.random(), 1 - chance.random() / 100, 0, 1 - 2**-53]))),
        second=int(chance.integers(0, 2**64, dtype=np.uint64)),
    )


def filtered(chance: np.random.Generator, size: int) -> dict[str, Any]:
    def perhaps(values: list[float], off: float) -> float:
        return float(chance.choice(values)) if chance.random() < 0.3 else off

    return {
        "top_k": int(perhaps([40, 700, 3000, size // 2], 0)),
        "top_p": perhaps([0.2, 0.9, 0.999], 1),
        "min_p": perhaps([1e-5, 1e-3, 0.1], 0),
    }


CONFIGS: list[dict[str, Any]] = [
    {"dynatemp_range": 0.5},
    {"dynatemp_range": 1.5, "dynatemp_exponent": 2.5},
    {"typical_p": 0.9},
    {"typical_p": 0.2},
    {"typical_p": 0.995},
    {"xtc_probability": 1},
    {"xtc_probability": 1, "xtc_threshold": 1e-5},
    {"mirostat": 2},
    {"mirostat": 2, "mirostat_tau": 7},
    {"typical_p": 0.7, "dynatemp_range": 0.5},
    {"dynatemp_range": 0.5, "typical_p": 0.7, "samplers": ["temperature", "typ_p"]},
    {"dynatemp_range": 0.5, "top_n_sigma": 2, "samplers": ["temperature", "top_n_sigma"]},
    {"typical_p": 0.8, "xtc_probability": 1, "xtc_threshold": 1e-3, "top_n_sigma": 3},
    {"top_n_sigma": 4},
    {"top_n_sigma": 1},
    {"samplers": ["top_p", "temperature"]},
    {"samplers": ["top_p", "penalties", "min_p", "temperature"]},
    {"dynatemp_range": 0.5, "samplers": ["temperature", "penalties"]},
    {"typical_p": 0.8, "samplers": ["typ_p", "penalties", "temperature"]},
]


def compare_plain(sampler, chance: np.random.Generator, cases: int) -> int:
    compared = 0
    for case in range(cases):
        size = int(chance.choice(SIZES))
        logits = row_of(chance, size)
        parameters = replace(asked(chance, size), **filtered(chance, size))
        who = survivors(logits, parameters)
        if who is not None and not who.on_boundary:
            compared += 1
            assert sampler.draw(logits, parameters) in drawn(who, parameters.u), (case, parameters)
        assert sampler.logits_of(0, size) == logits.tobytes() or who is None
    return compared


def compare_configured(sampler, chance: np.random.Generator, cases: int) -> int:
    compared = 0
    for case in range(cases):
        size = int(chance.choice(SIZES))
        logits, config = row_of(chance, size), CONFIGS[case % len(CONFIGS)]
        top_p = float(chance.choice([1, 1, 0.3, 0.9, 0.999]))
        parameters = replace(asked(chance, size), top_p=top_p, config=written(config))
        who = configured(logits, parameters, config, 2 * config.get("mirostat_tau", 5))
        if who is None or who.on_boundary:
            continue
        compared += 1
        for u in (parameters.random, 0, 2**64 - 1):
            at = replace(parameters, random=u)
            assert sampler.draw(logits, at) in drawn(who, at.u), (case, config, at)
        assert sampler.logits_of(0, size) == logits.tobytes()
    return compared


def test_draws_from_large_rows_are_those_of_the_reference(sampler):
    assert compare_plain(sampler, np.random.default_rng(80), QUICK) > QUICK * 0.6


def test_configured_draws_from_large_rows_are_those_of_the_reference(sampler):
    assert compare_configured(sampler, np.random.default_rng(81), QUICK) > QUICK * 0.4


def test_what_typical_keeps_is_right_beside_every_border_of_the_spectrum(sampler):
    # so far from 0 logits have few bits left, the spectrum's error is large, and shares lie just beside its bins' sums
    logits = (np.random.default_rng(0).normal(0, 3, 9_001) - 3e4).astype(np.float32)
    depth = (logits.max() - logits).astype(np.float64)
    weights = np.exp(-depth)
    distance = np.abs(depth - (weights * depth).sum() / weights.sum())
    order = np.lexsort((np.arange(len(depth)), distance))
    shares = np.cumsum(weights[order]) / weights.sum()
    for place in range(200, 1500, 3):
        share = round(float(shares[place]) * (1 + 3e-5 * (-1) ** place), 9)
        kept = order[: int(np.searchsorted(shares, share)) + 1]
        last = kept[np.lexsort((kept, -logits[kept]))[-1]]
        asked = Parameters(config=written({"typical_p": share}), random=2**64 - 1)
        assert sampler.draw(logits, asked) == last, share


def negative_nan(row: np.ndarray) -> None:
    row.view(np.uint32)[::97] = 0xFFC0_0001


def deep(row: np.ndarray) -> None:
    row[8_000] = -3e3


def without_range(row: np.ndarray) -> None:
    row[::50] = -3.4e38


def masked(row: np.ndarray) -> None:
    row[::3] = -INF


def far(row: np.ndarray) -> None:
    row -= np.float32(2_000)


def strewn_at_the_floor(row: np.ndarray) -> None:
    floor = row.astype(np.float64).max() - 1.7 * row.astype(np.float64).std()
    row[500:1_500] = floor + np.linspace(-0.02, 0.02, 1_000)


@pytest.mark.parametrize("bias", [(), ((70, -3e38), (71, -100))], ids=["", "bias"])
@pytest.mark.parametrize("top_k", [0, 30])
@pytest.mark.parametrize(
    "change", [negative_nan, deep, without_range, masked, far, strewn_at_the_floor], ids=lambda f: f.__name__
)
def test_the_floor_of_top_n_sigma_is_exact_wherever_logits_lie(sampler, change, top_k, bias):
    chance = np.random.default_rng(84)
    for size in (200, 9_001, 20_000):
        logits = chance.normal(0, 2, size).astype(np.float32)
        if size > 9_000:
            change(logits)
        for n in (0.5, 1.7, 3):
            config = {"top_n_sigma": n}
            asked = Parameters(top_k=top_k, bias=bias, config=written(config), random=2**64 - 1)
            who = configured(logits, asked, config)
            assert sampler.draw(logits, asked) in drawn(who, asked.u), n  # the last one that is kept
            assert sampler.draw(logits, replace(asked, temperature=1e6)) == who.ids[-1]


@pytest.mark.soak
@pytest.mark.parametrize("compare", [compare_plain, compare_configured])
def test_many_draws_from_large_rows_are_those_of_the_reference(sampler, compare):
    assert compare(sampler, np.random.default_rng(82), LONG) > LONG * 0.4
