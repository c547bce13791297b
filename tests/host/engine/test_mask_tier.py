"""Guests of the mask tier are asked when a step begins, and work while the model does."""

from __future__ import annotations

import threading

import pytest

from sealhost.host.engine.guest_calls import GUEST_GRACE_SECONDS
from sealhost.host.engine.request import ErrorEvent
from sealhost.sandbox import GuestError

TRAP = GuestError("plugin p", "trap", "expected an answer, got a trap", "use another plugin")
PATIENCE = 120


def test_the_guest_works_while_the_model_does(twin):
    house = twin.House(sampler=twin.Sampler(tier="mask"))
    asked, stepping = threading.Event(), threading.Event()

    def preparing(_slot):
        asked.set()
        assert stepping.wait(PATIENCE)

    step = house.model.step

    def waits_for_the_guest(batch):
        stepping.set()
        assert asked.wait(PATIENCE)  # it would wait for ever if the guest came before or after
        step(batch)
        asked.clear()
        stepping.clear()

    house.sampler.preparing, house.model.step = preparing, waits_for_the_guest
    (client,) = twin.run(house, [twin.request("a", [1], 5)])
    assert client.tokens == twin.answer([1], 5)


@pytest.mark.parametrize("rows", [1, 4])
def test_many_together_give_what_each_gives_alone(twin, rows):
    house = twin.House(sampler=twin.Sampler(tier="mask", max_rows=rows))
    requests = [*twin.group([1, 2], 9, n=4), *(twin.request(str(n), [n] * 9, 12) for n in range(4))]
    clients = twin.run(house, requests, step_tokens=16, max_sequences=8)
    assert [client.tokens for client in clients[:4]] == [twin.answer([1, 2], 9)] * 4
    assert [client.tokens for client in clients[4:]] == [twin.answer([n] * 9, 12) for n in range(4)]


def test_forced_ids_need_no_guest_where_only_their_log_probabilities_are_wanted(twin):
    def act(slot):
        return twin.Decision(tuple(b"abc")) if slot.steps == 0 else twin.greedy(slot)

    house = twin.House(sampler=twin.Sampler(act, tier="mask"))
    (client,) = twin.run(house, [twin.request("a", [1], 5, logprobs=0)])
    assert bytes(client.tokens[:3]) == b"abc"
    (session,) = house.sampler.sessions
    assert len(session.calls) == 3


def gated(twin, **more):
    """A house where the guest of prompt (1,) waits in its second question, and what lets it through."""
    arrived, through = threading.Event(), threading.Event()

    def preparing(slot):
        if slot.prompt_ids == (1,) and slot.steps == 1:
            arrived.set()
            assert through.wait(PATIENCE)

    house = twin.House(sampler=twin.Sampler(tier="mask", **more))
    house.sampler.preparing = preparing
    core, slow, quick = house.core(grace=GUEST_GRACE_SECONDS), twin.Client(), twin.Client()
    core.add(twin.request("slow", [1], 5), slow)
    core.add(twin.request("quick", [2], 30), quick)
    while not arrived.is_set():
        core.turn()
    return house, core, slow, quick, through


def test_a_guest_that_is_not_ready_holds_up_its_own_choice_only(twin):
    house, core, slow, quick, through = gated(twin)
    while not quick.ended.is_set():
        core.turn()
    assert slow.tokens == twin.answer([1], 1)
    through.set()
    twin.drain(core)
    assert slow.tokens == twin.answer([1], 5)
    twin.leaves_nothing(core, house)


def test_cancelling_while_the_guest_prepares_closes_its_sandbox_when_it_answers(twin):
    house, core, slow, _, through = gated(twin)
    core.cancel("slow")
    assert house.sampler.open == 2
    through.set()
    twin.drain(core)
    assert slow.tokens == twin.answer([1], 1)
    twin.leaves_nothing(core, house)


def test_a_preempted_choice_draws_from_the_logits_that_it_had(twin):
    house, core, slow, quick, through = gated(twin)
    core.cancel("quick")
    core._scheduler._preempt(core._sequences["slow"])
    through.set()
    twin.drain(core)
    assert slow.tokens == twin.answer([1], 5)
    assert quick.last != slow.last
    twin.leaves_nothing(core, house)


def test_a_guest_that_fails_while_it_prepares_ends_its_own_request_only(twin):
    def preparing(slot):
        if slot.prompt_ids == (1,) and slot.steps == 2:
            raise TRAP

    house = twin.House(sampler=twin.Sampler(tier="mask"))
    house.sampler.preparing = preparing
    bad, good = twin.run(house, [twin.request("bad", [1], 9), twin.request("good", [2], 9)])
    assert bad.last == ErrorEvent("bad", TRAP)
    assert bad.tokens == twin.answer([1], 2)
    assert good.tokens == twin.answer([2], 9)


def test_a_step_that_fails_while_guests_prepare_leaves_nothing(twin, caplog):
    house = twin.House(sampler=twin.Sampler(tier="mask", max_rows=2))
    core, clients = house.core(), [twin.Client() for _ in range(2)]
    for request, client in zip(twin.group([1], 5, n=2), clients, strict=True):
        core.add(request, client)
    core.turn()
    house.model.fail_next = True
    twin.drain(core)
    assert [type(client.last) for client in clients] == [ErrorEvent] * 2
    assert "a model step over 2 sequences failed" in caplog.text
    twin.leaves_nothing(core, house)
