"""Measures what is left of decode beside another busy process: its share of the quiet speed, for sealhost and llama.cpp.

    python tests/bench/neighbour.py [MODEL.gguf] [--threads 2] [--rounds 7] [--decode 256]

The neighbour is one process that computes without end on one of the cores, the last that this process may use. A round
measures each side quiet and beside it, one right after the other, in an order that flips from round to round; the share
is taken within the round. A side has the length of a decode to notice its neighbour.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from versus_llamacpp import Worker, spread

BUSY = "print(flush=True)\nwhile True: pass"


@contextlib.contextmanager
def busy_process(core: int) -> Iterator[None]:
    """A process that takes what it can get of one core."""
    command = [sys.executable, "-S", "-c", BUSY]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        os.sched_setaffinity(process.pid, {core})
        process.stdout.readline()  # it runs
        try:
            yield
        finally:
            process.kill()


def measure(side: Worker, tokens: int, core: int, *, quiet_first: bool) -> tuple[float, float]:
    """Tokens per second, quiet and beside the neighbour."""
    quiet = side.measure("decode", tokens) if quiet_first else 0.0
    with busy_process(core):
        beside = side.measure("decode", tokens)
    return quiet or side.measure("decode", tokens), beside


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="default: the demo model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--decode", type=int, default=256, help="tokens of each measurement")
    options = parser.parse_args()
    if options.model is None:
        from sealhost.host.cli.demo_model import fetch_demo_model

        options.model = fetch_demo_model()
    core = max(os.sched_getaffinity(0))
    sides = [Worker(script, options.model, options.threads) for script in ("worker_sealhost.py", "worker_llamacpp.py")]
    pairs: list[list[tuple[float, float]]] = [[], []]
    for number in range(options.rounds + 1):
        for rows, side in zip(pairs, sides, strict=True):
            pair = measure(side, options.decode, core, quiet_first=number % 2 == 0)
            if number > 0:  # round 0 warms both sides up
                rows.append(pair)
    print(
        f"{options.model.name}, {options.threads} threads, one busy process on core {core}; median (lowest-highest), tokens/s"
    )
    for side, rows in zip(sides, pairs, strict=True):
        quiet, beside = (list(column) for column in zip(*rows, strict=True))
        share = spread([100 * b / q for q, b in rows])
        print(f"  {side.name:20} quiet {spread(quiet):18} beside it {spread(beside):18} share {share} %")
        side.close()


if __name__ == "__main__":
    main()
