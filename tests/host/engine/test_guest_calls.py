"""Calls into sandboxes: those of plugins that overrun have a lane of their own, and workers come and go."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from sealhost.host.engine.drawing import Drawn, Opened
from sealhost.host.engine.guest import Guest
from sealhost.host.engine.guest_calls import GUEST_GRACE_SECONDS, GuestCalls
from sealhost.host.errors import InternalError

PATIENCE = 120
DRAWN = Drawn([])


class Gate:
    """A place where threads wait, and that knows how many do."""

    def __init__(self) -> None:
        self.through, self.waiting, self.most, self.changed = threading.Event(), 0, 0, threading.Condition()

    def __call__(self) -> Drawn:
        with self.changed:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self.changed.notify_all()
        assert self.through.wait(PATIENCE)
        with self.changed:
            self.waiting -= 1
        return DRAWN

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting >= count, PATIENCE)


def guest(plugin: str, *, keeps_time: bool = False, seconds: float | None = None):
    return SimpleNamespace(
        busy=False, sampler=plugin, keeps_time=keeps_time, members={0: "somebody"}, seconds=seconds, drew=lambda _: None
    )


@pytest.fixture
def calls():
    """With what was woken."""
    woken = threading.Semaphore(0)
    calls = GuestCalls(4, woken.release)
    calls.woken = woken
    yield calls
    assert calls.close() == []
    assert calls.workers == 0


def all_of(calls, count: int) -> list:
    answers = calls.collect(0.0)
    while len(answers) < count:
        assert calls.woken.acquire(timeout=PATIENCE)
        answers += calls.collect(0.0)
    return answers


def test_24_overrunning_calls_on_4_workers_hold_up_no_other_plugin(calls):
    gate, loops = Gate(), [guest("loops") for _ in range(24)]
    for one in loops:
        calls.start(one, gate)
    gate_opened = calls.collect(0.0)
    gate.wait_for(4)
    assert gate_opened == []
    assert calls.late == 24
    calls.collect(0.0)  # now the four are known to overrun, and the other twenty wait in their lane
    for _ in range(3):
        calls.start(good := guest("good"), lambda: DRAWN)
        assert calls.collect(PATIENCE) == [(good, DRAWN)]
    assert gate.waiting == 4  # no more of them than places
    gate.through.set()
    assert sorted(map(id, loops)) == sorted(id(one) for one, _ in all_of(calls, 24))
    assert not any(one.busy for one in loops)
    assert gate.most <= 4
    assert calls.workers <= 8


@pytest.mark.parametrize(
    ("seconds", "workers"), [(None, 1), (1e-6, 1), (0.00015, 1), (0.0002, 2), (0.0003, 3), (1.0, 4)]
)
def test_as_many_workers_are_woken_as_the_guests_are_worth(calls, monkeypatch, seconds, workers):
    woken, put = [], calls._lanes.put
    monkeypatch.setattr(calls._lanes, "put", lambda several, count: woken.append(count) or put(several, count))
    for _ in range(4):
        calls.start(guest("p", seconds=seconds), lambda: DRAWN)
    assert len(all_of(calls, 4)) == 4
    calls.start(guest("p", seconds=seconds), lambda: DRAWN)
    calls.launch()  # nobody waits, so nobody would notice that one waits for another
    assert len(all_of(calls, 1)) == 1
    assert woken == [workers, 1]


def test_nobody_waits_long_behind_a_quick_guest_that_is_slow_this_time(calls):
    gate, quick = Gate(), [guest("p", seconds=1e-6) for _ in range(8)]
    for one in quick:
        calls.start(one, gate if one is quick[0] else lambda: DRAWN)
    answers = calls.collect(0.5)  # many times what passes until all workers are woken
    assert [one for one, _ in answers] == quick[1:]
    gate.through.set()
    all_of(calls, 1)


def test_a_hiccup_makes_no_guest_a_long_one():
    one = Guest(SimpleNamespace(max_rows=1), SimpleNamespace(group=None, choice=0))
    for took, seconds in ((2.0, 2.0), (1.0, 1.0), (50.0, 2.0), (50.0, 4.0), (1.0, 1.0)):
        one.drew(took)
        assert one.seconds == seconds


def test_a_well_behaved_call_that_was_queued_behind_a_flood_overtakes_it(calls):
    gate = Gate()
    for _ in range(24):
        calls.start(guest("loops"), gate)
    calls.start(good := guest("good"), lambda: DRAWN)
    assert calls.collect(0.0) == []
    gate.wait_for(4)
    answers = all_of(calls, 1)
    assert answers == [(good, DRAWN)]
    gate.through.set()
    all_of(calls, 24)


@pytest.mark.parametrize(("overrunning", "waits"), [(4, False), (8, True)])
def test_sandboxes_that_kept_time_are_held_up_only_when_their_plugin_overruns_everywhere(calls, overrunning, waits):
    gate, order = Gate(), []
    for _ in range(overrunning):
        calls.start(guest("loops", keeps_time=True), gate)
    while gate.waiting < overrunning:
        calls.collect(0.001)
    calls.collect(0.0)
    newcomers, proven = [guest("loops") for _ in range(3)], guest("loops", keeps_time=True)
    for one in (*newcomers, proven):
        calls.start(one, lambda one=one: order.append(one) or DRAWN)
    answers = calls.collect(0.0 if waits else 0.5)
    assert [one for one, _ in answers] == [] if waits else [proven]
    assert proven.keeps_time  # waiting is not its fault
    gate.through.set()
    all_of(calls, overrunning + 3 + waits)
    assert order[0] is proven


def test_who_keeps_time_is_learned_from_what_guests_do(calls):
    gate, slow, quick, opened = Gate(), guest("p", keeps_time=True), guest("q"), guest("r")
    calls.start(slow, gate)
    calls.start(quick, lambda: DRAWN)
    calls.start(opened, lambda: Opened(None))
    answers = calls.collect(0.0)
    gate.wait_for(1)
    while len(answers) < 2:
        answers += calls.collect(0.001)
    calls.collect(0.0)
    assert not slow.keeps_time
    assert not opened.keeps_time  # no guest was asked
    gate.through.set()
    all_of(calls, 1)
    assert not slow.keeps_time
    for one in (slow, quick):
        calls.start(one, lambda: DRAWN)
    calls.collect(PATIENCE)
    assert slow.keeps_time
    assert quick.keeps_time


def test_a_call_that_nobody_waits_for_any_more_is_not_begun(calls):
    gate, begun = Gate(), []
    for _ in range(4):
        calls.start(guest("loops"), gate)
    calls.collect(0.0)
    gate.wait_for(4)
    left = [guest("loops") for _ in range(5)]
    for one in left:
        calls.start(one, lambda: begun.append(1) or DRAWN)
    assert calls.collect(0.0) == []
    for one in left[1:]:
        one.members.clear()
    answers = calls.collect(0.0)
    assert [one for one, _ in answers] == left[1:]
    assert all(isinstance(answer, InternalError) for _, answer in answers)
    gate.through.set()
    all_of(calls, 5)
    assert begun == [1]


def test_closing_waits_for_calls_that_wait_for_a_place(calls):
    gate, waiting = Gate(), [guest("loops") for _ in range(6)]
    for _ in range(4):
        calls.start(guest("loops"), gate)
    calls.collect(0.0)
    gate.wait_for(4)
    for one in waiting:
        calls.start(one, lambda: DRAWN)
    calls.collect(0.0)
    threading.Timer(0.05, gate.through.set).start()
    answers = calls.close()
    assert len(answers) == 10
    assert {id(one) for one in waiting} <= {id(one) for one, _ in answers}


def test_once_the_overrunning_calls_are_over_the_plugin_is_like_any_other(calls):
    gate = Gate()
    for _ in range(2):
        calls.start(guest("p"), gate)
    calls.collect(0.0)
    gate.wait_for(2)
    calls.collect(0.0)
    gate.through.set()
    all_of(calls, 2)
    assert not calls._lanes._overrunning
    assert calls._lanes._held == 0
    assert calls._lanes.workers_wanted == 4


def test_clients_that_leave_looping_guests_behind_take_no_more_workers(twin):
    gate = Gate()

    def act(slot):
        return gate() and twin.greedy(slot) if slot.prompt_ids == (1,) else twin.greedy(slot)

    good = twin.Sampler()
    house = twin.House(sampler=twin.Sampler(act), blocks=200)
    house.loaded.samplers["good"] = good
    core, stays = house.core(max_sequences=2, sampler_threads=2, grace=GUEST_GRACE_SECONDS), twin.Client()
    core.add(twin.request("stays", [3], 200, sampler="good"), stays)
    for number in range(40):
        core.add(twin.request(str(number), [1], 3), twin.Client())
        core.turn()
        core.cancel(str(number))
    assert core._calls.workers <= 4
    assert gate.most <= 2
    gate.through.set()
    twin.drain(core)
    assert stays.tokens == twin.answer([3], 200)
    core.close(InternalError("engine", "closing"))
    twin.leaves_nothing(core, house)
    assert (good.open, good.misused) == (0, 0)
