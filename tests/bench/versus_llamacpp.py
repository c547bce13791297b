"""Compares sealhost with llama.cpp on one file: same threads, alternating in one run, ratios with their spread.

    python tests/bench/versus_llamacpp.py [MODEL.gguf] [--threads 2] [--rounds 7] [--decode 128] [--prefill 512] [--json OUT]

Each side is a process of its own that idles while the other is measured, and so is what reads memory at full speed. The sealhost side packs and signs the file
into a temporary bundle and loads it through the verifier, as `sealhost serve` does. A round measures decode and prefill on
both sides, in an order that flips from round to round; the ratio is taken within the round, so that a noisy
neighbour meets both sides alike, and the report gives the median ratio with its lowest and highest. No decoder reads less
than its weights a token, so what the memory gives in that round bounds the ratio, too, and the report says by how much.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORKLOADS = {"decode": 128, "prefill": 512}
"""Tokens of each, unless told otherwise."""
MOST_OF_FILE = 1.25
"""Peak memory may be this times the file, and the KV pool."""
READ_BYTES = 2 << 30
"""Read in a round to measure the memory: a tenth of a second."""


ILLEGAL = "; its build uses instructions that this processor lacks, or AMX with no tile configuration (gcc 12 drops it)"


def ending(status: int, doing: str) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status} in {doing}"
    name = signal.Signals(-status).name
    return f"was ended by {name} in {doing}{ILLEGAL if name == 'SIGILL' else ''}"


class Worker:
    """One side of the comparison: a child process that answers a line of JSON to each command."""

    def __init__(self, script: str, *arguments: object) -> None:
        command = [sys.executable, str(HERE / script), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.doing = "loading the model"
        self.name = self._read()["ready"]
        self.peak_rss_bytes = 0
        self.extra: dict[str, Any] = {}

    def _read(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{Path(self.process.args[1]).name} {ending(self.process.wait(), self.doing)}")
        return json.loads(line)

    def measure(self, verb: str, count: int) -> float:
        """Tokens per second of one workload, or GB per second."""
        self.doing = f"{verb} {count}"
        self.process.stdin.write(f"{verb} {count}\n")
        self.process.stdin.flush()
        answer = self._read()
        self.peak_rss_bytes = answer.pop("peak_rss_bytes")
        rate = answer.pop("rate")
        self.extra = answer
        return rate

    def close(self) -> None:
        """Ends the child by closing its input."""
        self.process.stdin.close()
        self.process.wait(timeout=30)


def compare(sides: list[Worker], memory: Worker, rounds: int, passes: int, workloads: dict[str, int]) -> dict[str, Any]:
    """Runs the rounds; for each workload: every side's figures and the ratio first side / second side."""
    reads: list[float] = []
    figures: dict[str, list[list[float]]] = {verb: [[], []] for verb in workloads}
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        reads.append(memory.measure("read", passes))
        for verb, count in workloads.items():
            for side in order:
                value = sides[side].measure(verb, count)
                if number > 0:  # round 0 warms both sides up
                    figures[verb][side].append(value)
    return {
        verb: {
            "sealhost": ours,
            "llamacpp": theirs,
            "ratios": [a / b for a, b in zip(ours, theirs, strict=True)],
        }
        for verb, (ours, theirs) in figures.items()
    } | {"read_gb_s": reads[1:]}


def spread(values: list[float], digits: int = 0) -> str:
    """Median and range, as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def token_bytes(model: Path) -> int:
    """Bytes of weights that a token reads: all, but for the embedding where the head is another matrix."""
    import gguf

    sizes = {tensor.name: int(tensor.n_bytes) for tensor in gguf.GGUFReader(model).tensors}
    return sum(sizes.values()) - (sizes["token_embd.weight"] if "output.weight" in sizes else 0)


def report(results: dict[str, Any], sides: list[Worker], model: Path, threads: int, workloads: dict[str, int]) -> None:
    """Prints the table, what decode reads, and the memory line."""
    print(f"{model.name}, {threads} threads; {sides[0].name} versus {sides[1].name}; median (lowest-highest), tokens/s")
    for verb, count in workloads.items():
        row = results[verb]
        print(
            f"  {verb:8}{count:4}   sealhost {spread(row['sealhost']):22} "
            f"llama.cpp {spread(row['llamacpp']):22} ratio {spread(row['ratios'], 2)}"
        )
    reads, each = results["read_gb_s"], token_bytes(model)
    ours, theirs = (
        [rate * each / 1e9 / read for rate, read in zip(results["decode"][side], reads, strict=True)]
        for side in ("sealhost", "llamacpp")
    )
    print(
        f"  a token reads {each / 1e6:.0f} MB; {threads} threads read {spread(reads, 1)} GB/s, of which decode takes "
        f"{spread([100 * share for share in ours])} %, llama.cpp's {spread([100 * share for share in theirs])} %: "
        f"reading alone, it could be {spread([1 / share for share in theirs], 2)} times as fast as that"
    )
    size, kv = model.stat().st_size / 1e6, sides[0].extra["kv_bytes"] / 1e6
    print(
        f"  peak memory: sealhost {sides[0].peak_rss_bytes / 1e6:.0f} MB of at most {MOST_OF_FILE * size + kv:.0f} MB "
        f"({MOST_OF_FILE} x the file's {size:.0f} MB + a KV pool of {kv:.0f} MB, of which only touched pages are resident); "
        f"llama.cpp {sides[1].peak_rss_bytes / 1e6:.0f} MB"
    )


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="default: the demo model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    for verb, count in WORKLOADS.items():
        parser.add_argument(f"--{verb}", type=int, default=count, help=f"tokens of a {verb} (default {count})")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    options = parser.parse_args()
    if options.model is None:
        from sealhost.host.cli.demo_model import fetch_demo_model

        options.model = fetch_demo_model()
    sides = [
        Worker("worker_sealhost.py", options.model, options.threads),
        Worker("worker_llamacpp.py", options.model, options.threads),
    ]
    read = token_bytes(options.model)
    memory = Worker("roofline.py", options.threads, read)
    workloads = {verb: getattr(options, verb) for verb in WORKLOADS}
    results = compare(sides, memory, options.rounds, max(READ_BYTES // read, 1), workloads)
    report(results, sides, options.model, options.threads, workloads)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    for side in (*sides, memory):
        side.close()


if __name__ == "__main__":
    main()
