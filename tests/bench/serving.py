"""What the sandbox costs a served token: the same engine with guests and with native host code, in one run.

    python tests/bench/serving.py [MODEL.gguf] [--threads 2] [--rounds 11] [--tokens 128] [--only greedy] [--json OUT]

One process, one loaded model, three engines over it: one with the bundle's own tokenizer and sampler in their sandboxes
and two with native twins of both (native_twins.py). In a round each of them encodes the workload's prompts and takes all
requests; then they do their turns by turns, in an order drawn anew each time, until all have answered. So neighbours, the
processor's clock and what the machine does besides meet all three alike, down to a few milliseconds, and a ratio taken
within a round says a hundredth where whole answers, one after another, say a tenth. All give the same ids, which is
checked, so they do the same work. Left out is what the engine's thread adds to a turn: it is the same on both sides.

* The rate is tokens by the seconds of encoding and of all turns. The ratio's median stands with its quartiles, and with
  an interval that holds it at 95 % confidence (bootstrap over the rounds).
* `floor` is the native twin against the other native twin, by the same means: what of a ratio is noise.
* `turn` is the median over the round's turns instead of their sum: what a turn takes that nothing disturbs.
* `processor` is the ratio in seconds of processor time.
* The same again with a model that costs nothing tells what a token costs beside the model, in microseconds, and with it
  how short a model's step may be before the sandbox takes more than three hundredths of it.

Behind it stands the table of guests_cost.py.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import tempfile
import time
import uuid
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from guests_cost import costs, print_table
from native_twins import NativeSampler, NativeTokenizer
from worker_sealhost import signed_bundle

from sealhost.host.app import Host
from sealhost.host.config import EngineConfig
from sealhost.host.engine.core import Core
from sealhost.host.engine.request import ErrorEvent, GenerationRequest, TokenEvent
from sealhost.host.errors import InternalError
from sealhost.sandbox import SamplingParams
from sealhost.signing import DirectoryTrust, verify

TEXT = "The quick brown fox jumps over the lazy dog, and in 1984 it did so 1,024 times: naïve, isn't it? "
PROMPT_REPEATS = 4
"""Times that TEXT stands in a prompt: about 100 ids."""

WANTED = 0.97
NOISE = 0.015
"""How far from 1 the floor may lie: half of what the ratio that is wanted leaves to the sandbox."""
RESAMPLES = 10_000
PARAMS = {
    "greedy": SamplingParams(temperature=0, seed=1),
    "sampled": SamplingParams(temperature=0.8, top_p=0.95, top_k=40, seed=1),
}
SANDBOX, NATIVE, AGAIN = range(3)
"""Sides."""


class Workload(NamedTuple):
    name: str
    concurrency: int

    def __str__(self) -> str:
        return f"{self.name}, {self.concurrency} at a time"


WORKLOADS = [Workload(name, concurrency) for name in PARAMS for concurrency in (1, 8)]


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


@dataclass
class Served:
    """What a side makes of a workload.

    Attributes:
        answers: Ids of each request.
        left: Requests that have not ended.
        encoding: Seconds of encoding and of taking the requests.
        turns: Seconds of each turn.
        processor: Seconds of processor time.
    """

    answers: list[list[int]]
    left: int
    encoding: float = 0.0
    turns: list[float] = field(default_factory=list)
    processor: float = 0.0

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return sum(map(len, self.answers)) / (self.encoding + sum(self.turns))


class Side:
    """One engine with its tokenizer.

    Args:
        loaded: The model, which others use as well.
        tokenizer: As the engine takes it.
        samplers: As the engine takes them.
        config: Of the engine.
        part: Which of three parts of the model's KV blocks is this side's own.
    """

    def __init__(self, loaded, tokenizer, samplers, config, part: int) -> None:
        self._tokenizer = tokenizer
        self._core = Core(replace(loaded, tokenizer=tokenizer, samplers=samplers), config)
        pool = self._core.pool
        own = range(pool.total * part // 3, pool.total * (part + 1) // 3)
        for block in [pool.take() for _ in range(pool.total)]:
            if block in own:
                pool.release(block)

    def close(self) -> None:
        self._core.close(InternalError("bench", "expected no request when it ends", "report it"))

    def begin(self, workload: Workload, tokens: int) -> Served:
        """From texts to requests that the engine has taken."""
        served = Served([[] for _ in range(workload.concurrency)], workload.concurrency)

        def sink(number: int):
            def take(event) -> None:
                if isinstance(event, ErrorEvent):
                    raise SystemExit(f"expected answers, got {event.error}")
                if isinstance(event, TokenEvent):
                    served.answers[number].append(event.token)
                else:
                    served.left -= 1

            return take

        began, processor = time.perf_counter(), time.process_time()
        for number in range(workload.concurrency):
            self._core.add(self._request(workload, number, tokens), sink(number))
        served.encoding, served.processor = time.perf_counter() - began, time.process_time() - processor
        return served

    def turn(self, served: Served) -> None:
        """At most one model step."""
        began, processor = time.perf_counter(), time.process_time()
        self._core.turn()
        served.turns.append(time.perf_counter() - began)
        served.processor += time.process_time() - processor

    def _request(self, workload: Workload, number: int, tokens: int) -> GenerationRequest:
        text = f"{number}. " + TEXT * PROMPT_REPEATS
        ids = self._tokenizer.encode(text, add_special=False, parse_special=True)
        params = replace(PARAMS[workload.name], seed=number)
        return GenerationRequest(uuid.uuid4().hex, tuple(ids), tokens, params)


def race(sides: list[Side], workload: Workload, tokens: int, chance: random.Random) -> list[Served]:
    """One round."""
    order = [*range(len(sides))]
    chance.shuffle(order)
    begun = {number: sides[number].begin(workload, tokens) for number in order}
    while any(served.left for served in begun.values()):
        chance.shuffle(order)
        for number in order:
            if begun[number].left:
                sides[number].turn(begun[number])
    return [begun[number] for number in range(len(sides))]


def compare(
    sides: list[Side], workloads: list[Workload], rounds: int, tokens: int
) -> dict[Workload, dict[str, list[float]]]:
    """Tokens/s and ratios, one of each for each round."""
    chance, results = random.Random(0), {}
    for workload in workloads:
        row = results[workload] = {
            name: [] for name in ("sandbox", "native", "ratio", "floor", "turn", "turn floor", "processor")
        }
        for number in range(rounds + 1):  # round 0 warms up
            served = race(sides, workload, tokens, chance)
            if not served[SANDBOX].answers == served[NATIVE].answers == served[AGAIN].answers:
                raise SystemExit(f"{workload}: expected the same ids from all sides, got others")
            if number > 0:
                add(row, served)
    return results


def add(row: dict[str, list[float]], served: list[Served]) -> None:
    """Notes a round's figures; each native twin is what the sandbox is held against as often as the other."""
    sandbox, native, again = served if len(row["ratio"]) % 2 == 0 else (served[SANDBOX], served[AGAIN], served[NATIVE])
    turns = [statistics.median(one.turns) for one in (sandbox, native, again)]
    row["sandbox"].append(sandbox.rate)
    row["native"].append(native.rate)
    row["ratio"].append(sandbox.rate / native.rate)
    row["floor"].append(again.rate / native.rate)
    row["turn"].append(turns[1] / turns[0])
    row["turn floor"].append(turns[1] / turns[2])
    row["processor"].append(native.processor / sandbox.processor)


def spread(values: list[float], digits: int) -> str:
    """Median and quartiles, as text."""
    low, median, high = statistics.quantiles(values, n=4)
    return f"{median:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def interval(values: list[float]) -> tuple[float, float]:
    """What the median lies in, at 95 % confidence: from medians of as many values drawn with replacement."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


def verdict(values: list[float], floor: list[float]) -> str:
    """What the rounds say about the ratio that is wanted; nothing where they cannot tell a side from itself."""
    (low, high), (least, most) = interval(values), interval(floor)
    if not 1 - NOISE <= least <= most <= 1 + NOISE:
        said = f"is beyond what a machine can tell whose floor is {least:.3f}-{most:.3f}"
    else:
        said = "is shown" if low >= WANTED else "is missed" if high < WANTED else "is not told from it"
    return f"95 % {low:.3f}-{high:.3f}, {WANTED} {said}"


def report(results, beside, table) -> None:
    """Prints the tables."""
    print("served tokens/s and ratios within a round: median (quartiles)")
    for workload, row in results.items():
        print(f"  {workload!s:24} sandbox {spread(row['sandbox'], 0)}, native {spread(row['native'], 0)}")
        print(
            f"    ratio {spread(row['ratio'], 3)}, {verdict(row['ratio'], row['floor'])}; floor {spread(row['floor'], 3)}"
        )
        print(
            f"    turn {spread(row['turn'], 3)}, {verdict(row['turn'], row['turn floor'])}; floor {spread(row['turn floor'], 3)}; "
            f"processor {spread(row['processor'], 3)}"
        )
    print("the same beside a model that costs nothing, microseconds a token, median (quartiles)")
    for workload, row in beside.items():
        sandbox, native = ([1e6 / rate for rate in row[side]] for side in ("sandbox", "native"))
        more = statistics.median(one - other for one, other in zip(sandbox, native, strict=True))
        print(
            f"  {workload!s:24} sandbox {spread(sandbox, 0):18} native {spread(native, 0):18} "
            f"more {more:.0f}: {WANTED} from a model's step of {max(more, 0) * WANTED / (1 - WANTED) / 1000:.1f} ms a token on"
        )
    if table:
        print_table(table)


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, help="default: the demo model")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=128, help="ids of each answer, as in other tools")
    parser.add_argument("--only", default="", help="measure only workloads whose name begins so, such as 'greedy, 8'")
    parser.add_argument("--no-table", action="store_true", help="without the table of guests_cost.py")
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
        ways = [(loaded.tokenizer, loaded.samplers), twins, twins]
        bare = replace(loaded, model=NoModel(loaded.spec.vocab))
        teams = [[Side(one, *way, config, part) for part, way in enumerate(ways)] for one in (loaded, bare)]
        for side in (side for team in teams for side in team):
            stack.callback(side.close)
        results, beside = (compare(team, workloads, options.rounds, options.tokens) for team in teams)
        table = [] if options.no_table else costs(loaded.vocabulary)
    report(results, beside, table)
    if options.json:
        served, bare = ({str(workload): row for workload, row in rows.items()} for rows in (results, beside))
        figures = {"served": served, "beside_the_model": bare, "guests": [asdict(line) for line in table]}
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
