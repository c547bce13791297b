"""What the sandbox costs a served token: the same engine with guests and with native host code, in one run.

    python tests/bench/serving.py [MODEL.gguf] [--threads 2] [--rounds 21] [--tokens 128] [--only greedy] [--json OUT]

One process, one loaded model, two engines over it that take turns: one with the bundle's own tokenizer and sampler in
their sandboxes, one with native twins of both (native_twins.py). A round serves each workload on both sides, in an order
that flips from round to round: all prompts are encoded, then all requests submitted at once, so that both engines plan
the same steps whoever holds the interpreter when the first one arrives, and the clock stops with the last answer. Both sides give the same ids, which is checked, so they do the same work. The ratio is taken within the round; the report gives
the median with the quartiles. `floor`: one side against itself, which shows what the machine's noise alone makes of a
ratio. `processor`: the same ratio in seconds of processor time, which neighbours hardly touch. The same again with a model
that costs nothing tells what a token costs beside the model, in microseconds, and with it how short a model's step may be
before the sandbox takes more than three hundredths of it. Behind it stands the table of guests_cost.py.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from guests_cost import costs, print_table
from native_twins import NativeSampler, NativeTokenizer
from worker_sealhost import signed_bundle

from sealhost.host.app import Host
from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ErrorEvent, GenerationRequest, TokenEvent
from sealhost.sandbox import SamplingParams
from sealhost.signing import DirectoryTrust, verify

TEXT = "The quick brown fox jumps over the lazy dog, and in 1984 it did so 1,024 times: naïve, isn't it? "
PROMPT_REPEATS = 4
"""Times that TEXT stands in a prompt: about 100 ids."""

WANTED = 0.97
PATIENCE_S = 300
PARAMS = {
    "greedy": SamplingParams(temperature=0, seed=1),
    "sampled": SamplingParams(temperature=0.8, top_p=0.95, top_k=40, seed=1),
}


class Workload(NamedTuple):
    name: str
    concurrency: int

    def __str__(self) -> str:
        return f"{self.name}, {self.concurrency} at a time"


WORKLOADS = [Workload(name, concurrency) for name in PARAMS for concurrency in (1, 8)]


class Served(NamedTuple):
    """What a side made of a workload: tokens/s, seconds of processor time, ids."""

    rate: float
    processor: float
    answers: list[list[int]]


class NoModel:
    """Writes one of eight prepared rows, chosen by the last id: logits that cost next to nothing."""

    def __init__(self, vocab: int) -> None:
        numbers = np.random.default_rng(0)
        self._rows = [numbers.normal(0, 4, vocab).astype(np.float32) for _ in range(8)]

    def step(self, batch) -> None:
        count = batch.logits_count
        for token, address in zip(batch.logits_tokens[:count].tolist(), batch.logits_addresses[:count], strict=True):
            row = self._rows[int(batch.tokens[token]) % 8]
            ctypes.memmove(int(address), row.ctypes.data, row.nbytes)


class Side:
    """One engine with its tokenizer."""

    def __init__(self, loaded, tokenizer, samplers, config) -> None:
        self._tokenizer = tokenizer
        self._engine = Engine(replace(loaded, tokenizer=tokenizer, samplers=samplers), config)
        self._engine.start()
        self.close = self._engine.close

    def serve(self, workload: Workload, tokens: int) -> Served:
        """From text to the last id."""
        answers: list[list[int]] = [[] for _ in range(workload.concurrency)]
        left, done, failed = [workload.concurrency], threading.Event(), []

        def sink(number: int):
            def take(event) -> None:
                if isinstance(event, TokenEvent):
                    answers[number].append(event.token)
                    return
                failed.extend([event.error] if isinstance(event, ErrorEvent) else [])
                left[0] -= 1
                if left[0] == 0:
                    done.set()

            return take

        began, processor = time.perf_counter(), time.process_time()
        requests = [self._request(workload, number, tokens) for number in range(workload.concurrency)]
        for number, request in enumerate(requests):
            self._engine.submit(request, sink(number))
        if not done.wait(PATIENCE_S) or failed:
            raise SystemExit(f"expected answers, got {failed or 'none in time'}")
        processor, seconds = time.process_time() - processor, time.perf_counter() - began
        return Served(workload.concurrency * tokens / seconds, processor, answers)

    def _request(self, workload: Workload, number: int, tokens: int) -> GenerationRequest:
        text = f"{number}. " + TEXT * PROMPT_REPEATS
        ids = self._tokenizer.encode(text, add_special=False, parse_special=True)
        params = replace(PARAMS[workload.name], seed=number)
        return GenerationRequest(uuid.uuid4().hex, tuple(ids), tokens, params)


def compare(
    sides: list[Side], workloads: list[Workload], rounds: int, tokens: int
) -> dict[Workload, dict[str, list[float]]]:
    """Tokens/s of both sides and their ratio within each round; beside them the ratio of one side with itself."""
    results = {one: {"sandbox": [], "native": [], "ratio": [], "floor": [], "processor": []} for one in workloads}
    for number in range(rounds + 1):  # round 0 warms up
        for workload in workloads:
            order = (0, 1) if number % 2 == 0 else (1, 0)
            figures = {side: sides[side].serve(workload, tokens) for side in order}
            again = sides[order[0]].serve(workload, tokens)
            if figures[0].answers != figures[1].answers:
                raise SystemExit(f"{workload}: expected the same ids from both sides, got others")
            if number > 0:
                row = results[workload]
                row["sandbox"].append(figures[0].rate)
                row["native"].append(figures[1].rate)
                row["ratio"].append(figures[0].rate / figures[1].rate)
                row["floor"].append(again.rate / figures[order[0]].rate)
                row["processor"].append(figures[1].processor / figures[0].processor)
    return results


def spread(values: list[float], digits: int) -> str:
    """Median and quartiles, as text."""
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def report(results, beside, table) -> None:
    """Prints the tables."""
    print(f"served tokens/s, median (quartiles); a ratio of {WANTED} is wanted")
    for workload, row in results.items():
        print(
            f"  {workload!s:24} sandbox {spread(row['sandbox'], 0):18} native {spread(row['native'], 0):18} "
            f"ratio {spread(row['ratio'], 3)} floor {spread(row['floor'], 3)} "
            f"processor {spread(row['processor'], 3)}"
        )
    print("the same beside a model that costs nothing, microseconds a token, median (quartiles)")
    for workload, row in beside.items():
        sandbox, native = ([1e6 / rate for rate in row[side]] for side in ("sandbox", "native"))
        more = statistics.median(sandbox) - statistics.median(native)
        print(
            f"  {workload!s:24} sandbox {spread(sandbox, 0):18} native {spread(native, 0):18} "
            f"more {more:.0f}: {WANTED} from a model's step of {max(more, 0) * WANTED / (1 - WANTED) / 1000:.1f} ms a token on"
        )
    print_table(table)


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="default: the demo model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--tokens", type=int, default=128, help="ids of each answer, as in other tools")
    parser.add_argument("--only", default="", help="measure only workloads whose name begins so, such as 'greedy, 8'")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    options = parser.parse_args()
    workloads = [one for one in WORKLOADS if str(one).startswith(options.only)]
    if options.model is None:
        from sealhost.host.cli.demo_model import fetch_demo_model

        options.model = fetch_demo_model()
    config = EngineConfig(context=1024, threads=options.threads)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        host = stack.enter_context(Host(config))
        bundle, keys = signed_bundle(folder, options.model)
        loaded = host.open(verify(bundle, DirectoryTrust(keys))).loaded
        twins = NativeTokenizer(loaded.vocabulary), {"native": NativeSampler(loaded.spec.vocab)}
        bare = replace(loaded, model=NoModel(loaded.spec.vocab))
        pairs = [[Side(one, one.tokenizer, one.samplers, config), Side(one, *twins, config)] for one in (loaded, bare)]
        for side in (side for pair in pairs for side in pair):
            stack.callback(side.close)
        results, beside = (compare(pair, workloads, options.rounds, options.tokens) for pair in pairs)
        table = costs(loaded.vocabulary)
    report(results, beside, table)
    if options.json:
        served, bare = ({str(workload): row for workload, row in rows.items()} for rows in (results, beside))
        figures = {"served": served, "beside_the_model": bare, "guests": [asdict(line) for line in table]}
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
