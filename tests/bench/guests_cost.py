"""What guests cost apart from their own work: starting an instance, one step's way in and out, loading from the cache.

    python tests/bench/guests_cost.py MODEL.gguf     # serving.py prints the same table behind its own

MODEL.gguf: any file with a vocabulary of byte-level BPE; its weights are not read.

* An instance is what each request gets; its start is measured with the reference guests, tokenizers with their
  vocabulary loaded.
* A step's overhead is the whole of `step` and `accept` of a guest that answers at once.
* A cached load is what a restarted host does for each plugin, admission included: a sandbox of its own and a vocabulary
  that nobody has looked at each time, over a cache that has everything. The first plugin makes the vocabulary's digest.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import wasmtime

from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.vocabulary import vocabulary as read_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox import SamplingParams, Sandbox, Vocabulary
from sealhost.sandbox.abi import TokenType
from sealhost.sandbox.instance import Instance

LARGE = 262_144
"""Tokens of Gemma 3's vocabulary."""

AT_ONCE = """(module (memory (export "memory") 2 2) (data (i32.const 64) "{layout}")
  (func (export "sealhost_sampler_v1") (result i32) (i32.const 0)) (func (export "layout") (result i32) (i32.const 64))
  (func (export "init") (result i32) (i32.const 0)) (func (export "reset") (result i32) (i32.const 0))
  (func (export "step") (param i32) (result i32)
    (i64.store (i32.const 8320) (i64.const 0x100000010)) (i64.store (i32.const 8328) (i64.const 5)) (i32.const 0)))"""
LAYOUT = np.array(
    [88, 0, 1, 512, 4096, 4096, 8192, 8320, 16384, 8192, 8448, 8, 9216, 128, 10240, 128, 0, 0, 0, 0, 0, 0], "<u4"
)


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
    """The table, for a model's vocabulary and for one of Gemma 3's size."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        bpe, standard = (_plugin(role, name) for role, name in (("tokenizer", "bpe"), ("sampler", "standard")))
        lines = []
        with Sandbox(cache_directory=cache) as sandbox:
            for words, wanted in ((vocabulary, 200), (_grown(vocabulary), 500)):
                size = len(words.texts)
                tokenizer, sampler = sandbox.load_tokenizer(bpe, words), sandbox.load_sampler(standard, size, words)
                lines.append(_cost(f"new tokenizer instance, {size:,} tokens", wanted, _starts(tokenizer)))
                lines.append(_cost(f"new sampler session, {size:,} logits", wanted, _sessions(sampler)))
            at_once = sandbox.load_sampler(_at_once(), 260)
            lines.append(_cost("sampler step, host's part", 10, _steps(at_once)))
        size = len(vocabulary.texts)
        restarts = _restarts(
            cache,
            vocabulary,
            {
                "first plugin, bpe": lambda sandbox, words: sandbox.load_tokenizer(bpe, words),
                "second, standard": lambda sandbox, words: sandbox.load_sampler(standard, size, words),
            },
        )
        lines += [_cost(f"cached load, {name}", 10_000, seconds) for name, seconds in restarts.items()]
    return lines


def _starts(tokenizer) -> list[float]:
    return _seconds(300, lambda: Instance(tokenizer._program).close())


def _sessions(sampler) -> list[float]:
    return _seconds(300, lambda: sampler.session(SamplingParams(), [1]).close())


def _steps(sampler) -> list[float]:
    seconds = []
    with sampler.session(SamplingParams(), [1]) as session:
        for _ in range(5000):
            began = time.perf_counter()
            (decision,) = session.step((0,))
            session.accept(0, decision.tokens, decision.backtrack)
            seconds.append(time.perf_counter() - began)
    return seconds[500:]


def _restarts(cache: Path, vocabulary: Vocabulary, loads: dict[str, Callable]) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in loads}
    for _ in range(30):
        words = replace(vocabulary)  # its digest is not known yet
        with Sandbox(cache_directory=cache) as sandbox:
            for name, load in loads.items():
                began = time.perf_counter()
                load(sandbox, words)
                seconds[name].append(time.perf_counter() - began)
    return {name: found[1:] for name, found in seconds.items()}


def _seconds(count: int, call: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds[count // 10 :]


def _cost(name: str, wanted: float, seconds: list[float]) -> Cost:
    micro = np.array(seconds) * 1e6
    return Cost(name, wanted, statistics.median(micro), float(micro.min()), float(np.percentile(micro, 99)))


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
        texts=(*vocabulary.texts, *(text for text, _, _ in more)),
        types=np.append(vocabulary.types, np.full(missing, TokenType.NORMAL, np.uint8)),
        scores=np.append(vocabulary.scores, np.zeros(missing, np.float32)),
        merges=(*vocabulary.merges, *merges),
        token_bytes=(*vocabulary.token_bytes, *(spelled[left] + spelled[right] for _, left, right in more)),
    )


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
