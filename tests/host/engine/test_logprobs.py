"""Log-probabilities, for good and for broken logits."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sealhost.host.engine.logprobs import LOGPROB_FLOOR, log_softmax, token_logprobs

INF, NAN = np.inf, np.nan


def test_they_are_the_logarithm_of_the_softmax():
    logits = np.float32([1, 2, 3, -4])
    shares = np.exp(logits.astype(np.float64))
    np.testing.assert_allclose(log_softmax(logits), np.log(shares / shares.sum()), rtol=1e-12)


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([0, -INF], [0, LOGPROB_FLOOR]),
        ([0, NAN, 0], [-math.log(2), LOGPROB_FLOOR, -math.log(2)]),
        ([NAN, NAN], [LOGPROB_FLOOR, LOGPROB_FLOOR]),
        ([-INF, -INF], [LOGPROB_FLOOR, LOGPROB_FLOOR]),
        ([INF, 5, INF], [-math.log(2), LOGPROB_FLOOR, -math.log(2)]),
        ([3e38, -3e38], [0, LOGPROB_FLOOR]),
        ([1e4, -1e4], [0, LOGPROB_FLOOR]),
    ],
)
def test_broken_logits_meet_one_documented_floor(logits, expected):
    np.testing.assert_allclose(log_softmax(np.float32(logits)), expected)


def test_alternatives_come_in_descending_order_and_ties_by_id():
    report = token_logprobs(np.float32([1, 3, 3, 2, 3]), token=0, count=4)
    assert [index for index, _ in report.top] == [1, 2, 4, 3]
    assert report.token == 0
    assert report.logprob < report.top[-1][1]
    assert token_logprobs(np.float32([1, 3]), token=1, count=0).top == ()
    assert len(token_logprobs(np.float32([1, 3]), token=1, count=20).top) == 2


@given(arrays.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32)), st.integers(0, 20))
def test_any_logits_give_finite_values_that_strict_json_takes(logits, count):
    report = token_logprobs(logits, token=len(logits) - 1, count=count)
    json.dumps([report.logprob, report.top], allow_nan=False)
    assert all(LOGPROB_FLOOR <= value <= 1e-9 for _, value in report.top)
    wanted = sorted(enumerate(log_softmax(logits)), key=lambda pair: (-pair[1], pair[0]))[:count]
    assert [index for index, _ in report.top] == [index for index, _ in wanted]
