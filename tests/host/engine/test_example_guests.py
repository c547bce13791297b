"""The kit's example guests at work on the demo model: a shared instance, steps back, runs of ids, masks, candidates."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from sealhost.host.cli.main import run
from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.engine.loop import Engine
from sealhost.sandbox import SamplingParams, Sandbox

pytestmark = pytest.mark.model

EXAMPLES = Path(__file__).parents[2] / "plugins" / "kit" / "examples"
NAMES = ("company", "no_doubles", "parity", "refrain", "runner_up")
PATIENCE = 120
LIKED = 100.0
"""A bias that decides."""


@pytest.fixture(scope="module")
def engine(loaded, config, tmp_path_factory):
    """The demo model with the examples, built from their sources, as samplers."""
    root = tmp_path_factory.mktemp("examples")
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(cache_directory=root / "cache"))
        samplers = {}
        for name in NAMES:
            folder = root / name
            folder.mkdir()
            for path in (EXAMPLES / name).iterdir():
                (folder / path.name).write_bytes(path.read_bytes())
            assert run(["plugin", "build", str(folder)]) == 0
            samplers[name] = sandbox.load_sampler(AuthoredPlugin.read(folder), loaded.spec.vocab)
        one = Engine(replace(loaded, samplers=samplers), config)
        one.start()
        stack.enter_context(closing(one))
        yield one


@pytest.fixture
def ask(engine, twin, smollm2_goldens):
    prompt = [token for golden in smollm2_goldens[:3] for token in golden["token_ids"]]

    def ask(sampler: str, tokens: int, *, n: int = 1, temperature: float = 0, liked=(), **more):
        bias = tuple((token, LIKED) for token in liked)
        params = SamplingParams(temperature=temperature, seed=5, logit_bias=bias)
        requests = twin.group(prompt, tokens, n=n, name=sampler, sampler=sampler, **more)
        clients = [twin.Client() for _ in requests]
        for one, client in zip(requests, clients, strict=True):
            engine.submit(replace(one, params=params, stop_ids=frozenset()), client)
        assert all(client.ended.wait(PATIENCE) for client in clients)
        for client in clients:
            assert client.last.reason == "length", client.last
            assert len(client.tokens) == client.last.completion_tokens == tokens
        return clients

    return ask


def test_choices_in_one_instance_know_of_each_other(ask, engine):
    sampler = engine._core._loaded.samplers["company"]
    before = sampler.stats().sessions
    clients = ask("company", 10, n=4)
    assert all(len(set(place)) == 4 for place in zip(*(client.tokens for client in clients), strict=True))
    assert sampler.stats().sessions == before + 1


@pytest.mark.parametrize("logprobs", [None, 0])
def test_what_was_said_is_taken_back_before_anyone_reads_it(ask, logprobs):
    (client,) = ask("no_doubles", 8, liked=[504], logprobs=logprobs)
    assert client.tokens == [504, 505] * 3 + [504, 504]  # the last one ends the answer before the guest sees it


@pytest.mark.parametrize("logprobs", [None, 1])
def test_ids_that_are_known_need_no_draw(ask, engine, logprobs):
    before = engine.stats().steps
    (client,) = ask("refrain", 10, liked=[7], logprobs=logprobs)
    assert client.tokens == [7, 1, 2, 3, 7, 1, 2, 3, 7, 1]
    steps = engine.stats().steps - before
    assert steps <= (10 if logprobs is not None else 7)


def test_runs_of_ids_go_through_the_model_as_if_they_had_been_drawn(ask):
    (at_once,) = ask("refrain", 6, liked=[7])
    (one_by_one,) = ask("refrain", 6, liked=[7], logprobs=3)
    (again,) = ask("refrain", 6, liked=[7], logprobs=3)
    assert at_once.tokens == one_by_one.tokens
    assert [event.logprobs for event in one_by_one.events[:-1]] == [event.logprobs for event in again.events[:-1]]


def test_a_mask_made_while_the_model_works_holds_in_every_choice(ask):
    for client in ask("parity", 16, n=2, temperature=1.2):
        assert [token % 2 for token in client.tokens] == [0, 1] * 8


def test_a_guest_that_sees_candidates_takes_the_second_best(ask):
    (client,) = ask("runner_up", 6, logprobs=2)
    for event in client.events[:-1:2]:
        assert event.token == event.logprobs.top[1][0]
    for event in client.events[1:-1:2]:
        assert event.token != event.logprobs.top[0][0]
