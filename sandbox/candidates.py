"""The best candidates of a row of logits, for samplers of tier topk (plugins/README.md, clause 2.10).

    found = best(logits, 40)        # CANDIDATE entries, best first
    edited = checked(copied, vocab_size)

Order: larger logit first, then the lower id. NaN and -inf are no candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .decision import AnswerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATE = np.dtype([("id", "<u4"), ("logit", "<f4")])
"""struct sealhost_candidate."""

_BLOCK = 64
"""Logits of which first only the largest counts: the K-th largest of these bounds the K-th largest of all."""


def best(logits: NDArray[np.float32], count: int) -> NDArray[np.void]:
    """The `count` best candidates; fewer when there are no more.

    Args:
        logits: Shape: (vocabulary,), float32; not changed.
        count: At least 1.

    Returns:
        Shape: (n,), `CANDIDATE`, best first.
    """
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
        values = np.fmax(logits, np.float32(-np.inf))
    ids = np.flatnonzero(values >= _bound(values, count))
    ids = ids[values[ids] > -np.inf]
    order = np.argsort(-values[ids], kind="stable")[:count]
    found = np.empty(len(order), CANDIDATE)
    found["id"] = ids[order]
    found["logit"] = values[ids[order]]
    return found


def _bound(values: NDArray[np.float32], count: int) -> np.float32:
    """A value that at least `count` of them reach, and not many more."""
    block = _BLOCK
    while len(values) // block < count and block > 1:
        block //= 2
    whole = len(values) // block * block
    tops = values[:whole].reshape(-1, block).max(axis=1)
    if len(tops) <= count:
        return np.float32(-np.inf)
    found: np.float32 = np.partition(tops, len(tops) - count)[len(tops) - count]
    return found


def checked(entries: NDArray[np.void], vocab_size: int) -> NDArray[np.void]:
    """Candidates as a guest left them, in ascending order of id.

    Args:
        entries: Copied out of guest memory. Shape: (n,), `CANDIDATE`.
        vocab_size: Ids are below it.

    Raises:
        AnswerError: When an id is out of range or there twice, or a logit is NaN.
    """
    ordered = entries[np.argsort(entries["id"], kind="stable")]
    ids = ordered["id"]
    if len(ids) and int(ids[-1]) >= vocab_size:
        raise AnswerError(f"expected candidates below {vocab_size}, got {int(ids[-1])}")
    if (ids[1:] == ids[:-1]).any():
        raise AnswerError("expected each candidate once, got one twice")
    if np.isnan(ordered["logit"]).any():
        raise AnswerError("expected numbers in the edited candidates, got NaN")
    return ordered
