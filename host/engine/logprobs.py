"""Log-probabilities of the model's own distribution, safe for any logits.

Rules
* float64 throughout, over the logits as the model wrote them (clause 2.12).
* NaN counts as -inf; where an id has no probability the answer is LOGPROB_FLOOR, so that no JSON ever holds Infinity
  or NaN.

Example:
    token_logprobs(np.float32([1, 0, -np.inf]), token=0, count=2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .request import TokenLogprobs

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOGPROB_FLOOR = -9999.0
"""Stands for a probability of zero, in all answers alike."""


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Natural log-probabilities.

    Args:
        logits: Any values. Shape: (vocab,), float32.

    Returns:
        Values from LOGPROB_FLOOR to 0. Shape: (vocab,), float64.
    """
    values = logits.astype(np.float64)
    np.copyto(values, -np.inf, where=np.isnan(values))
    peak = values.max()
    if peak == -np.inf:
        return np.full(len(values), LOGPROB_FLOOR)
    if peak == np.inf:  # all weight lies on the infinite ones, in equal shares
        values = np.where(values == np.inf, 0.0, -np.inf)
        peak = 0.0
    values -= peak
    values -= np.log(np.exp(values).sum())
    floored: NDArray[np.float64] = np.maximum(values, LOGPROB_FLOOR)
    return floored


def token_logprobs(logits: NDArray[np.float32], token: int, count: int) -> TokenLogprobs:
    """The report on one drawn id.

    Args:
        logits: The model's logits. Shape: (vocab,), float32.
        token: The id that was drawn.
        count: Alternatives wanted; of equal ones the lower ids.
    """
    values = log_softmax(logits)
    likeliest = _likeliest(values, min(count, len(values)))
    return TokenLogprobs(token, float(values[token]), tuple((index, float(values[index])) for index in likeliest))


def _likeliest(values: NDArray[np.float64], count: int) -> list[int]:
    """Ids of the `count` greatest values, descending, ties by id."""
    if count == 0:
        return []
    least = np.partition(values, len(values) - count)[len(values) - count]
    candidates = np.flatnonzero(values >= least)
    order = np.argsort(-values[candidates], kind="stable")
    ids: list[int] = candidates[order[:count]].tolist()
    return ids
