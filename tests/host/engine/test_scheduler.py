"""The scheduler alone: what goes into the next step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sealhost.host.engine.kv_pool import KvPool
from sealhost.host.engine.scheduler import Scheduler
from sealhost.host.engine.sequence import Sequence


def make(blocks=64, *, max_sequences=8, step_tokens=16, chunk=8) -> Scheduler:
    return Scheduler(KvPool(blocks), max_sequences=max_sequences, step_tokens=step_tokens, chunk_beside_decode=chunk)


@pytest.fixture
def sequence(twin):
    return lambda name, length: Sequence(twin.request(name, [1] * length), print, None, 10_000)


def step(scheduler: Scheduler) -> list[tuple[str, int, bool]]:
    """Admits, plans, and pretends that the step ran and that whoever draws drew."""
    scheduler.admit()
    runs = scheduler.plan()
    scheduler.pool.check()
    for run in runs:
        run.sequence.cached += run.length
        if run.draws:
            run.sequence.ids.append(1)
    return [(run.sequence.request.id, run.length, run.draws) for run in runs]


def test_a_prompt_longer_than_a_step_comes_in_chunks(sequence):
    scheduler = make(step_tokens=8, chunk=8)
    scheduler.add(sequence("a", 20))
    assert [step(scheduler) for _ in range(4)] == [
        [("a", 8, False)],
        [("a", 8, False)],
        [("a", 4, True)],
        [("a", 1, True)],
    ]


def test_a_decoding_sequence_is_in_every_step_of_a_long_prefill(sequence):
    scheduler = make(blocks=200)
    scheduler.add(sequence("short", 3))
    step(scheduler)
    scheduler.add(sequence("long", 400))
    steps = [step(scheduler) for _ in range(50)]
    assert all(one[0] == ("short", 1, True) for one in steps)
    assert all(one[1] == ("long", 8, False) for one in steps[:49])
    assert steps[49][1] == ("long", 8, True)


def test_four_cold_prompts_run_together(sequence):
    scheduler = make(max_sequences=4)
    for name in "abcd":
        scheduler.add(sequence(name, 10))
    assert step(scheduler) == [("a", 10, True), ("b", 6, False)]
    assert len(scheduler.running) == 4
    assert step(scheduler) == [("a", 1, True), ("b", 4, True), ("c", 4, False)]


def test_first_come_first_served_and_no_more_than_allowed(sequence):
    scheduler = make(max_sequences=2)
    for name in "abc":
        scheduler.add(sequence(name, 1))
    assert step(scheduler) == [("a", 1, True), ("b", 1, True)]
    scheduler.remove(scheduler.running[0])
    assert step(scheduler) == [("b", 1, True), ("c", 1, True)]


def test_a_newcomer_that_does_not_fit_yet_is_not_overtaken(sequence):
    scheduler = make(blocks=4, step_tokens=64)
    for name, length in (("a", 40), ("big", 30), ("small", 1)):
        scheduler.add(sequence(name, length))
    assert step(scheduler) == [("a", 40, True)]
    assert step(scheduler) == [("a", 1, True)]
    assert [one.request.id for one in scheduler.waiting] == ["big", "small"]


def test_blocks_are_taken_as_positions_need_them(sequence):
    scheduler = make(blocks=8)
    scheduler.add(sequence("a", 15))
    used = []
    for _ in range(19):
        step(scheduler)
        used.append(scheduler.pool.used)
    assert used == [1] * 2 + [2] * 16 + [3]


def test_when_the_pool_is_short_the_youngest_is_recomputed_from_its_start(sequence):
    scheduler = make(blocks=5, step_tokens=64, chunk=64)
    old, young = sequence("old", 30), sequence("young", 31)
    scheduler.add(old)
    scheduler.add(young)
    assert step(scheduler) == [("old", 30, True), ("young", 31, True)]
    assert step(scheduler) == [("old", 1, True), ("young", 1, True)]
    assert step(scheduler) == [("old", 1, True), ("young", 1, True)]
    assert scheduler.pool.free == 0
    assert step(scheduler) == [("old", 1, True)]
    assert scheduler.preemptions == 1
    assert (young.cached, len(young.blocks)) == (0, 0)
    assert scheduler.waiting[0] is young
    scheduler.remove(old)
    assert step(scheduler) == [("young", 34, True)]


def test_admission_keeps_one_block_for_everyone_who_runs(sequence):
    scheduler = make(blocks=4, step_tokens=64)
    scheduler.add(sequence("a", 30))
    scheduler.add(sequence("b", 30))
    assert step(scheduler) == [("a", 30, True)]
    assert scheduler.pool.free == 2


def test_a_preempted_newcomer_of_one_id_does_not_decode_in_the_step_that_preempts_it(sequence):
    scheduler = make(blocks=3, step_tokens=64)
    old, young = sequence("old", 16), sequence("young", 1)
    scheduler.add(old)
    step(scheduler)
    scheduler.add(young)
    scheduler.admit()
    assert len(scheduler.running) == 2
    scheduler.pool.take()  # the last one goes to somebody else
    assert [run.sequence.request.id for run in scheduler.plan()] == ["old"]
    assert scheduler.waiting[0] is young


def test_a_sequence_that_is_alone_may_use_the_whole_pool(sequence):
    scheduler = make(blocks=2, step_tokens=64)
    scheduler.add(sequence("a", 31))
    assert step(scheduler) == [("a", 31, True)]
    assert step(scheduler) == [("a", 1, True)]
    assert scheduler.pool.free == 0


def test_who_waits_for_a_guest_is_left_out_and_keeps_its_place(sequence):
    scheduler = make()
    first = sequence("first", 1)
    scheduler.add(first)
    step(scheduler)
    first.guest = SimpleNamespace(busy=True)
    scheduler.add(sequence("second", 1))
    assert step(scheduler) == [("second", 1, True)]
    first.guest.busy = False
    assert step(scheduler) == [("first", 1, True), ("second", 1, True)]


def test_removing_gives_everything_back_wherever_it_is(sequence):
    scheduler = make(max_sequences=1)
    running, waiting = sequence("running", 20), sequence("waiting", 20)
    scheduler.add(running)
    scheduler.add(waiting)
    step(scheduler)
    for one in (waiting, running, running):
        scheduler.remove(one)
        scheduler.pool.check()
    assert scheduler.pool.used == 0
    assert not scheduler.running
    assert not scheduler.waiting
