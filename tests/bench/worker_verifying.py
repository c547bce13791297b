"""Is `sealhost run BUNDLE`, up to the first token; chunks hashed, or for comparison only read.

    python tests/bench/worker_verifying.py BUNDLE KEYS STATE hashed|read

What the verb imports, and so overlaps with reading and hashing, is part of what is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace

from sealhost.host.cli import main as command
from sealhost.host.cli.begun import begin
from sealhost.signing import chunks
from sealhost.signing.limits import CHUNK_BYTES, DIGEST_BYTES
from sealhost.signing.weights import VerifiedWeights

UNHASHED = SimpleNamespace(sha256=lambda _: SimpleNamespace(digest=lambda: bytes(DIGEST_BYTES)))
"""In place of `hashlib` where weights are read before they are asked for."""


def only_read(weights: VerifiedWeights, indices: Sequence[int], *, keep: bool) -> None:
    """In place of `VerifiedWeights._read`: chunks are read, not hashed, and pass for right. A bench's, no switch of the product."""
    for index in indices:
        start, stop = index * CHUNK_BYTES, min((index + 1) * CHUNK_BYTES, weights.size)
        if index not in weights._hashed:
            with weights._bytes[start:stop] as chunk:
                chunks.read_chunk(weights._descriptor, weights._signed.path, weights.size, start, chunk)
        if not keep:
            weights.release(start, stop)
        weights._meter.advance(stop - start)


def main() -> None:
    """Does it once."""
    bundle, keys, state, how = sys.argv[1:5]
    if how == "read":
        VerifiedWeights._read, chunks.hashlib = only_read, UNHASHED
    words = ["run", bundle, "Hello", "--raw", "--max-tokens", "1", "--keys", keys, "--state", state]
    with begin(words) as begun:
        sys.exit(command.run(words, begun))


if __name__ == "__main__":
    main()
