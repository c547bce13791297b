"""The limits that figures are set against: what threads read from memory, and multiply-adds with all in registers.

As a script it answers versus_llamacpp.py's lines: `read N` in, GB/s of N passes in one JSON object out.

    python tests/bench/roofline.py THREADS BYTES
"""

from __future__ import annotations

import json
import sys
import threading
import time

from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.emit import I8, I32, vector
from sealhost.kernels.cpu.matmul import PREFETCH_BYTES
from sealhost.kernels.cpu.native import Library
from sealhost.kernels.cpu.single import Single

STREAM_BYTES = 96 << 20
"""More than most caches hold; the largest servers' hold three times as much."""
LINE_BYTES = 128
LINES = STREAM_BYTES // LINE_BYTES
MOST_BYTES = 1 << 30
"""Areas together: more than any cache holds."""


def read(k, start, lines):
    """Emits the reading of 128 bytes at a time, with the kernels' own prefetch."""
    sums = [k.var(k.all(vector(I32, 8), 0)) for _ in range(4)]
    with k.loop(lines) as line:
        for index, slot in enumerate(sums):
            at = k.at(start, k.times(line, LINE_BYTES), 32 * index)
            if index % 2 == 0:
                k.prefetch(k.at(at, PREFETCH_BYTES))  # without it a core of some kinds reads a quarter less
            k.set(slot, k.b.add(k.get(slot), k.load(at, vector(I32, 8))))
    k.store(start, k.b.add(k.b.add(*map(k.get, sums[:2])), k.b.add(*map(k.get, sums[2:]))))


def peak_of(dot):
    """An emitter of the dot-product layer's instruction alone: 8 * 4 * lanes multiply-adds each time round."""

    def peak(k, start, times):
        weights = [k.load(k.at(start, 64 * index), vector(I8, 4 * dot.lanes)) for index in range(2)]
        sums = [[k.var(dot.zero(k)) for _ in weights] for _ in range(4)]
        with k.loop(times) as index:
            at = k.at(start, k.times(k.b.and_(index, k.i64(63)), 16))
            for column, slots in enumerate(sums):
                four = k.load(k.at(at, 4 * column), I32)
                for weight, slot in zip(weights, slots, strict=True):
                    k.set(slot, dot.accumulate(k, k.get(slot), weight, four))
        for index, slot in enumerate(slot for slots in sums for slot in slots):
            k.store(k.at(start, 4096 + 64 * index), dot.finish(k, k.get(slot), 1))

    return peak


class Memory:
    """Threads that each read an area of their own.

    Args:
        threads: How many.
        size: Bytes of all areas: as many as what is compared reads again and again, for caches hold some of that.
    """

    def __init__(self, threads: int, size: int) -> None:
        library = Library()
        library.native("read", read)
        self._single = Single(library)
        self._lines = min(size, MOST_BYTES) // threads // LINE_BYTES
        self._areas = [Arena().take(self._lines * LINE_BYTES) for _ in range(threads)]
        for area in self._areas:
            area[:] = 1

    def read_gb_s(self, passes: int) -> float:
        """Bytes that all of them read in a second of wall time, in GB."""
        kernel = self._single["read"]

        def work(area):
            for _ in range(passes):
                kernel(address(area), self._lines)

        workers = [threading.Thread(target=work, args=(area,)) for area in self._areas]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return len(workers) * passes * self._lines * LINE_BYTES / (time.perf_counter() - start) / 1e9


def main() -> None:
    """Answers commands from standard input until it ends."""
    memory = Memory(*map(int, sys.argv[-2:]))
    memory.read_gb_s(1)
    print(json.dumps({"ready": "memory"}), flush=True)
    for line in sys.stdin:
        _, count = line.split()
        print(json.dumps({"rate": memory.read_gb_s(int(count)), "peak_rss_bytes": 0}), flush=True)


if __name__ == "__main__":
    main()
