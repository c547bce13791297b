"""The real thing: a packed, signed and verified bundle of the demo model, its guests in the sandbox, answers out."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ChoiceGroup, GenerationRequest, TokenEvent
from sealhost.sandbox import SamplingParams

pytestmark = pytest.mark.model

PATIENCE = 120
"""Seconds after which a test gives up."""

GREEDY = SamplingParams(temperature=0)
CLEAR_LEAD = 0.3
"""Log-probability by which the likeliest must lead before it has to be found."""


@pytest.fixture(scope="module")
def engine(loaded, config):
    one = Engine(loaded, config)
    one.start()
    with closing(one):
        yield one


def generate(engine: Engine, twin, requests):
    """Submits all at once and waits for all; answers the clients."""
    clients = [twin.Client() for _ in requests]
    for one, client in zip(requests, clients, strict=True):
        engine.submit(one, client)
    assert all(client.ended.wait(PATIENCE) for client in clients)
    return clients


def asked(name: str, ids, count: int, params: SamplingParams = GREEDY, **more) -> GenerationRequest:
    return GenerationRequest(name, tuple(ids), count, params, **more)


def test_what_came_in_the_bundle_is_there(loaded):
    assert loaded.spec.layers == 30
    assert loaded.context == 1024
    assert "<|im_start|>" in loaded.template  # the model file's own: the bundle brought none
    assert list(loaded.samplers) == ["standard"]
    assert loaded.end_ids == {0, 2}
    assert loaded.report.total_s > 0
    assert set(loaded.report.memory_bytes) == {"weights", "kv", "scratch"}


def test_weights_and_pool_together_take_little_more_than_the_file(loaded, config, smollm2_gguf):
    held = loaded.report.memory_bytes
    assert held["weights"] + held["scratch"] <= 1.2 * smollm2_gguf.stat().st_size
    assert held["kv"] <= config.kv_bytes


def test_prompts_encode_to_the_golden_ids_and_back(loaded, engine, smollm2_goldens):
    for golden in smollm2_goldens:
        assert loaded.tokenizer.encode(golden["prompt"], add_special=True, parse_special=False) == golden["token_ids"]
        assert engine.table.text(golden["token_ids"]) == golden["prompt"]


def test_log_probabilities_are_as_close_to_the_exact_ones_as_llama_cpps(engine, twin, smollm2_goldens):
    ours, theirs = [], []
    for golden in smollm2_goldens:
        (client,) = generate(engine, twin, [asked("a", golden["token_ids"], 1, logprobs=20)])
        report = client.events[0].logprobs
        exact = dict(map(tuple, golden["exact_top20_logprobs"]))
        peer = dict(map(tuple, golden["llamacpp_top10_logprobs"]))
        common = [(one, value) for one, value in report.top if one in exact and one in peer]
        ours += [abs(value - exact[one]) for one, value in common]
        theirs += [abs(peer[one] - exact[one]) for one, _ in common]
        best, second = list(exact)[:2]
        if exact[best] - exact[second] > CLEAR_LEAD:
            assert report.top[0][0] == best == client.tokens[0]
        assert report.top[0] == (report.token, report.logprob)
    assert len(ours) > 40
    assert np.mean(ours) <= np.mean(theirs)


def test_a_greedy_continuation_makes_sense(engine, twin, smollm2_goldens):
    golden = smollm2_goldens[0]
    assert golden["prompt"] == "The capital of France is"
    (client,) = generate(engine, twin, [asked("a", golden["token_ids"], 12)])
    assert client.text.startswith(" Paris.")
    assert client.tokens[:5] == golden["llamacpp_greedy_ids"][:5]
    assert client.last.reason == "length"


@pytest.mark.parametrize(
    "params", [GREEDY, SamplingParams(temperature=0.9, top_p=0.95, seed=7)], ids=["greedy", "seeded"]
)
def test_eight_together_give_token_for_token_what_each_gives_alone(engine, twin, smollm2_goldens, params):
    prompts = [smollm2_goldens[n % len(smollm2_goldens)]["token_ids"][n // 6 :] for n in range(8)]
    requests = [asked(str(n), prompt, 16, params, choice=n % 2) for n, prompt in enumerate(prompts)]
    together = [client.tokens for client in generate(engine, twin, requests)]
    alone = [generate(engine, twin, [one])[0].tokens for one in requests]
    assert together == alone
    stats = engine.stats()
    assert stats.kv_free_blocks == stats.kv_total_blocks


def test_choices_that_share_a_sandbox_give_what_each_gives_in_its_own(loaded, engine, twin, smollm2_goldens):
    ids = [token for golden in smollm2_goldens for token in golden["token_ids"]]
    assert len(ids) > 40  # some whole blocks that the choices share, too
    params = SamplingParams(temperature=0.9, top_p=0.95, seed=3)
    alone = [asked(f"alone-{n}", ids, 12, params, choice=n) for n in range(3)]
    expected = [client.tokens for client in generate(engine, twin, alone)]
    sampler = loaded.samplers["standard"]
    before = sampler.stats()
    group = ChoiceGroup("g", 3)
    shared = [replace(one, id=f"shared-{one.choice}", group=group) for one in alone]
    assert [client.tokens for client in generate(engine, twin, shared)] == expected
    assert len(set(map(tuple, expected))) == 3
    after = sampler.stats()
    assert after.sessions - before.sessions == -(-3 // min(sampler.max_rows, 3))
    assert after.live == before.live


def test_seeds_decide_and_differ(engine, twin, smollm2_goldens):
    ids = smollm2_goldens[0]["token_ids"]
    requests = [asked(str(n), ids, 16, SamplingParams(temperature=1.5, seed=n // 2)) for n in range(4)]
    first, again, other, _ = (client.tokens for client in generate(engine, twin, requests))
    assert first == again
    assert first != other


def test_preemption_changes_no_token(loaded, config, engine, twin, smollm2_goldens):
    requests = [asked(str(n), golden["token_ids"], 28) for n, golden in enumerate(smollm2_goldens[:4])]
    expected = [client.tokens for client in generate(engine, twin, requests)]
    small = Engine(replace(loaded, kv_blocks=6), config)
    small.start()
    with closing(small):
        assert [client.tokens for client in generate(small, twin, requests)] == expected
        assert small.stats().preemptions > 0


def test_a_client_that_goes_away_costs_at_most_one_more_step(engine, twin, smollm2_goldens):
    seen: list[int] = []
    gone = threading.Event()

    def sink(event):
        seen.append(event.token)
        if len(seen) == 3:
            engine.cancel("gone")
            gone.set()

    before = engine.stats().steps
    engine.submit(asked("gone", smollm2_goldens[0]["token_ids"], 500), sink)
    assert gone.wait(PATIENCE)
    (after,) = generate(engine, twin, [asked("after", smollm2_goldens[1]["token_ids"], 2)])
    assert len(seen) == 3
    assert engine.stats().steps - before <= 3 + 1 + 2
    assert all(isinstance(one, TokenEvent) for one in after.events[:2])


def test_an_end_of_generation_id_ends_the_answer(loaded, engine, twin):
    chat = "<|im_start|>user\nSay only the word yes.<|im_end|>\n<|im_start|>assistant\n"
    ids = loaded.tokenizer.encode(chat, add_special=True, parse_special=True)
    (client,) = generate(engine, twin, [asked("a", ids, 200, stop_ids=loaded.end_ids)])
    assert client.last.reason == "stop"
    assert client.last.completion_tokens == len(client.tokens) + 1
    assert "<|im_end|>" not in client.text
