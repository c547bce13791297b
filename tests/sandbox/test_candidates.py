"""The K best of a row are those that sorting all would give, and edited ones are checked."""

from __future__ import annotations

import numpy as np
import pytest

from sealhost.sandbox.candidates import CANDIDATE, best, checked
from sealhost.sandbox.decision import AnswerError


def sorted_best(logits: np.ndarray, count: int) -> list[tuple[int, float]]:
    numbers = [(index, value) for index, value in enumerate(logits.tolist()) if value > -np.inf]
    return sorted(numbers, key=lambda pair: (-pair[1], pair[0]))[:count]


@pytest.mark.parametrize("kind", ["usual", "ties", "few", "none", "flat", "infinite", "any bits"])
@pytest.mark.parametrize(
    ("size", "count"), [(1, 1), (7, 4), (64, 64), (260, 4), (260, 300), (1000, 100), (5000, 4096), (20_000, 40)]
)
def test_candidates_are_those_that_sorting_gives(kind, size, count):
    numbers = np.random.default_rng((size, count))
    logits = numbers.normal(size=size).astype(np.float32)
    if kind == "ties":
        logits = np.round(logits)
    elif kind == "few":
        logits[numbers.random(size) < 0.99] = np.nan
    elif kind == "none":
        logits[:] = numbers.choice([np.nan, -np.inf])
    elif kind == "flat":
        logits[:] = 2
    elif kind == "infinite":
        logits[numbers.random(size) < 0.5] = np.inf
    elif kind == "any bits":
        logits = numbers.integers(0, 1 << 32, size, dtype=np.uint32).view(np.float32)
    before = logits.tobytes()
    found = best(logits, count)
    assert list(zip(found["id"].tolist(), found["logit"].tolist(), strict=True)) == sorted_best(logits, count)
    assert logits.tobytes() == before


def entries(*pairs: tuple[int, float]) -> np.ndarray:
    return np.array(list(pairs), CANDIDATE)


def test_edited_candidates_come_in_the_order_of_their_ids():
    assert checked(entries((9, 1), (2, np.inf), (5, -np.inf)), 10)["id"].tolist() == [2, 5, 9]
    assert len(checked(entries(), 10)) == 0


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(10, 1)], "candidates below 10, got 10"),
        ([(2**32 - 1, 1), (1, 1)], "got 4294967295"),
        ([(3, 1), (4, 1), (3, 2)], "one twice"),
        ([(3, np.nan)], "NaN"),
    ],
)
def test_edited_candidates_that_break_a_rule_are_refused(pairs, words):
    with pytest.raises(AnswerError, match=words):
        checked(entries(*pairs), 10)
