"""A random one-layer model, from its file through the loader and the CPU kernels to the engine's answers."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import FinishEvent, GenerationRequest, TokenEvent
from sealhost.host.weights.loader import load
from sealhost.kernels.cpu import CpuBackend
from sealhost.sandbox import OperatorLimits, SamplingParams

PATIENCE = 120
ANSWER = 12
CONFIG = EngineConfig(max_sequences=16, step_tokens=64)


class Choice(NamedTuple):
    tokens: tuple[int, ...]
    backtrack: int = 0
    stop: bool = False


class Greedy:
    """A sampler, and its sessions."""

    tier, max_rows, max_backtrack, history_capacity = "full", 1, 0, 1 << 20

    def session(self, *_args, **_choices):
        session = Greedy()
        session.row = np.zeros(8, np.float32)
        return session

    def logits_address(self, _slot):
        return self.row.ctypes.data

    def logits(self, _slot):
        return self.row

    def step(self, slots):
        return [Choice((int(self.row.argmax()),)) for _ in slots]

    def accept(self, *_what_stands):
        """Nothing is remembered."""

    def close(self):
        """Nothing is held."""


@pytest.fixture(scope="module")
def tiny(tiny_llama, memory_weights):
    bundle = SimpleNamespace(
        weights=memory_weights(tiny_llama().build()),
        template=None,
        plugins=(SimpleNamespace(name="t", role="tokenizer"), SimpleNamespace(name="greedy", role="sampler")),
        manifest=SimpleNamespace(name="tiny", version=1),
        digest="",
    )
    plugins = SimpleNamespace(limits=OperatorLimits(), load_tokenizer=lambda *_: None, load_sampler=lambda *_: Greedy())
    with load(bundle, plugins, CpuBackend(), CONFIG) as loaded:
        yield loaded


def answers(loaded, prompts, **settings):
    """What the engine answers to all prompts at once: ids and the log-probabilities of all eight ids at each step."""
    told = [[] for _ in prompts]
    ended = [threading.Event() for _ in prompts]
    engine = Engine(loaded, replace(CONFIG, **settings))
    engine.start()
    with closing(engine):
        for number, prompt in enumerate(prompts):

            def sink(event, number=number):
                told[number].append(event)
                if not isinstance(event, TokenEvent):
                    ended[number].set()

            params = SamplingParams(temperature=0)
            engine.submit(GenerationRequest(str(number), tuple(prompt), ANSWER, params, logprobs=8), sink)
        assert all(one.wait(PATIENCE) for one in ended)
        stats = engine.stats()
    assert all(isinstance(events[-1], FinishEvent) for events in told), told
    assert stats.kv_free_blocks == stats.kv_total_blocks
    return [[(one.token, one.logprobs) for one in events[:-1]] for events in told]


def prompts_of(count):
    numbers = np.random.default_rng(11)
    return [numbers.integers(0, 8, int(length)).tolist() for length in numbers.integers(1, 50, count)]


@pytest.fixture(scope="module")
def alone(tiny):
    return [answers(tiny, [prompt])[0] for prompt in prompts_of(16)]


@pytest.mark.parametrize("others", [1, 7, 15])
@pytest.mark.parametrize("backwards", [False, True])
def test_an_answer_is_bit_for_bit_the_same_whoever_else_is_there(tiny, alone, others, backwards):
    prompts, expected = prompts_of(16)[: others + 1], alone[: others + 1]
    if backwards:
        prompts, expected = prompts[::-1], expected[::-1]
    assert answers(tiny, prompts) == expected


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 16, 17, 64])
def test_an_answer_is_bit_for_bit_the_same_in_chunks_of_any_size(tiny, alone, chunk):
    got = answers(tiny, prompts_of(16)[:3], step_tokens=max(chunk, 3), max_sequences=3, chunk_beside_decode=chunk)
    assert got == alone[:3]


def test_the_random_model_says_different_things(alone):
    """So that the tests above compare something."""
    assert len({tuple(token for token, _ in one) for one in alone}) > 8
