"""A consumer of weights as the loader is one: pieces in the order of the file, given back behind it, then the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sealhost.signing import DirectoryTrust, VerifiedBundle, VerifiedWeights, verify

STEP = (3 << 20) // 2 + 7
"""Bytes of a piece: it begins and ends anywhere in a chunk or a page."""


def load(
    root: Path,
    trust: DirectoryTrust,
    *,
    reading: str,
    after: Callable[[VerifiedWeights, int], None] = lambda *_: None,
    **options: Any,
) -> tuple[VerifiedBundle, bytes]:
    """Verifies and consumes a bundle; `after` is told the end of each piece. Only what it returns has been loaded."""
    bundle = verify(root, trust, reading=reading, **options)
    pieces = []
    with closing(bundle.weights) as weights:
        for start in range(0, weights.size, STEP):
            stop = min(start + STEP, weights.size)
            pieces.append(bytes(weights.view(start, stop)))
            weights.release(start, stop)
            after(weights, stop)
        weights.finish()
    return bundle, b"".join(pieces)


def settle(weights: VerifiedWeights) -> None:
    """Waits for what is read ahead, so that what happens next happens to chunks that nobody has begun."""
    if weights._early is not None:
        for helper in weights._early._helpers:
            helper.join()
    for future in list(weights._pending.values()):
        future.exception()
