"""The choices of one call compute their prompt once, and hold its blocks together (clause 2.20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

PROMPT = list(range(40))
"""Two whole blocks, and eight ids more."""


def added(twin, core, requests):
    clients = [twin.Client() for _ in requests]
    for request, client in zip(requests, clients, strict=True):
        core.add(request, client)
    return clients


def runs(house):
    """First position and length of each run, step by step."""
    return [[run[:2] for run in step] for step in house.model.steps]


@pytest.mark.parametrize("rows", [1, 4])
def test_a_prompt_is_computed_once_and_its_whole_blocks_are_held_together(twin, rows):
    house = twin.House(sampler=twin.Sampler(max_rows=rows))
    core = house.core()
    clients = added(twin, core, twin.group(PROMPT, 5, n=4))
    core.turn()
    assert runs(house) == [[(0, 32)]]
    core.turn()
    assert runs(house)[1] == [(32, 8)] * 4
    assert core.pool.used == 2 + 4  # two whole blocks for all, one for each
    twin.drain(core)
    assert [client.tokens for client in clients] == [twin.answer(PROMPT, 5)] * 4
    assert core.stats.prompt_tokens == 32 + 4 * 8
    assert all(session.calls == [tuple(range(rows))] * 5 for session in house.sampler.sessions)
    twin.leaves_nothing(core, house)


@pytest.mark.parametrize(("length", "shared"), [(16, 0), (17, 16), (32, 16), (33, 32)])
def test_the_last_id_of_a_prompt_is_each_choices_own(twin, length, shared):
    house = twin.House()
    prompt = PROMPT[:length]
    clients = twin.run(house, twin.group(prompt, 3, n=2))
    assert [client.tokens for client in clients] == [twin.answer(prompt, 3)] * 2
    own = [(shared, length - shared)] * 2
    assert [run for step in runs(house) for run in step if run[0] < length] == [(0, shared)] * (shared > 0) + own


def test_a_long_prompt_is_waited_for_while_others_go_on(twin):
    house = twin.House()
    core = house.core(step_tokens=16, max_sequences=4, chunk_beside_decode=8)
    first = added(twin, core, [twin.request("other", [9], 20)])
    core.turn()
    clients = added(twin, core, twin.group(PROMPT, 5, n=2))
    for _ in range(4):
        core.turn()
    assert [step[1:] for step in runs(house)[1:5]] == [[(0, 8)], [(8, 8)], [(16, 8)], [(24, 8)]]
    twin.drain(core)
    assert first[0].tokens == twin.answer([9], 20)
    assert [client.tokens for client in clients] == [twin.answer(PROMPT, 5)] * 2


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
def test_when_the_eldest_leaves_the_next_one_goes_on(twin, turns):
    house = twin.House()
    core = house.core(step_tokens=16, max_sequences=4)
    clients = added(twin, core, twin.group(PROMPT, 5, n=3))
    for _ in range(turns):
        core.turn()
        core.pool.check()
    core.cancel("g-0")
    core.pool.check()
    twin.drain(core)
    assert [client.tokens for client in clients[1:]] == [twin.answer(PROMPT, 5)] * 2
    twin.leaves_nothing(core, house)


def test_requests_of_other_prompts_or_other_groups_share_nothing(twin):
    house = twin.House()
    first, second = twin.group(PROMPT, 2, n=2)
    requests = [
        first,
        replace(second, prompt_ids=(*PROMPT[:39], 7)),
        *twin.group(PROMPT, 2, n=1, name="h"),
        twin.request("alone", PROMPT, 2),
    ]
    twin.run(house, requests)
    assert runs(house)[0] == [(0, 40)] * 4


def test_more_choices_than_the_pool_would_hold_apart_run_together(twin):
    house = twin.House(blocks=12, sampler=twin.Sampler(max_rows=4))
    core = house.core()
    clients = added(twin, core, twin.group([1] * 65, 8, n=4))  # five blocks each, four of them shared
    core.turn()
    core.turn()
    assert core.stats.running == 4
    assert core.pool.used == 4 + 4
    twin.drain(core)
    assert core.stats.preemptions == 0
    assert [client.tokens for client in clients] == [twin.answer([1] * 65, 8)] * 4
    twin.leaves_nothing(core, house)


def test_a_preempted_choice_takes_the_blocks_over_again(twin):
    house = twin.House(blocks=64)
    core = house.core()
    clients = added(twin, core, twin.group(PROMPT, 9, n=2))
    for _ in range(4):
        core.turn()
    core._scheduler._preempt(core._sequences["g-1"])
    core.pool.check()
    core.turn()
    assert runs(house)[-1] == [(42, 1), (32, 11)]
    twin.drain(core)
    assert [client.tokens for client in clients] == [twin.answer(PROMPT, 9)] * 2
    twin.leaves_nothing(core, house)
