"""`bench`: prefill and decode tokens/s of a bundle, over the whole path from the scheduler to the detokenizer.

Rules (clause 6.7 of host/README.md)
* Prompts are random ids, new ones for each repeat, so that nothing computed before can help.
* A figure is the median of the repeats; its spread is (largest - smallest) / median.
* Prefill: ids of the prompt / seconds from handing it over to its first token. Decode: tokens after the first / seconds
  from the first to the last, one sequence, greedy, end tokens ignored.
"""

from __future__ import annotations

import json as json_format
import random
import resource
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from ..errors import UsageError
from .opening import opened_bundle
from .options import DEFAULTS, EngineOptions, Json, Keys, StateFolder
from .terminal import note, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..app import Host, Opened
    from ..serving.served import ServedModel

PREFILL_LENGTHS = (32, 128, 512, 2048)
"""Prompt lengths, ids; 512 is what other tools report."""

DECODE_TOKENS = 128
"""Tokens of a decode measurement, as in other tools."""

DECODE_PROMPT = 16
"""Ids before it."""

MAX_REPEATS = 1000
"""More repeats than anyone has time for."""

_LINUX_STATUS = Path("/proc/self/status")
_BYTES_OF_MAXRSS = 1 if sys.platform == "darwin" else 1024


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
    prompt_tokens: Annotated[list[int] | None, Parameter(negative="")] = None,
    decode_tokens: int = DECODE_TOKENS,
    keys: Keys = None,
    state: StateFolder = None,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Measure prefill and decode speed of a bundle.

    Args:
        bundle: The bundle's directory.
        json: Print one JSON object.
        repeats: Measurements of each kind; their median counts.
        prompt_tokens: A prompt length to measure prefill with, besides 512. [default: 32, 128 and 2048]
        decode_tokens: Tokens of a decode measurement.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        engine: How the model runs.
    """
    if not 1 <= repeats <= MAX_REPEATS:
        raise UsageError("--repeats", f"expected 1 to {MAX_REPEATS}, got {repeats}", "choose another number")
    if decode_tokens < 2:
        raise UsageError("--decode-tokens", f"expected at least 2, got {decode_tokens}", "choose a larger number")
    with opened_bundle(bundle, keys, state, engine) as (host, opened):
        lengths = _lengths(prompt_tokens, opened.served, decode_tokens)
        prefill, decode = _measure(opened.served, lengths, decode_tokens, repeats)
        facts = _facts(host, opened, prefill, decode, repeats)
    if json:
        print(json_format.dumps(facts))
    else:
        _print_table(facts)


def _lengths(asked: Sequence[int] | None, model: ServedModel, decode_tokens: int) -> list[int]:
    for length in asked or ():
        if not 1 <= length < model.context:
            problem = f"expected 1 to {model.context - 1}, got {length}"
            raise UsageError("--prompt-tokens", problem, "choose another length or raise --context")
    if DECODE_PROMPT + decode_tokens > model.context:
        problem = f"expected at most {model.context - DECODE_PROMPT}, got {decode_tokens}"
        raise UsageError("--decode-tokens", problem, "choose fewer or raise --context")
    return sorted(length for length in {512, *(asked or PREFILL_LENGTHS)} if length < model.context)


def _measure(
    model: ServedModel, lengths: Sequence[int], decode_tokens: int, repeats: int
) -> tuple[dict[int, Figure], Figure]:
    """Kinds take turns, so that a slow minute of the machine does not fall on one of them alone."""
    numbers = random.Random(model.digest)  # noqa: S311 — prompts, no secrets
    _seconds_to_tokens(model, numbers, max(lengths, default=1), 2)  # touches every page once
    prefill: dict[int, list[float]] = {length: [] for length in lengths}
    decode: list[float] = []
    for number in range(repeats):
        if watched():
            note(f"measuring {number + 1} of {repeats}")
        for length in lengths:
            times = _seconds_to_tokens(model, numbers, length, 1)
            prefill[length].append(length / times[0])
        times = _seconds_to_tokens(model, numbers, DECODE_PROMPT, decode_tokens)
        decode.append((len(times) - 1) / (times[-1] - times[0]))
    return {length: _figure(values) for length, values in prefill.items()}, _figure(decode)


def _seconds_to_tokens(model: ServedModel, numbers: random.Random, prompt: int, tokens: int) -> list[float]:
    """Seconds from handing a prompt over to each of its tokens."""
    from ...sandbox import SamplingParams  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from ..engine.request import GenerationRequest, TokenEvent  # noqa: PLC0415
    from ..serving.direct import answer  # noqa: PLC0415

    ids = tuple(numbers.randrange(model.vocab_size) for _ in range(prompt))
    params = SamplingParams(temperature=0.0)
    request = GenerationRequest(id=uuid.uuid4().hex, prompt_ids=ids, max_tokens=tokens, params=params)
    clock: Callable[[], float] = time.perf_counter
    began = clock()
    return [clock() - began for event in answer(model.engine, request) if isinstance(event, TokenEvent)]


def _figure(values: Sequence[float]) -> Figure:
    median = statistics.median(values)
    return Figure(median, (max(values) - min(values)) / median)


def _facts(host: Host, opened: Opened, prefill: dict[int, Figure], decode: Figure, repeats: int) -> dict[str, Any]:
    facts: dict[str, Any] = {"model": opened.served.name, "digest": opened.served.digest}
    facts |= {"backend": host.backend.name, "threads": host.config.backend_threads, "repeats": repeats}
    for length, figure in prefill.items():
        facts[f"prefill_{length}_tok_s"] = round(figure.median, 2)
        facts[f"prefill_{length}_spread"] = round(figure.spread, 4)
    facts |= {"decode_tok_s": round(decode.median, 2), "decode_spread": round(decode.spread, 4)}
    facts |= {"verify_s": round(opened.verify_s, 4), "load_s": round(opened.load_s, 4)}
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
    console.print(f"{facts['model']} on {facts['backend']}, {facts['threads']} threads", soft_wrap=True)
    console.print(table)
    times = (
        f"verify {facts['verify_s']:.2f} s, load {facts['load_s']:.2f} s, first token {facts['first_token_s']:.3f} s"
    )
    console.print(f"{times}, peak memory {facts['peak_rss_bytes'] / 2**20:,.0f} MiB", soft_wrap=True)
