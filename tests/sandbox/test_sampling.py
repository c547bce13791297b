"""The host's own sampler: order of the chain, edges, and the cases from the field."""

from __future__ import annotations

import dataclasses
import math
import struct

import numpy as np
import pytest

from sealhost.sandbox import SamplingParams, SandboxError
from sealhost.sandbox.randomness import ahead, begun, draw, unit
from sealhost.sandbox.sampling import EmptyError, processed, sample

NAN, INF = math.nan, math.inf
NONE = np.array([], dtype=np.uint32)


def row(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def ids(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint32)


def word(u: float) -> int:
    """A random word whose unit value is `u`."""
    return int(u * 2**53) << 11


def support(logits: np.ndarray, params: SamplingParams, history: np.ndarray = NONE, prompt: int = 0) -> list[int]:
    """Ids that some random word draws."""
    return sorted({sample(logits, params, history, prompt, word(u)) for u in np.linspace(0, 0.9999999, 401)})


GREEDY = {
    "largest": (row(1, 3, 2), 1),
    "lowest id of equals": (row(1, 3, 3), 1),
    "infinity wins": (row(1, INF, 3), 1),
    "not a number loses": (row(NAN, -5, NAN), 1),
    "all the same": (row(0, 0, 0), 0),
}


@pytest.mark.parametrize("name", GREEDY)
def test_temperature_zero_takes_the(name):
    logits, expected = GREEDY[name]
    assert sample(logits, SamplingParams(temperature=0), NONE, 0, word(0.9)) == expected


@pytest.mark.parametrize("logits", [row(-INF, -INF), row(NAN, NAN), row(NAN, -INF)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_row_without_a_candidate_is_empty(logits, temperature):
    with pytest.raises(EmptyError):
        sample(logits, SamplingParams(temperature=temperature), NONE, 0, 0)


def test_row_that_the_bias_empties_is_empty():
    with pytest.raises(EmptyError):
        sample(row(1, INF), SamplingParams(logit_bias=((0, -INF), (1, -INF))), NONE, 0, 0)


@pytest.mark.parametrize("logits", [row(10, 0, -10), row(1e4, -1e4), row(3e38, -3e38), row(INF, 0)])
@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1e-4},
        {"top_p": 1e-4},
        {"temperature": 1e-4, "top_p": 1e-4},
        {"temperature": 1e-44},
        {"min_p": 1},
    ],
)
def test_tiny_parameters_choose_the_likeliest_and_never_nan(logits, params):  # R32
    assert support(logits, SamplingParams(**params)) == [0]


@pytest.mark.parametrize("top_k", [0, -1, 5, 6, 9_999_999, 1 << 70])
def test_top_k_of_none_or_all_is_off(top_k):  # R30
    assert support(row(1, 2, 3, 4, 0), SamplingParams(top_k=top_k)) == [0, 1, 2, 3, 4]


def test_top_k_keeps_the_k_likeliest_with_ties_by_id():
    assert support(row(1, 5, 5, 5, 0), SamplingParams(top_k=2)) == [1, 2]


def test_top_k_larger_than_the_candidates_keeps_them():
    assert support(row(1, -INF, -INF, 1), SamplingParams(top_k=3)) == [0, 3]


def test_top_p_keeps_the_shortest_prefix_that_reaches_it():
    logits = np.log(row(0.5, 0.3, 0.2))
    assert support(logits, SamplingParams(top_p=0.49)) == [0]
    assert support(logits, SamplingParams(top_p=0.6)) == [0, 1]
    assert support(logits, SamplingParams(top_p=0.81)) == [0, 1, 2]
    assert support(logits, SamplingParams(top_p=1)) == [0, 1, 2]


def test_min_p_is_relative_to_the_likeliest():  # R34
    logits = np.log(row(0.5, 0.3, 0.2))
    assert support(logits, SamplingParams(min_p=0.5)) == [0, 1]
    assert support(row(2, 2, 2), SamplingParams(min_p=1)) == [0, 1, 2]


def test_all_filters_together_leave_a_token():  # R34
    params = SamplingParams(temperature=0.01, top_k=1, top_p=1e-9, min_p=1.0)
    assert support(row(1, 1, 1), params) == [0]


def test_penalties_see_the_tokens_that_they_should():  # R40
    logits = np.zeros(80, np.float32)
    logits[65], logits[66] = 4.0, -4.0
    prompt = ids(65, 66)
    with_both = SamplingParams(presence_penalty=2, frequency_penalty=2)
    assert processed(logits, with_both, prompt, 2)[[65, 66]].tolist() == [4.0, -4.0]
    repeated = SamplingParams(repetition_penalty=2)
    assert processed(logits, repeated, prompt, 2)[[65, 66]].tolist() == [2.0, -8.0]
    generated = ids(65, 66, 65, 65)
    assert processed(logits, with_both, generated, 2)[[65, 66]].tolist() == [4.0 - 2 - 4, -4.0]


def test_repetition_penalty_counts_a_token_once():
    assert processed(row(4, 1), SamplingParams(repetition_penalty=2), ids(0, 0, 0), 1)[0] == 2


def test_bias_comes_before_the_penalty_and_minus_infinity_forbids():
    params = SamplingParams(logit_bias=((0, 3.0), (0, 1.0), (1, -INF)), repetition_penalty=2)
    assert processed(row(4, INF, 1), params, ids(0), 1).tolist() == [4.0, -INF, 1.0]


def test_parameters_are_rounded_to_float32_as_the_row_carries_them():
    params = SamplingParams(presence_penalty=0.1, logit_bias=((1, 0.1),))
    scores = processed(row(0, 0), params, ids(0), 0)
    assert scores.tolist() == [-float(np.float32(0.1)), float(np.float32(0.1))]


def test_drawn_frequencies_follow_the_softmax():
    logits = np.log(row(0.6, 0.3, 0.1))
    words = [draw(1, 0, position)[0] for position in range(8_000)]
    counts = np.bincount([sample(logits, SamplingParams(), NONE, 0, w) for w in words], minlength=3)
    assert np.abs(counts / 8_000 - [0.6, 0.3, 0.1]).max() < 0.02


def test_temperature_flattens_and_sharpens():
    logits = np.log(row(0.6, 0.3, 0.1))
    hot = [sample(logits, SamplingParams(temperature=100), NONE, 0, word(u)) for u in np.linspace(0, 0.999, 900)]
    cold = [sample(logits, SamplingParams(temperature=0.2), NONE, 0, word(u)) for u in np.linspace(0, 0.999, 900)]
    assert 280 < hot.count(0) < 330
    assert cold.count(0) > 850


@pytest.mark.parametrize(("u", "expected"), [(0.0, 1), (0.49, 1), (0.51, 0), (0.74, 0), (0.76, 2), (1 - 2**-53, 2)])
def test_candidates_stand_in_descending_order_with_ties_by_id(u, expected):
    assert sample(np.log(row(0.25, 0.5, 0.25)), SamplingParams(), NONE, 0, word(u)) == expected


@pytest.mark.parametrize(("u", "expected"), [(0.0, 0), (0.25 - 2**-53, 0), (0.25, 1), (0.5, 2), (0.75, 3)])
def test_first_candidate_whose_cumulative_probability_exceeds_u_is_drawn(u, expected):
    assert sample(row(1, 1, 1, 1), SamplingParams(), NONE, 0, word(u)) == expected


def test_randomness_is_a_function_of_seed_choice_and_position():
    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(s, c, p) for s in range(4) for c in range(4) for p in range(4)}) == 64
    assert draw(0, 0, 0) == (9819966136895938196, 1760945046568759569)  # pinned: seeds must keep their tokens
    assert draw(7, 1, 12) == (3494524407733243894, 6407674697988999069)
    assert unit(2**64 - 1) == 1 - 2**-53


def test_randomness_that_is_made_ahead_is_that_of_each_position():
    words = [struct.unpack("<QQ", one) for one in ahead(begun(7, 1), 10, 5)]
    assert words == [draw(7, 1, position) for position in range(10, 15)]


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -0.1}, {"temperature": NAN}, {"temperature": INF}, {"temperature": 1e39}, {"top_p": 0}, {"top_p": 1.5}, {"top_p": NAN},
        {"min_p": -0.1}, {"min_p": 1.5}, {"repetition_penalty": 0}, {"repetition_penalty": -1}, {"repetition_penalty": NAN},
        {"presence_penalty": INF}, {"frequency_penalty": NAN}, {"seed": -1}, {"seed": 1 << 64},
        {"logit_bias": ((-1, 0.0),)}, {"logit_bias": ((1, NAN),)}, {"logit_bias": ((1, INF),)},
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused_by_name(bad):
    with pytest.raises(SandboxError, match=next(iter(bad))):
        SamplingParams(**bad)


def drawn_or_none(*arguments, **keywords) -> int | None:
    try:
        return sample(*arguments, **keywords)
    except EmptyError:
        return None


def test_masked_draw_is_that_of_the_whole_row_with_the_others_forbidden():
    numbers = np.random.default_rng(8)
    drawn = empty = 0
    for _ in range(600):
        size = int(numbers.choice([10, 300, 5000]))
        logits = numbers.normal(0, 3, size).astype(np.float32)
        logits[numbers.random(size) < numbers.choice([0, 0.5])] = numbers.choice([np.nan, INF])
        allowed = numbers.random(size) < numbers.choice([0.01, 0.3, 0.9])
        allowed[0] |= not allowed.any()
        params = SamplingParams(
            temperature=float(numbers.choice([0, 0.7, 3])), top_k=int(numbers.choice([0, 5, 400])),
            top_p=float(numbers.choice([1, 0.8])), min_p=float(numbers.choice([0, 0.1])), presence_penalty=1.0,
            repetition_penalty=1.5, logit_bias=tuple((int(t), -INF) for t in numbers.choice(size, 3, replace=False)),
        )  # fmt: skip
        history, word = numbers.integers(0, size, 8).astype(np.uint32), int(numbers.integers(0, 1 << 63)) * 2
        bias = np.array([(1, 2.0), (2, -INF)], [("id", "<u4"), ("bias", "<f4")])
        forbidden = tuple((int(token), -INF) for token in np.flatnonzero(~allowed))
        plain = dataclasses.replace(params, logit_bias=(*params.logit_bias, (1, 2.0), (2, -INF), *forbidden))
        found = drawn_or_none(logits, params, history, 3, word, allowed=allowed, bias=bias)
        assert found == drawn_or_none(logits, plain, history, 3, word)
        empty += found is None
        drawn += found is not None
    assert drawn > 300
    assert empty > 5


@pytest.mark.parametrize("temperature", [5e-324, 1e-46])
def test_a_temperature_that_is_zero_as_a_float32_is_greedy(temperature: float) -> None:
    logits = np.array([1, 5, 2, 4], np.float32)
    mask = np.array([True, False, True, True])
    params = SamplingParams(temperature=temperature)
    for u in (0.0, 0.5, 0.999):
        assert sample(logits, params, NONE, 0, word(u)) == 1
        assert sample(logits, params, NONE, 0, word(u), allowed=mask) == 3
