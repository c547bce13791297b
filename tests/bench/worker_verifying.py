"""Opens a bundle as `run`, `chat` and `bench` do, up to its first token, and ends; chunks hashed, or for comparison only read.

    python tests/bench/worker_verifying.py BUNDLE KEYS STATE hashed|read

It imports no more than those verbs, in their order: what they overlap with verifying is part of what is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sealhost.host.cli.opening import opened_bundle
from sealhost.host.cli.options import DEFAULTS
from sealhost.signing.chunks import read_chunk
from sealhost.signing.limits import CHUNK_BYTES
from sealhost.signing.weights import VerifiedWeights


def only_read(weights: VerifiedWeights, indices: Sequence[int], *, keep: bool) -> None:
    """In place of `VerifiedWeights._read`: chunks are read, not hashed, and pass for right. A bench's, no switch of the product."""
    for index in indices:
        start, stop = index * CHUNK_BYTES, min((index + 1) * CHUNK_BYTES, weights.size)
        with weights._bytes[start:stop] as chunk:
            read_chunk(weights._descriptor, weights._signed.path, weights.size, start, chunk)
        if not keep:
            weights.release(start, stop)
        weights._meter.advance(stop - start)


def main() -> None:
    """Does it once."""
    bundle, keys, state = map(Path, sys.argv[1:4])
    if sys.argv[4] == "read":
        VerifiedWeights._read = only_read
    with opened_bundle(bundle, keys, state, DEFAULTS):
        pass


if __name__ == "__main__":
    main()
