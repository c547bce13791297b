"""The host's own sampler in float64: what PASS and EDITED go through, and the reference of the `standard` guest.

The chain, in this order:

    logit bias, the guest's too → repetition penalty → presence and frequency penalty → the guest's mask
    → greedy (temperature 0) → top-k → divide by temperature → top-p → min-p → draw

* NaN counts as -inf; +inf wins over everything finite; a row without a candidate is an `EmptyError`.
* Survivors stand in descending order of logit, ties by id; at least one survives each filter.
* Many candidates are not sorted: `selection` finds the same token sooner, and leaves to the plain way what rounding
  might decide.
* Parameters are rounded to float32 first, as the row carries them (clause 8.4).

    sample(logits, params, history, prompt_length, random_word)   # token id

Sources: repetition penalty: Keskar et al., arXiv:1909.05858 §4.1 with the sign rule of later practice; top-p: Holtzman
et al., arXiv:1904.09751; min-p: Nguyen et al., arXiv:2407.01082.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .randomness import unit
from .selection import Filters, select

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .params import SamplingParams


PLAIN = 2048
"""Candidates up to which sorting them all is the faster way."""


class EmptyError(Exception):
    """No token can be drawn: all are masked, or no logit is a number."""


def sample(
    logits: NDArray[np.float32],
    params: SamplingParams,
    history: NDArray[np.uint32],
    prompt_length: int,
    random_word: int,
    *,
    bias: NDArray[np.void] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> int:
    """Draws a token.

    Args:
        logits: Shape: (vocabulary,), float32; not changed.
        params: Of the request.
        history: Prompt ids, then generated ids. Shape: (n,), uint32.
        prompt_length: How many of them came from the prompt.
        random_word: u64 of randomness.
        bias: A guest's, added beside the request's. Shape: (n,), fields id and bias.
        allowed: A guest's mask, applied last. Shape: (vocabulary,), bool.

    Raises:
        EmptyError: When there is no candidate.
    """
    if allowed is None:
        return _choose(processed(logits, params, history, prompt_length, bias=bias), params, random_word)
    ids = np.flatnonzero(allowed)  # what is forbidden takes no time
    scores = processed(logits[ids], params, history, prompt_length, ids=ids, bias=bias)
    return int(ids[_choose(scores, params, random_word)])


def sample_among(
    candidates: NDArray[np.void],
    params: SamplingParams,
    history: NDArray[np.uint32],
    prompt_length: int,
    random_word: int,
) -> int:
    """Draws one of a few candidates.

    Args:
        candidates: Shape: (n,), fields id and logit, ascending by id; no NaN.
        params: Of the request.
        history: Prompt ids, then generated ids. Shape: (n,), uint32.
        prompt_length: How many of them came from the prompt.
        random_word: u64 of randomness.

    Raises:
        EmptyError: When there is no candidate.
    """
    if not len(candidates):
        raise EmptyError
    ids = candidates["id"]
    scores = processed(candidates["logit"], params, history, prompt_length, ids=ids)
    return int(ids[_choose(scores, params, random_word)])


def _choose(scores: NDArray[np.float64], params: SamplingParams, random_word: int) -> int:
    """Index of the score that is drawn."""
    best = int(scores.argmax())
    if scores[best] == -np.inf:
        raise EmptyError
    if np.float32(params.temperature) == 0:  # as the guest's structure holds it: smaller ones cannot be divided by
        return best
    if 0 < params.top_k < len(scores):
        kept = _top_k(scores, params.top_k)
        return int(kept[_draw(scores[kept], params, unit(random_word))])
    return _draw(scores, params, unit(random_word))


def _draw(scores: NDArray[np.float64], params: SamplingParams, u: float) -> int:
    """Index of the candidate that is drawn; candidates are given in the order of their ids."""
    filters = Filters(*(float(np.float32(p)) for p in (params.temperature, params.top_p, params.min_p)))
    if len(scores) > PLAIN and scores.max() < np.inf:
        drawn = select(scores, filters, u)
        if drawn is not None:
            return drawn
    order = _descending(scores)
    weights = _weights(scores[order], filters.temperature)
    weights = _min_p(_top_p(weights, filters.top_p), filters.min_p)
    cumulative = np.cumsum(weights)
    at = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return int(order[min(at, len(weights) - 1)])


def processed(
    logits: NDArray[np.float32],
    params: SamplingParams,
    history: NDArray[np.uint32],
    prompt_length: int,
    *,
    ids: NDArray[np.integer[Any]] | None = None,
    bias: NDArray[np.void] | None = None,
) -> NDArray[np.float64]:
    """The logits after bias and penalties.

    Args:
        logits: Shape: (n,), float32.
        params: Of the request.
        history: Prompt ids, then generated ids. Shape: (n,), uint32.
        prompt_length: How many of them came from the prompt.
        ids: Whose logits they are, ascending. Shape: (n,). None: of id 0, 1, 2, …
        bias: As in `sample`.

    Returns:
        Shape: (n,), float64; -inf where NaN.
    """
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        scores = logits.astype(np.float64)
    scores[np.isnan(scores)] = -np.inf
    for token, added in params.logit_bias:
        at, _ = _places(ids, np.array([token]))
        scores[at] = scores[at] + float(np.float32(added)) if added > -np.inf else -np.inf
    if bias is not None:
        at, is_there = _places(ids, bias["id"])
        values = bias["bias"][is_there]
        is_added = values > -np.inf
        np.add.at(scores, at[is_added], values[is_added].astype(np.float64))
        scores[at[~is_added]] = -np.inf
    penalty = float(np.float32(params.repetition_penalty))
    if penalty != 1:
        seen, _ = _places(ids, np.unique(history))
        values = scores[seen]
        with np.errstate(over="ignore"):
            scores[seen] = np.where(values > 0, values / penalty, values * penalty)
    if params.presence_penalty or params.frequency_penalty:
        generated, counts = np.unique(history[prompt_length:], return_counts=True)
        seen, is_there = _places(ids, generated)
        scores[seen] -= float(np.float32(params.presence_penalty))
        scores[seen] -= counts[is_there] * float(np.float32(params.frequency_penalty))
    return scores


def _places(
    ids: NDArray[np.integer[Any]] | None, wanted: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.bool_] | slice]:
    """Where the scores of `wanted` ids stand, and which of them are there at all."""
    if ids is None:
        return wanted, slice(None)
    at = np.searchsorted(ids, wanted)
    is_there = ids[np.minimum(at, len(ids) - 1)] == wanted
    return at[is_there], is_there


def _top_k(scores: NDArray[np.float64], top_k: int) -> NDArray[np.intp]:
    """The ids of the `top_k` best scores, ascending; of equal scores the lower ids."""
    least = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
    ids = np.flatnonzero(scores >= least)
    surplus = len(ids) - top_k
    return np.delete(ids, np.flatnonzero(scores[ids] == least)[-surplus:]) if surplus else ids


def _descending(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices of the candidates in descending order of score, ties by index."""
    found = np.flatnonzero(scores > -np.inf)
    order: NDArray[np.intp] = found[np.argsort(-scores[found], kind="stable")]
    return order


def _weights(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Unnormalised softmax of scores in descending order; the first weight is 1."""
    if scores[0] == np.inf:
        return np.where(scores == np.inf, 1.0, 0.0)
    with np.errstate(over="ignore", under="ignore"):
        weights: NDArray[np.float64] = np.exp((scores - scores[0]) / temperature)
    return weights


def _top_p(weights: NDArray[np.float64], top_p: float) -> NDArray[np.float64]:
    """The shortest prefix whose probability reaches `top_p`."""
    if top_p >= 1:
        return weights
    cumulative = np.cumsum(weights)
    return weights[: int(np.searchsorted(cumulative, top_p * cumulative[-1], side="left")) + 1]


def _min_p(weights: NDArray[np.float64], min_p: float) -> NDArray[np.float64]:
    """What has at least `min_p` of the first one's probability; a prefix, because weights descend."""
    return weights[: max(int(np.count_nonzero(weights >= min_p * weights[0])), 1)]
