"""What guests cost apart from their own work: starting an instance, one step's way in and out, loading from the cache.

    python tests/bench/guests_cost.py MODEL.gguf     # serving.py prints the same table behind its own

MODEL.gguf: any file with a vocabulary of byte-level BPE; its weights are not read.

* An instance is what each request gets; its start is measured with the reference guests, tokenizers with their
  vocabulary loaded.
* A step's overhead is the whole of `step` and `accept` of a guest that answers at once.
* A cached load is what a restarted host does for each plugin, admission included: a sandbox of its own and a vocabulary
  that nobody has looked at each time, over a cache that has everything. The first plugin makes the vocabulary's digest,
  of strings that were hashed when the file was read, as a model's are.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import msgspec
import numpy as np
import wasmtime

from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.gguf_types import Strings
from sealhost.host.weights.vocabulary import vocabulary as read_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox import SamplingParams, Sandbox, Vocabulary
from sealhost.sandbox.abi import TokenType
from sealhost.sandbox.instance import Instance

LARGE = 262_144
"""Tokens of Gemma 3's vocabulary."""
ROUNDS = 12

AT_ONCE = """(module (memory (export "memory") 2 2) (data (i32.const 64) "{layout}")
  (func (export "sealhost_sampler_v1") (result i32) (i32.const 0)) (func (export "layout") (result i32) (i32.const 64))
  (func (export "init") (result i32) (i32.const 0)) (func (export "reset") (result i32) (i32.const 0))
  (func (export "step") (param i32) (result i32)
    (i64.store (i32.const 8320) (i64.const 0x100000010)) (i64.store (i32.const 8328) (i64.const 5)) (i32.const 0)))"""
LAYOUT = np.array(
    [88, 0, 1, 512, 4096, 4096, 8192, 8320, 16384, 8192, 8448, 8, 9216, 128, 10240, 128, 0, 0, 0, 0, 0, 0], "<u4"
)


class Line(NamedTuple):
    """What is measured, and the microseconds that it may take at most."""

    name: str
    wanted: float


@dataclass(frozen=True)
class Cost:
    """A line of the table; microseconds.

    Attributes:
        name: What was measured.
        wanted: The most that it may take.
        median: Of all.
        low: Of all.
        high: 99 of 100 take no longer.
    """

    name: str
    wanted: float
    median: float
    low: float
    high: float


def costs(vocabulary: Vocabulary) -> list[Cost]:
    """The table, for a model's vocabulary and for one of Gemma 3's size.

    All is measured in rounds, so that a neighbour's busy second falls on every line and on none alone.
    """
    seconds: dict[Line, list[float]] = defaultdict(list)
    large = _grown(vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        with Sandbox(cache_directory=cache) as sandbox:
            measures = [
                *_instances(sandbox, vocabulary, 200),
                *_instances(sandbox, large, 500),
                partial(_steps, sandbox.load_sampler(_at_once(), 260)),
                partial(_restarts, cache, vocabulary),
                partial(_restarts, cache, large),
            ]
            for _ in range(ROUNDS):
                for measure in measures:
                    for line, found in measure().items():
                        seconds[line] += found
    return [_cost(line, found) for line, found in seconds.items()]


def _instances(sandbox: Sandbox, vocabulary: Vocabulary, wanted: float) -> list[Callable[[], dict[Line, list[float]]]]:
    size = len(vocabulary.texts)
    tokenizer = sandbox.load_tokenizer(_plugin("tokenizer", "bpe"), vocabulary)
    sampler = sandbox.load_sampler(_plugin("sampler", "standard"), size, vocabulary)
    start, session = (
        Line(f"new tokenizer instance, {size:,} tokens", wanted),
        Line(f"new sampler session, {size:,} logits", wanted),
    )
    return [
        lambda: {start: _seconds(40, lambda: Instance(tokenizer._program).close())},
        lambda: {session: _seconds(40, lambda: sampler.session(SamplingParams(), [1]).close())},
    ]


def _steps(sampler) -> dict[Line, list[float]]:
    seconds = []
    with sampler.session(SamplingParams(), [1]) as session:
        for _ in range(1000):
            began = time.perf_counter()
            (decision,) = session.step((0,))
            session.accept(0, decision.tokens, decision.backtrack)
            seconds.append(time.perf_counter() - began)
    return {Line("sampler step, host's part", 10): seconds[100:]}


def _restarts(cache: Path, vocabulary: Vocabulary) -> dict[Line, list[float]]:
    bpe, standard, size = _plugin("tokenizer", "bpe"), _plugin("sampler", "standard"), len(vocabulary.texts)
    loads: dict[Line, Callable] = {
        Line(f"cached load, first, bpe, {size:,} tokens", 10_000): lambda sandbox, words: sandbox.load_tokenizer(
            bpe, words
        ),
        Line(f"cached load, second, standard, {size:,}", 10_000): lambda sandbox, words: sandbox.load_sampler(
            standard, size, words
        ),
    }
    seconds: dict[Line, list[float]] = {line: [] for line in loads}
    for _ in range(4):
        words = replace(vocabulary)  # its digest is not known yet
        with Sandbox(cache_directory=cache) as sandbox:
            for line, load in loads.items():
                began = time.perf_counter()
                plugin = load(sandbox, words)
                seconds[line].append(time.perf_counter() - began)
                del plugin  # its end is no part of it
    return {line: found[1:] for line, found in seconds.items()}


def _seconds(count: int, call: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds[count // 10 :]


def _cost(line: Line, seconds: list[float]) -> Cost:
    micro = np.array(seconds) * 1e6
    return Cost(*line, statistics.median(micro), float(micro.min()), float(np.percentile(micro, 99)))


def _plugin(role: str, name: str) -> AuthoredPlugin:
    return AuthoredPlugin.read(reference_plugin(role, name))


def _at_once():
    escaped = "".join(f"\\{byte:02x}" for byte in LAYOUT.tobytes())
    wasm = bytes(wasmtime.wat2wasm(AT_ONCE.replace("{layout}", escaped)))
    limits = SimpleNamespace(memory_bytes=1 << 20, init_ms=500, load_ms=500, step_ms=100, encode_ms=50)
    return AuthoredPlugin(wasm, name="at once", role="sampler", abi=1, tier="full", limits=limits)


def _grown(vocabulary: Vocabulary) -> Vocabulary:
    """A vocabulary of LARGE tokens: the given one, and merges of two of its tokens."""
    taken, more = set(vocabulary.texts), []
    alphabet = [text for text, kind in zip(vocabulary.texts, vocabulary.types, strict=True) if kind == TokenType.NORMAL]
    pairs = ((left, right) for left in alphabet[1000:4000] for right in alphabet[1000:4000])
    missing = LARGE - len(vocabulary.texts)
    for left, right in pairs:
        text = left + right
        if text not in taken:
            taken.add(text)
            more.append((text, left, right))
            if len(more) == missing:
                break
    spelled = dict(zip(vocabulary.texts, vocabulary.token_bytes, strict=True))
    merges = [b" ".join((left, right)) for _, left, right in more]
    return replace(
        vocabulary,
        texts=_hashed((*vocabulary.texts, *(text for text, _, _ in more))),
        types=np.append(vocabulary.types, np.full(missing, TokenType.NORMAL, np.uint8)),
        scores=np.append(vocabulary.scores, np.zeros(missing, np.float32)),
        merges=_hashed((*vocabulary.merges, *merges)),
        token_bytes=_hashed((*vocabulary.token_bytes, *(spelled[left] + spelled[right] for _, left, right in more))),
    )


def _hashed(column: tuple[bytes, ...]) -> Strings:
    return Strings.hashed(column, hashlib.sha256(msgspec.msgpack.encode(column)).digest())


def print_table(table: list[Cost]) -> None:
    """One line for each cost."""
    print("guests, microseconds: median (lowest-99 of 100), and the most that is wanted")
    for line in table:
        print(f"  {line.name:44} {line.median:10,.1f} ({line.low:,.1f}-{line.high:,.1f}) of {line.wanted:,.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model
    print_table(costs(read_vocabulary(GgufFile.parse(model.read_bytes()))))
