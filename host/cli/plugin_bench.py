"""What `plugin bench` measures: time and fuel of each call, memory, all against the limits that the plugin asks for.

* Times are of the whole call as a request sees it: the host's part is in them, also its draw after PASS or EDITED,
  which the guest's limit does not count.
* Fuel (about one for each instruction) is the same on every machine. It is counted in runs of its own, for counting
  slows a guest.
* A limit is the smaller one of the declaration's and the operator's default.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...sandbox import SamplingParams, Sandbox
from ...sandbox.wasm_binary import parse
from .plugin_folder import WASM_PAGE
from .plugin_rows import Loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...sandbox import Limits, SamplerPlugin, TokenizerPlugin, Vocabulary
    from .plugin_folder import AuthoredPlugin
    from .plugin_rows import Config

VOCABULARIES = (4_096, 49_152, 262_144)
"""Logits of a row: a toy, SmolLM2, Gemma 3."""

REQUESTS = {
    "greedy": SamplingParams(temperature=0),
    "sampled": SamplingParams(temperature=0.8, top_p=0.95, top_k=40, min_p=0.05),
    "penalised": SamplingParams(temperature=1.0, repetition_penalty=1.1, presence_penalty=0.5),
}
"""Parameters that requests come with."""

PROSE = "The quick brown fox jumps over the lazy dog, and in 1984 it did so 1,024 times: naïve, isn't it? "
TEXTS = {
    "encode a line": PROSE[:80],
    "encode 4 KiB of prose": PROSE * 43,
    "encode 64 KiB of prose": PROSE * 680,
    "encode 16 KiB of one letter": "a" * 16_384,
}
PROMPT_IDS = 500
"""History of a measured step."""

PATIENCE_S = 0.5
"""Seconds after which a line has been measured often enough, once it has `METERED_CALLS` calls."""

METERED_CALLS = 3
"""Fuel does not vary with the machine, only with the input."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table.

    Attributes:
        name: What was measured.
        calls: How often.
        p50_us: Median of its time, microseconds.
        p99_us: 99th percentile, microseconds.
        fuel: Largest fuel of a call; None where nothing is called.
        limit_ms: What one call may take; None: nothing limits it.
    """

    name: str
    calls: int
    p50_us: float
    p99_us: float
    fuel: int | None = None
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """All that was measured of a plugin; memory in bytes."""

    lines: list[Measured]
    memory_bytes: int
    memory_limit: int
    module_bytes: int

    def facts(self) -> dict[str, Any]:
        """For `--json`."""
        lines = [{field: getattr(line, field) for field in Measured.__slots__} for line in self.lines]
        sizes = {"memory_bytes": self.memory_bytes, "memory_limit": self.memory_limit}
        return {"measured": lines, **sizes, "module_bytes": self.module_bytes}


def bench_plugin(plugin: AuthoredPlugin, vocabulary: Vocabulary, repeats: int, config: Config = None) -> Bench:
    """Measures a plugin.

    Args:
        plugin: What is measured.
        vocabulary: What a tokenizer, or a sampler that asks for it, is loaded with.
        repeats: Most calls of each kind.
        config: Of a sampler; None: none.

    Raises:
        SealhostError: When it is not admitted, or a call fails.
    """
    fuel: list[tuple[str, int]] = []

    def meter(_plugin: str, function: str, spent: int) -> None:
        fuel.append((function, spent))

    with Sandbox(use_cache=False) as plain, Sandbox(meter=meter) as metered:
        if plugin.role == "sampler":
            limits, lines = _sampler(Loads(plain, plugin, vocabulary), metered, fuel, repeats, config)
        else:
            limits, lines = _tokenizer(plugin, plain, metered, fuel, vocabulary, repeats)
    memory = parse(plugin.wasm).memories[0].minimum * WASM_PAGE
    return Bench(lines, memory, limits.memory_bytes, len(plugin.wasm))


def _sampler(
    plain: Loads, metered: Sandbox, fuel: list[tuple[str, int]], repeats: int, config: Config
) -> tuple[Limits, list[Measured]]:
    began = time.perf_counter()
    first = plain(1)
    lines = [_once("admission, compilation and init", time.perf_counter() - began)]
    raw = first.config_bytes(config)
    with Sandbox() as sandbox:  # from here on as a host with a warm cache does it
        cached, slow = plain._replace(sandbox=sandbox), plain._replace(sandbox=metered)
        sizes = sorted({cached(size).vocab_size for size in VOCABULARIES})
        sampler = cached(sizes[-1])
        lines.append(_timed("new session", repeats, lambda: sampler.session(SamplingParams(), [1], config=raw).close()))
        for size in sizes:
            asked = [Asked(name, params, raw) for name, params in REQUESTS.items()]
            lines += [_step(one, cached(size), slow(size), fuel, repeats) for one in asked]
    return first.limits, lines


class Asked(NamedTuple):
    """What a measured request asks for."""

    name: str
    params: SamplingParams
    config: bytes


def _step(
    asked: Asked, fast: SamplerPlugin, slow: SamplerPlugin, fuel: list[tuple[str, int]], repeats: int
) -> Measured:
    fuel.clear()
    _seconds_of_steps(slow, asked, METERED_CALLS)
    spent = max(amount for function, amount in fuel if function == "step")
    seconds = _seconds_of_steps(fast, asked, repeats)
    return _line(f"step, {fast.vocab_size:,} logits, {asked.name}", seconds, spent, fast.limits.step_ms)


def _seconds_of_steps(sampler: SamplerPlugin, asked: Asked, calls: int) -> list[float]:
    numbers = np.random.default_rng(0)
    size = sampler.vocab_size
    prompt = numbers.integers(0, size, min(PROMPT_IDS, sampler.history_capacity - calls)).tolist()
    rows = [numbers.normal(0, 4, size).astype(np.float32) for _ in range(4)]
    seconds: list[float] = []
    with sampler.session(asked.params, prompt, config=asked.config) as session:
        for call in range(calls):
            if _enough(seconds):
                break
            session.logits(0)[:] = rows[call % len(rows)]
            began = time.perf_counter()
            session.prepare((0,))
            (found,) = session.step()
            seconds.append(time.perf_counter() - began)
            session.accept(0, (found.tokens or (0,))[:1], found.backtrack)
    return seconds


def _tokenizer(
    plugin: AuthoredPlugin,
    plain: Sandbox,
    metered: Sandbox,
    fuel: list[tuple[str, int]],
    vocabulary: Vocabulary,
    repeats: int,
) -> tuple[Limits, list[Measured]]:
    began = time.perf_counter()
    tokenizer = plain.load_tokenizer(plugin, vocabulary)
    lines = [_once("admission, compilation and load", time.perf_counter() - began)]
    slow = metered.load_tokenizer(plugin, vocabulary)
    for name, text in TEXTS.items():
        if len(text.encode()) <= tokenizer.max_text_bytes:
            lines.append(_encode(name, text, tokenizer, slow, fuel, repeats))
    return tokenizer.limits, lines


def _encode(
    name: str,
    text: str,
    fast: TokenizerPlugin,
    slow: TokenizerPlugin,
    fuel: list[tuple[str, int]],
    repeats: int,
) -> Measured:
    fuel.clear()
    slow.encode(text, add_special=False, parse_special=False)
    spent = max(amount for function, amount in fuel if function == "encode")
    line = _timed(name, repeats, lambda: fast.encode(text, add_special=False, parse_special=False))
    return Measured(line.name, line.calls, line.p50_us, line.p99_us, spent, fast.limits.encode_ms)


def _once(name: str, seconds: float) -> Measured:
    return _line(name, [seconds])


def _timed(name: str, repeats: int, call: Callable[[], object]) -> Measured:
    seconds: list[float] = []
    while len(seconds) < repeats and not _enough(seconds):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return _line(name, seconds)


def _enough(seconds: list[float]) -> bool:
    return len(seconds) >= METERED_CALLS and sum(seconds) > PATIENCE_S


def _line(name: str, seconds: list[float], fuel: int | None = None, limit_ms: int | None = None) -> Measured:
    p99 = float(np.percentile(seconds, 99))
    return Measured(name, len(seconds), round(statistics.median(seconds) * 1e6, 1), round(p99 * 1e6, 1), fuel, limit_ms)
