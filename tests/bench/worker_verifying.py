"""Opens a bundle as `run`, `chat` and `bench` do, up to its first token, and ends; chunks hashed, or for comparison only read.

    python tests/bench/worker_verifying.py BUNDLE KEYS STATE hashed|read

It imports no more than those verbs, in their order: what they overlap with verifying is part of what is measured.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sealhost.host.cli.opening import opened_bundle
from sealhost.host.cli.options import DEFAULTS
from sealhost.signing import weights
from sealhost.signing.limits import CHUNK_BYTES, DIGEST_BYTES


def only_read(table: bytes) -> None:
    """From here on chunks are read, not hashed, and pass for right. No switch of the product: a bench's, in its process."""

    def read(descriptor: int, _path: str, _size: int, start: int, chunk: memoryview) -> bytes:
        done = 0
        while done < len(chunk):
            done += os.preadv(descriptor, [chunk[done:]], start + done)
        index = start // CHUNK_BYTES
        return table[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]

    weights.read_chunk = read


def main() -> None:
    """Does it once."""
    bundle, keys, state = map(Path, sys.argv[1:4])
    if sys.argv[4] == "read":
        only_read((bundle / "model.gguf.chunks").read_bytes())
    with opened_bundle(bundle, keys, state, DEFAULTS):
        pass


if __name__ == "__main__":
    main()
