"""`bench`: prefill and decode tokens/s of a bundle, over the whole path from the scheduler to the detokenizer.

Rules (clause 6.7 of host/README.md)
* Kinds of work take turns, so that a slow minute of the machine does not fall on one of them alone.
* A figure is the median of the repeats; its spread is (largest - smallest) / median.
"""

from __future__ import annotations

import json as json_format
import random
import resource
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from ...kernels.backend import KV_BLOCK_TOKENS
from ..errors import UsageError
from .bench_plot import check_plot
from .bench_plot import plot as write_plot
from .bench_workloads import SHORT_PROMPT, Crowd, Decode, Prefill, seconds_to_tokens
from .opening import opened_bundle
from .options import DEFAULTS, EngineOptions, Json, Keys, StateFolder
from .terminal import note, watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..app import Host, Opened
    from ..engine.request import EngineStats
    from ..serving.served import ServedModel
    from .bench_workloads import Workload

PREFILL_LENGTHS = (32, 128, 512, 2048)
"""Prompt lengths, ids; 512 is what other tools report."""

DEPTHS, BATCHES = (512, 2048, 4096), (1, 2, 4, 8, 16, 32)
"""What `--sweep` measures besides: ids in the context, sequences at a time."""

DECODE_TOKENS = 128
"""Tokens of a decode measurement, as in other tools."""

MAX_REPEATS = 1000
"""More repeats than anyone has time for."""

_LINUX_STATUS = Path("/proc/self/status")
_BYTES_OF_MAXRSS = 1 if sys.platform == "darwin" else 1024

Numbers = Annotated[list[int] | None, Parameter(negative="")]


class Figure(NamedTuple):
    """A median and its spread."""

    median: float
    spread: float


def bench(  # noqa: PLR0913 — one parameter for each option of the command line
    bundle: Path,
    /,
    *,
    json: Json = False,
    repeats: int = 5,
    prompt_tokens: Numbers = None,
    decode_tokens: int = DECODE_TOKENS,
    depth: Numbers = None,
    batch: Numbers = None,
    sweep: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    keys: Keys = None,
    state: StateFolder = None,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Measure prefill and decode speed of a bundle.

    Args:
        bundle: The bundle's directory.
        json: Print one JSON object.
        repeats: Repeats of each measurement; the median is reported.
        prompt_tokens: Prompt length to measure prefill with, besides 512; may be given several times. [default: 32, 128
            and 2048]
        decode_tokens: Tokens in one decode measurement.
        depth: Tokens in the context to measure decode at, besides 16; may be given several times.
        batch: Number of sequences to decode together; may be given several times.
        sweep: Measure depths of 512 to 4096 and batches of 1 to 32, as far as the context and the other options allow.
        plot: Draw the sweep's curves to this .png or .svg file (needs matplotlib).
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        engine: How the model runs.
    """
    if not 1 <= repeats <= MAX_REPEATS:
        raise UsageError("--repeats", f"expected 1 to {MAX_REPEATS}, got {repeats}", "choose another number")
    if decode_tokens < 2:
        raise UsageError("--decode-tokens", f"expected at least 2, got {decode_tokens}", "choose a larger number")
    for option, numbers in (("--prompt-tokens", prompt_tokens), ("--depth", depth)):
        if min(numbers or (1,)) < 1:
            raise UsageError(option, f"expected at least 1, got {min(numbers or ())}", "choose another number")
    for size in batch or ():
        if not 1 <= size <= engine.max_sequences:
            problem = f"expected 1 to {engine.max_sequences}, got {size}"
            raise UsageError("--batch", problem, "choose another number or raise --max-sequences")
    if plot is not None:
        check_plot(plot)
    asked = _Asked(prompt_tokens, decode_tokens, depth or (), batch or (), sweep or plot is not None)
    with opened_bundle(bundle, keys, state, engine) as (host, opened):
        workloads = _workloads(asked, opened.served, engine.max_sequences)
        facts = _facts(host, opened, _measure(opened.served, workloads, repeats), repeats)
    if plot is not None:
        write_plot(facts, plot)
    if json:
        print(json_format.dumps(facts))
    else:
        _print_table(facts)


class _Asked(NamedTuple):
    """The options that say what is measured."""

    prompts: Sequence[int] | None
    tokens: int
    depths: Sequence[int]
    batches: Sequence[int]
    sweep: bool


def _workloads(asked: _Asked, model: ServedModel, max_sequences: int) -> list[Workload]:
    """What was asked for, and of the defaults what fits.

    Raises:
        UsageError: something that was asked for does not fit the context or the KV pool.
    """
    stats = model.engine.stats()
    wanted: list[tuple[str, Workload]] = [("--prompt-tokens", Prefill(length)) for length in asked.prompts or ()]
    wanted.append(("--decode-tokens", Decode(SHORT_PROMPT, asked.tokens)))
    wanted += [("--depth", Decode(depth, asked.tokens)) for depth in asked.depths]
    wanted += [("--batch", Crowd(size, asked.tokens)) for size in asked.batches]
    for option, one in wanted:
        if one.ids > model.context:
            problem = f"expected a sequence of at most {model.context} ids, got {one.ids}"
            raise UsageError(option, problem, "choose another number or raise --context")
        if isinstance(one, Crowd) and not _holds(stats, one):
            problem = f"expected sequences that fit the KV pool together, got {one.sequences} of {one.ids} ids"
            raise UsageError(option, problem, "choose another number or raise --kv-mib")
    usual: list[Workload] = [Prefill(length) for length in ((512,) if asked.prompts else PREFILL_LENGTHS)]
    if asked.sweep:
        usual += [Decode(depth, asked.tokens) for depth in DEPTHS]
        crowds = [Crowd(size, asked.tokens) for size in BATCHES if size <= max_sequences]
        usual += [one for one in crowds if _holds(stats, one)]
    fitting = [one for one in usual if one.ids <= model.context]
    order = [Prefill, Decode, Crowd]
    return sorted({*fitting, *(one for _, one in wanted)}, key=lambda one: (order.index(type(one)), one))


def _holds(stats: EngineStats, crowd: Crowd) -> bool:
    """Whether the KV pool has blocks of both kinds for all sequences of a crowd."""
    each = -(-crowd.ids // KV_BLOCK_TOKENS)
    windows = min(each, stats.window_most_blocks)
    return crowd.sequences * each <= stats.kv_total_blocks and crowd.sequences * windows <= stats.window_total_blocks


def _measure(model: ServedModel, workloads: Sequence[Workload], repeats: int) -> dict[str, Figure]:
    numbers = random.Random(model.digest)  # noqa: S311 — prompts, no secrets
    longest = max(one.ids for one in workloads)
    seconds_to_tokens(model, numbers, prompt=longest - 1, tokens=1)  # touches every page once
    rates: dict[str, list[float]] = {one.name: [] for one in workloads}
    for number in range(repeats):
        if watched():
            note(f"measuring {number + 1} of {repeats}")
        for one in workloads:
            rates[one.name].append(one.run(model, numbers))
    return {name: _figure(values) for name, values in rates.items()}


def _figure(values: Sequence[float]) -> Figure:
    median = statistics.median(values)
    return Figure(median, (max(values) - min(values)) / median)


def _facts(host: Host, opened: Opened, figures: dict[str, Figure], repeats: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": opened.served.name, "digest": opened.served.digest}
    facts |= {"backend": host.backend.name, "threads": host.config.backend_threads, "repeats": repeats}
    facts["kv_type"] = str(host.backend.kv_type)
    for name, figure in figures.items():
        facts |= {f"{name}_tok_s": round(figure.median, 2), f"{name}_spread": round(figure.spread, 4)}
    facts |= {"verify_s": round(opened.verify_s, 4), "load_s": round(opened.load_s, 4)}
    facts["open_s"] = round(opened.open_s, 4)
    facts |= {"first_token_s": round(opened.first_token_s, 4)}
    facts["peak_rss_bytes"] = peak_rss_bytes()
    facts["memory_bytes"] = dict(opened.report.memory_bytes)
    return facts


def peak_rss_bytes() -> int:
    """Largest resident size of this process so far, in bytes.

    Linux counts getrusage's from before exec, so that a child of a large process seems large: its own file is read.
    """
    try:
        lines = _LINUX_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_OF_MAXRSS
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def _print_table(facts: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415 — only for people
    from rich.table import Table  # noqa: PLC0415

    table = Table()
    table.add_column("test")
    table.add_column("tokens/s", justify="right")
    table.add_column("spread", justify="right")
    for name in [key.removesuffix("_tok_s") for key in facts if key.endswith("_tok_s")]:
        table.add_row(name.replace("_", " "), f"{facts[name + '_tok_s']:,.1f}", f"{facts[name + '_spread']:.0%}")
    console = Console(highlight=False, markup=False)
    console.print(
        f"{facts['model']} on {facts['backend']}, {facts['threads']} threads, KV cache {facts['kv_type']}",
        soft_wrap=True,
    )
    console.print(table)
    opening = f"verify ({facts['verify_s']:.2f} s) and load {facts['open_s']:.2f} s"
    times = f"{opening}, first token {facts['first_token_s']:.3f} s"
    console.print(f"{times}, peak memory {facts['peak_rss_bytes'] / 2**20:,.0f} MiB", soft_wrap=True)
