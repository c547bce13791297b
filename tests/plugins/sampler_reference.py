"""What the standard sampler has to do, in float64 NumPy and by sorting everything: clauses 2.7 and 2.8 read aloud."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from plugin_harness import Parameters

BOUNDARY = 1e-9
"""Distance in probability within which rounding may decide otherwise."""


class Survivors(NamedTuple):
    """Ids in the order of the draw, the mass up to and including each, and whether a filter ended on a boundary."""

    ids: np.ndarray
    cumulative: np.ndarray
    on_boundary: bool


def processed(logits: np.ndarray, p: Parameters) -> np.ndarray:
    """Logits after bias and penalties, float64."""
    x = logits.astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        for token, bias in p.bias:
            x[token] += np.float64(np.float32(bias))
        seen = np.unique(np.array([*p.prompt, *p.generated], dtype=np.int64))
        rate = np.float64(np.float32(p.repetition))
        x[seen] = np.where(x[seen] > 0, x[seen] / rate, x[seen] * rate)
        ids, counts = np.unique(np.array(p.generated, dtype=np.int64), return_counts=True)
        x[ids] -= np.float64(np.float32(p.presence)) + counts * np.float64(np.float32(p.frequency))
    x[np.isnan(x)] = -np.inf
    return x


def survivors(logits: np.ndarray, p: Parameters) -> Survivors | None:
    """Who may be drawn and with what probability; None: nobody."""
    x = processed(logits, p)
    order = np.lexsort((np.arange(len(x)), -x))
    order = order[x[order] > -np.inf]
    temperature, top_p, min_p = (np.float64(np.float32(value)) for value in (p.temperature, p.top_p, p.min_p))
    if len(order) == 0:
        return None
    if temperature == 0:
        return Survivors(order[:1], np.ones(1), on_boundary=False)
    if 0 < p.top_k < len(x):
        order = order[: p.top_k]
    best = x[order[0]]
    weights = (x[order] == np.inf) * 1.0 if best == np.inf else np.exp((x[order] - best) / temperature)
    sums = np.cumsum(weights / weights.sum())
    kept, near = len(order), False
    if top_p < 1:
        kept = min(kept, int(np.searchsorted(sums, top_p, side="left")) + 1)
        near = bool(np.abs(sums - top_p).min() < BOUNDARY)
    if min_p > 0:
        kept = max(1, min(kept, int((weights >= min_p).sum())))
        near |= bool((np.abs(weights[1:] / min_p - 1) < BOUNDARY).any())
    return Survivors(order[:kept], np.cumsum(weights[:kept] / weights[:kept].sum()), near)


def drawn(who: Survivors, u: float) -> set[int]:
    """The ids that a right sampler may draw at u: one, or those that meet there."""
    first = np.searchsorted(who.cumulative, u - BOUNDARY, side="right")
    last = np.searchsorted(who.cumulative, u + BOUNDARY, side="right")
    return set(who.ids[min(first, len(who.ids) - 1) : min(last, len(who.ids) - 1) + 1].tolist())
