"""The standard sampler's configured chain: its draws and filtered sets against a float64 reference."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from configured_reference import ORDER, configured
from plugin_harness import GuestRefusedError, Parameters
from sampler_reference import BOUNDARY, drawn
from test_standard_sampler import EMPTY, SHARES, SIZES, random_logits, random_parameters, u64

QUICK, LONG = 400, 10_000


def written(config: dict[str, Any]) -> bytes:
    """As the host writes it."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def random_config(chance: np.random.Generator, size: int) -> dict[str, Any]:
    config: dict[str, Any] = {}

    def sometimes(share: float, name: str, values: list[Any]) -> None:
        if chance.random() < share:
            config[name] = values[int(chance.integers(len(values)))]

    sometimes(0.3, "dynatemp_range", [0, 0.3, 0.5, 2])
    sometimes(0.3, "dynatemp_exponent", [0, 0.5, 1, 2.5])
    sometimes(0.4, "typical_p", [0, 1e-9, 0.2, 0.5, 0.9, 0.999, 1])
    sometimes(0.4, "top_n_sigma", [0, 0.1, 1, 1.5, 3])
    sometimes(0.4, "xtc_probability", [0, 0.5, 1])
    sometimes(0.4, "xtc_threshold", [0, 0.01, 0.1, 0.3, 0.5, 0.7, 1])
    sometimes(0.4, "dry_multiplier", [0, 0.8, 5, 1e3])
    sometimes(0.4, "dry_base", [1, 1.2, 1.75, 4])
    sometimes(0.4, "dry_allowed_length", [1, 2, 3])
    sometimes(0.3, "dry_penalty_last_n", [-1, 0, 1, 5, 1000])
    sometimes(0.3, "dry_sequence_breakers", [[], [0], [1, 2], [size, 4_000_000_000]])
    sometimes(0.15, "mirostat", [0, 2])
    sometimes(0.3, "mirostat_tau", [0, 1, 3.5, 5, 12])
    if chance.random() < 0.5:
        order = [name for name in ORDER if chance.random() < 0.9]
        chance.shuffle(order)
        config["samplers"] = order
    return config or {"xtc_probability": 0.25}


def random_case(chance: np.random.Generator) -> tuple[np.ndarray, Parameters, dict[str, Any]]:
    size = int(chance.choice(SIZES, p=SHARES))
    config = random_config(chance, size)
    parameters = replace(
        random_parameters(chance, size),
        config=written(config),
        second=int(chance.integers(0, 2**64, dtype=np.uint64)),
    )
    if chance.random() < 0.5:  # a history that repeats itself
        motif = chance.integers(0, min(size, 4), int(chance.integers(1, 12))).tolist()
        parameters = replace(parameters, prompt=tuple(motif), generated=tuple(motif[: int(chance.integers(12))]))
    return random_logits(chance, size), parameters, config


def compare(sampler, chance: np.random.Generator, cases: int) -> int:
    compared = 0
    for case in range(cases):
        logits, parameters, config = random_case(chance)
        who = configured(logits, parameters, config, 2 * config.get("mirostat_tau", 5))
        if who is None:
            with pytest.raises(GuestRefusedError) as refusal:
                sampler.draw(logits, parameters)
            assert refusal.value.args[0] == EMPTY
        elif who.on_boundary:
            continue
        else:
            compared += 1
            first, last = replace(parameters, random=0), replace(parameters, random=2**64 - 1)
            assert sampler.draw(logits, first) == who.ids[0], (case, parameters, config)  # where the set begins
            assert sampler.draw(logits, last) in drawn(who, last.u), (case, parameters, config)  # where it ends
            assert sampler.draw(logits, parameters) in drawn(who, parameters.u), (case, parameters, config)
        assert sampler.logits_of(0, len(logits)) == logits.tobytes()  # clause 2.9
    return compared


def test_random_configured_draws_are_those_of_the_float64_reference(sampler):
    assert compare(sampler, np.random.default_rng(40), QUICK) >= QUICK * 0.7


@pytest.mark.soak
def test_ten_thousand_random_configured_draws_are_those_of_the_float64_reference(sampler):
    assert compare(sampler, np.random.default_rng(41), LONG) >= LONG * 0.7


def shares_are_exact(sampler, logits: np.ndarray, parameters: Parameters, config: dict[str, Any]) -> int:
    """Draws in the middle of each share and just inside both of its ends."""
    parameters = replace(parameters, config=written(config))
    who = configured(logits, parameters, config, 2 * config.get("mirostat_tau", 5))
    if who is None or who.on_boundary:
        return 0
    starts = np.concatenate([[0], who.cumulative[:-1]])
    for token, start, stop in zip(who.ids.tolist(), starts, who.cumulative, strict=True):
        for u in (start + 2 * BOUNDARY, (start + stop) / 2, stop - 2 * BOUNDARY):
            if stop - start > 8 * BOUNDARY:
                assert sampler.draw(logits, replace(parameters, random=u64(u))) == token, (config, parameters)
    return len(who.ids)


def test_every_survivor_of_a_configured_chain_has_exactly_the_references_share(sampler):
    chance, seen = np.random.default_rng(42), 0
    for _ in range(60):
        logits, config = random_logits(chance, 24), random_config(chance, 24)
        parameters = replace(random_parameters(chance, 24), temperature=float(chance.choice([0.5, 1, 2])))
        seen += shares_are_exact(sampler, logits, parameters, config)
    assert seen > 200


ALONE = [
    {"dynatemp_range": 0.5},
    {"dynatemp_range": 0.5, "dynatemp_exponent": 2},
    {"typical_p": 0.7},
    {"top_n_sigma": 1.2},
    {"xtc_probability": 1, "xtc_threshold": 0.05},
    {"dry_multiplier": 0.8},
    {"mirostat": 2, "mirostat_tau": 2},
]


@pytest.mark.parametrize("config", ALONE, ids=lambda config: next(iter(config)))
@pytest.mark.parametrize("order", [None, [*ORDER[-1:], *ORDER[:-1]]], ids=["temperature last", "temperature first"])
def test_each_stage_alone_gives_the_references_distribution_in_a_large_vocabulary(sampler, config, order):
    chance = np.random.default_rng(43)
    logits = chance.normal(0, 1.5, 20_011).astype(np.float32)
    logits[::1000] += np.linspace(6, 14, 21).astype(np.float32)
    config = config if order is None else {**config, "samplers": order}
    repeated = (5, 0, 1000, 2000, 7, 0, 1000)
    parameters = Parameters(temperature=0.8, prompt=repeated, generated=(2000, 9, 0, 1000), config=written(config))
    who = configured(logits, parameters, config, 2 * config.get("mirostat_tau", 5))
    assert not who.on_boundary
    for u in (0.0, 0.1, 0.4, 0.7, 0.9, 0.97, 0.999, 1 - 2**-53):
        asked = replace(parameters, random=u64(u))
        assert sampler.draw(logits, asked) in drawn(who, u)


@pytest.mark.parametrize("config", [{"typical_p": 0.9}, {"typical_p": 0.2}, {"samplers": ["top_p", "temperature"]}])
@pytest.mark.parametrize("temperature", [1e-4, 1e-3, 5e-3, 0.02, 0.1])
def test_any_low_temperature_draws_from_what_was_kept_at_1(sampler, config, temperature):
    chance = np.random.default_rng(45)
    for size in [100, 321] * 8 + [5_000]:
        logits = chance.normal(0, chance.choice([0.3, 1, 3]), size).astype(np.float32)
        asked = Parameters(temperature=temperature, top_p=0.7 if "samplers" in config else 1, config=written(config))
        who = configured(logits, asked, config)
        for u in (0, 0.3, 0.9):
            at = replace(asked, random=u64(u))
            assert who.on_boundary or sampler.draw(logits, at) in drawn(who, at.u), (size, u)


def test_which_ids_each_penalty_sees_in_a_configured_chain(sampler):
    # logits 4.0 and -4.0, both in the prompt, none generated: presence and frequency leave them, repetition does not
    logits = np.full(67, -100, np.float32)
    logits[65], logits[66] = 4.0, -4.0
    config = {"samplers": ["penalties"]}
    untouched = Parameters(presence=2, frequency=2, prompt=(65, 66))
    for parameters, gap in ((untouched, 8), (replace(untouched, repetition=2), 10)):
        who = configured(logits, parameters, config)
        assert who.cumulative[0] == pytest.approx(1 / (1 + np.exp(-gap)))
        assert shares_are_exact(sampler, logits, parameters, config) == 67


def test_an_empty_configuration_is_none(sampler):
    chance = np.random.default_rng(44)
    for _ in range(50):
        logits, parameters = random_logits(chance, 321), random_parameters(chance, 321)
        assert sampler.draw(logits, parameters) == sampler.draw(logits, replace(parameters, config=b"{}"))
