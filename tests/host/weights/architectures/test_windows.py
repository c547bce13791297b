"""Models with windows behind the engine: blocks that are given back, shared and taken anew change no bit (clause 2.22)."""

from __future__ import annotations

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from running import built
from tiny_models import VOCAB

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ChoiceGroup, FinishEvent, GenerationRequest
from sealhost.host.weights.loader import load
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.cpu import CpuBackend
from sealhost.sandbox import OperatorLimits, SamplingParams

PATIENCE = 120
BACK = 8
CONFIG = EngineConfig(context=112, step_tokens=16, max_sequences=4)


class Choice(NamedTuple):
    tokens: tuple[int, ...]
    backtrack: int = 0
    stop: bool = False


class Wanderer:
    """A sampler that goes three ids ahead and up to BACK of them back, and notes the logits behind all ids it was at."""

    tier, max_rows, max_backtrack, history_capacity = "full", 1, BACK, 1 << 20

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], np.ndarray]] = []

    def session(self, _params, prompt_ids, *, choices=(0,), **_config):
        return Session(self.seen, list(prompt_ids), choices[0])


class Session:
    def __init__(self, seen, ids, choice) -> None:
        self.seen, self.ids, self.choice = seen, ids, choice
        self.row = np.zeros(VOCAB, np.float32)
        self.steps = self.loose = 0

    def logits_address(self, _slot):
        return self.row.ctypes.data

    def logits(self, _slot):
        return self.row

    def step(self, slots):
        self.seen.append((list(self.ids), self.row.copy()))
        self.steps += 1
        ahead = (int(self.row.argmax()), (self.steps + self.choice) % VOCAB, int(self.row.argmin()))
        return [Choice(ahead, min(self.loose, BACK) if self.steps % 5 == 4 else 0) for _ in slots]

    def accept(self, _slot, tokens, backtrack=0):
        del self.ids[len(self.ids) - backtrack :]
        self.ids += tokens
        self.loose = min(BACK, self.loose - backtrack + len(tokens))

    def close(self):
        """Nothing is held."""


@pytest.fixture(scope="module")
def cpu():
    return CpuBackend()


def loaded(raw, sampler, cpu, memory_weights):
    """A tiny model with pools of its own for windows, as the host loads it."""
    plugins = SimpleNamespace(
        limits=OperatorLimits(max_backtrack=BACK), load_tokenizer=lambda *_: None, load_sampler=lambda *_: sampler
    )
    roles = (SimpleNamespace(name="t", role="tokenizer"), SimpleNamespace(name="s", role="sampler"))
    bundle = SimpleNamespace(
        weights=memory_weights(raw),
        template=None,
        plugins=roles,
        manifest=SimpleNamespace(name="m", version=1),
        digest="",
    )
    return load(bundle, plugins, cpu, CONFIG)


def finished(engine, requests):
    """Runs requests to their end."""
    ended = [threading.Event() for _ in requests]
    last = [None] * len(requests)
    for number, request in enumerate(requests):

        def sink(event, number=number):
            last[number] = event
            if isinstance(event, FinishEvent) or hasattr(event, "error"):
                ended[number].set()

        engine.submit(request, sink)
    assert all(one.wait(PATIENCE) for one in ended)
    assert all(isinstance(one, FinishEvent) for one in last), last


def whole(model, ids):
    """The logits behind these ids, by a model that keeps everything."""
    logits, batch = np.empty(VOCAB, np.float32), StepBatch.allocate(max_tokens=64, max_sequences=1, max_blocks=8)
    for start in range(0, len(ids), 64):
        batch.clear()
        batch.add(ids[start : start + 64], start=start, blocks=range(8), logits_address=logits.ctypes.data)
        model.step(batch)
    return logits


@pytest.mark.parametrize("name", ["gemma3", "gemma2", "mistral with a window", "phi3 with a window"])
def test_answers_of_many_windows_have_the_bits_of_a_cache_that_keeps_everything(files, cpu, memory_weights, name):
    sampler = Wanderer()
    rng = np.random.default_rng(3)
    long, short = rng.integers(0, VOCAB, 70).tolist(), rng.integers(0, VOCAB, 5).tolist()
    greedy = SamplingParams(temperature=0)
    group = [
        GenerationRequest(f"long {n}", tuple(long), 40, greedy, choice=n, group=ChoiceGroup("g", 2)) for n in range(2)
    ]
    with loaded(files[name], sampler, cpu, memory_weights) as model:
        assert model.spec.window == 7
        assert model.window_blocks < 3 * 7  # what the three sequences would keep
        engine = Engine(model, CONFIG)
        engine.start()
        with closing(engine):
            finished(engine, [*group, GenerationRequest("short", tuple(short), 100, greedy)])
            stats = engine.stats()
    assert (stats.kv_free_blocks, stats.window_free_blocks) == (stats.kv_total_blocks, stats.window_total_blocks)
    assert max(len(ids) for ids, _ in sampler.seen) > 100
    with closing(built(cpu, files[name])) as reference:
        for ids, logits in sampler.seen:
            assert np.array_equal(logits, whole(reference, ids))
