"""Layers with a window hold what a sequence may still see, in a pool of their own (clause 2.22)."""

from __future__ import annotations

import pytest

from sealhost.host.engine.kv_pool import KvPool
from sealhost.host.engine.request import FinishEvent
from sealhost.host.engine.scheduler import Scheduler
from sealhost.host.engine.sequence import Sequence
from sealhost.host.engine.windows import Windows

PROMPT = list(range(200))


def added(twin, core, requests):
    clients = [twin.Client() for _ in requests]
    for request, client in zip(requests, clients, strict=True):
        core.add(request, client)
    return clients


def runs(house):
    """First position and length of each run, step by step."""
    return [[run[:2] for run in step] for step in house.model.steps]


@pytest.mark.parametrize("window", [1, 16, 20, 33])
def test_an_answer_of_any_length_holds_its_window_and_a_chunk(twin, window):
    house = twin.House(window=window, more_windows=1)
    core = house.core(step_tokens=16, max_sequences=4)
    (client,) = added(twin, core, [twin.request("a", PROMPT, 300)])
    used = []
    while not client.ended.is_set():
        twin.turn(core)
        used.append(core.windows.pool.used)
    assert client.tokens == twin.answer(PROMPT, 300)
    assert max(used) <= house.most + 1
    assert max(used[20:]) <= house.most
    twin.leaves_nothing(core, house)


def test_old_blocks_of_one_sequence_are_the_new_ones_of_another(twin):
    house = twin.House(blocks=128, window=20, more_windows=9)
    clients = twin.run(house, [twin.request(str(n), PROMPT[n:], 80) for n in range(3)], step_tokens=32)
    assert [client.tokens for client in clients] == [twin.answer(PROMPT[n:], 80) for n in range(3)]


@pytest.mark.parametrize("window", [1, 16, 20])
@pytest.mark.parametrize("back", [1, 15, 16, 40])
@pytest.mark.parametrize("then", [0, 30])
def test_what_is_taken_back_finds_what_it_saw_before(twin, window, back, then):
    """The ids go ahead one by one and `back` of them back, again and again; those that run again see whole windows."""

    def act(slot):
        if slot.steps % 51 == 50:
            return twin.Decision(tuple((slot.steps + index) % 256 for index in range(then)), back)
        return twin.Decision((7 * slot.steps % 256,))

    house = twin.House(sampler=twin.Sampler(act, max_backtrack=40), window=window, more_windows=0, blocks=64)
    (client,) = twin.run(house, [twin.request("a", PROMPT, 150)], step_tokens=64)
    assert isinstance(client.last, FinishEvent)
    assert len(client.tokens) == 150


def test_without_room_for_a_chunk_a_prompt_goes_in_shorter_ones(twin):
    house = twin.House(window=20, more_windows=1)
    core = house.core(step_tokens=64)
    (client,) = added(twin, core, [twin.request("a", PROMPT, 5)])
    twin.drain(core)
    assert client.tokens == twin.answer(PROMPT, 5)
    assert max(length for step in runs(house) for _, length in step) == 16 * (house.most + 1)


def test_a_newcomer_waits_until_its_window_and_a_chunk_have_room(twin):
    house = twin.House(window=20, more_windows=4)
    core = house.core(step_tokens=16, max_sequences=4)
    clients = added(twin, core, [twin.request(str(n), PROMPT, 5) for n in range(2)])
    running = []
    while not all(client.ended.is_set() for client in clients):
        twin.turn(core)
        running.append(core.stats.running)
    assert house.most == 3
    assert max(running) == 2  # three blocks each, one more for a chunk
    tight = twin.House(window=20, more_windows=3)
    core = tight.core(step_tokens=16, max_sequences=4)
    added(twin, core, [twin.request(str(n), PROMPT, 5) for n in range(2)])
    core.turn()
    assert (core.stats.running, core.stats.waiting) == (1, 1)
    twin.drain(core)
    twin.leaves_nothing(core, tight)


@pytest.fixture
def sequence(twin):
    return lambda name, length: Sequence(twin.request(name, [1] * length), print, None, 10_000)


def test_when_windows_run_short_the_youngest_gives_way(sequence):
    windows = Windows(KvPool(5), window=64, most=5, chunk=16)
    scheduler = Scheduler(KvPool(64), windows, max_sequences=4, step_tokens=64, chunk_beside_decode=64)
    old, young = sequence("old", 16), sequence("young", 16)
    for one in (old, young):
        scheduler.add(one)
    for _ in range(60):
        scheduler.admit()
        for run in scheduler.plan():
            run.sequence.cached += run.length
            run.sequence.ids.extend([1] * run.draws)
        windows.pool.check()
    assert scheduler.preemptions == 1
    assert scheduler.running == [old]
    assert (len(young.window_blocks), young.window_start, young.cached) == (0, 0, 0)
    scheduler.remove(old)
    assert windows.pool.used == 0


@pytest.mark.parametrize("window", [1, 16, 17, 20, 60, 300])
@pytest.mark.parametrize("length", [33, 40, 200])
def test_choices_share_the_last_window_of_their_prompt(twin, window, length):
    house = twin.House(window=window, sampler=twin.Sampler(max_rows=3))  # one sandbox for all: none is ever late
    core = house.core(step_tokens=256)
    clients = added(twin, core, twin.group(PROMPT[:length], 50, n=3))
    core.turn()
    whole = (length - 1) // 16
    assert runs(house) == [[(0, 16 * whole)]]
    core.turn()
    assert runs(house)[1] == [(16 * whole, length - 16 * whole)] * 3
    shared = whole - max(0, 16 * whole + 1 - window) // 16
    assert core.windows.pool.used == shared + 3
    twin.drain(core)
    assert [client.tokens for client in clients] == [twin.answer(PROMPT[:length], 50)] * 3
    assert core.stats.prompt_tokens == 16 * whole + 3 * (length - 16 * whole)
    twin.leaves_nothing(core, house)


@pytest.mark.parametrize(("turns", "recomputed"), [(4, False), (40, True)])
def test_a_choice_that_comes_when_its_elders_window_has_moved_on_computes_the_prompt_itself(twin, turns, recomputed):
    prompt = PROMPT[:193]
    # behind 192 ids it is in the pool until the elder has 207; one sandbox for both, so that none is ever late
    house = twin.House(window=17, blocks=128, sampler=twin.Sampler(max_rows=2))
    core = house.core(step_tokens=512, chunk_beside_decode=512)
    clients = added(twin, core, twin.group(prompt, 60, n=2))
    for _ in range(turns):
        core.turn()
    core._scheduler._preempt(core._sequences["g-1"])
    twin.turn(core)
    last = runs(house)[-1]
    assert last[1] == ((0, 192 + turns) if recomputed else (192, turns))
    twin.drain(core)
    assert [client.tokens for client in clients] == [twin.answer(prompt, 60)] * 2
    twin.leaves_nothing(core, house)


def test_a_pool_that_would_not_hold_one_window_is_refused():
    with pytest.raises(ValueError, match="expected at least 4 blocks for a window of 40, got 3"):
        Windows(KvPool(3), window=40, most=4, chunk=16)


def test_both_pools_are_counted(twin):
    house = twin.House(window=20, more_windows=5)
    core = house.core()
    assert (core.stats.window_free_blocks, core.stats.window_total_blocks) == (house.most + 5,) * 2
    added(twin, core, [twin.request("a", [1], 5)])
    core.turn()
    assert core.stats.window_free_blocks == house.most + 4
    assert twin.House().core().stats.window_total_blocks == 0
