"""Calls into sandboxes: a worker for each that overruns, none left over, and no end of them refused."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from sealhost.host.engine.core import ABANDONED_CALLS
from sealhost.host.engine.drawing import Drawn
from sealhost.host.engine.guest_calls import GuestCalls
from sealhost.host.engine.request import ErrorEvent
from sealhost.host.errors import InternalError

PATIENCE = 30


class Gate:
    """A place where threads wait, and that knows how many do."""

    def __init__(self) -> None:
        self.through, self.waiting, self.changed = threading.Event(), 0, threading.Condition()

    def __call__(self) -> None:
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
        assert self.through.wait(PATIENCE)

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting >= count, PATIENCE)


def guest():
    return SimpleNamespace(busy=False)


def test_24_overrunning_calls_on_4_workers_hold_up_no_25th_and_leave_no_workers():
    gate, woken = Gate(), threading.Semaphore(0)
    calls = GuestCalls(4, woken.release)
    loops = [guest() for _ in range(24)]
    for one in loops:
        calls.start(one, lambda: gate() or Drawn([]))
    assert calls.collect(0.0) == []
    assert calls.late == 24
    calls.start(well_behaved := guest(), lambda: Drawn([]))
    assert calls.collect(PATIENCE) == [(well_behaved, Drawn([]))]  # not behind any of the 24
    gate.wait_for(24)  # all of them run: their deadlines run beside each other
    assert calls.workers == 28
    gate.through.set()
    answers = []
    while len(answers) < 24:
        assert woken.acquire(timeout=PATIENCE)
        answers += calls.collect(0.0)
    assert not any(one.busy for one in loops)
    assert calls.workers == 8
    assert calls.close() == []
    assert calls.workers == 0


def test_clients_that_leave_overrunning_guests_behind_are_refused_in_the_end_and_served_again_later(twin):
    gate = Gate()
    act = lambda slot: (slot.prompt_ids == (1,) and gate()) or twin.greedy(slot)  # noqa: E731
    house = twin.House(sampler=twin.Sampler(act), blocks=200)
    core, bound = house.core(max_sequences=2, sampler_threads=1), 2 + ABANDONED_CALLS
    clients, stays = [], twin.Client()
    core.add(twin.request("stays", [3], 200), stays)
    for number in range(bound + 3):
        clients.append(twin.Client())
        core.add(twin.request(str(number), [1], 3), clients[-1])
        core.turn()
        core.cancel(str(number))
    refused = [client for client in clients if client.events]
    assert len(refused) == 3
    for client in refused:
        assert isinstance(client.last, ErrorEvent)
        assert (client.last.error.status, client.last.error.reason) == (503, "sampler_busy")
    assert core._calls.workers <= 1 + bound
    gate.through.set()
    twin.drain(core)
    twin.leaves_nothing(core, house)
    later = twin.Client()
    assert stays.tokens == twin.answer([3], 200)
    core.add(twin.request("later", [2], 4), later)
    twin.drain(core)
    assert later.tokens == twin.answer([2], 4)
    core.close(InternalError("engine", "closing"))
