"""sealhost behind the line protocol of versus_llamacpp.py: `prefill N` or `decode N` in, one JSON object out.

The file is packed, signed and verified like any other bundle and loaded as `sealhost serve` loads it. What is timed is
the model's own step, logits included, as on the other side: no sampler on either.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sealhost.host.app import Host
from sealhost.host.cli.bench import peak_rss_bytes
from sealhost.host.config import EngineConfig
from sealhost.kernels.backend import KV_BLOCK_TOKENS
from sealhost.kernels.batch import StepBatch
from sealhost.signing import DirectoryTrust, verify

PROMPT_STRIDE = 7919
"""A prime: the fed ids walk over the whole vocabulary, the same ones on both sides."""
SETTLING_TOKENS = 8
"""Untimed tokens of a decode: the other side's threads may still spin when a turn begins."""
POSITIONS = 2048


def signed_bundle(folder: Path, gguf: Path) -> tuple[Path, Path]:
    """A bundle of this file and the folder of the key that signed it."""
    sealhost, bundle, keys = Path(sys.executable).with_name("sealhost"), folder / "bundle", folder / "keys"
    private = folder / "private"
    private.mkdir()
    keys.mkdir(mode=0o755)
    for arguments in (
        ["keygen", "bench", "--out", private, "--no-passphrase"],
        ["pack", gguf, "--out", bundle, "--name", "bench", "--version", "1"],
        ["sign", bundle, "--key", private / "bench.key"],
    ):
        subprocess.run([sealhost, *arguments], check=True, stdout=subprocess.DEVNULL)
    (private / "bench.pub").rename(keys / "bench.pub")
    return bundle, keys


class SealhostModel:
    """One loaded model, its step called directly."""

    def __init__(self, host: Host, bundle: Path, keys: Path) -> None:
        opened = host.open(verify(bundle, DirectoryTrust(keys), reading="ahead"))
        self.model = opened.loaded.model
        self.name = host.backend.name
        self.kv_bytes = self.model.memory_bytes["kv"]
        self.logits = np.zeros(self.model.spec.vocab, np.float32)
        self.blocks = list(range(POSITIONS // KV_BLOCK_TOKENS))
        self.batch = StepBatch.allocate(max_tokens=512, max_sequences=1, max_blocks=len(self.blocks))

    def _step(self, ids: list[int], start: int) -> None:
        self.batch.clear()
        self.batch.add(ids, start=start, blocks=self.blocks, logits_address=self.logits.ctypes.data)
        self.model.step(self.batch)

    def prefill(self, count: int) -> float:
        """Seconds for one batch of `count` tokens from an empty context."""
        ids = [i * PROMPT_STRIDE % self.model.spec.vocab for i in range(count)]
        start = time.perf_counter()
        self._step(ids, 0)
        return time.perf_counter() - start

    def decode(self, count: int) -> float:
        """Seconds for `count` tokens one at a time, after SETTLING_TOKENS from an empty context."""
        for i in range(SETTLING_TOKENS + count):
            if i == SETTLING_TOKENS:
                start = time.perf_counter()
            self._step([i * PROMPT_STRIDE % self.model.spec.vocab], i)
        return time.perf_counter() - start


def main() -> None:
    """Answers commands from standard input until it ends."""
    gguf, threads = Path(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder, Host(EngineConfig(context=POSITIONS, threads=threads)) as host:
        peer = SealhostModel(host, *signed_bundle(Path(folder), gguf))
        print(json.dumps({"ready": f"sealhost {peer.name}"}), flush=True)
        for line in sys.stdin:
            verb, count = line.split()
            seconds = {"prefill": peer.prefill, "decode": peer.decode}[verb](int(count))
            answer = {"rate": int(count) / seconds, "peak_rss_bytes": peak_rss_bytes(), "kv_bytes": peer.kv_bytes}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
