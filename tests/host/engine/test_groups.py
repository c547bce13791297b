"""The choices of one call: one sandbox as far as its rows reach, one guest call for all that draw in a turn."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from sealhost.host.engine.admission import check
from sealhost.host.engine.guest_calls import GUEST_GRACE_SECONDS
from sealhost.host.engine.request import ChoiceGroup, ErrorEvent, FinishEvent
from sealhost.host.errors import Refused
from sealhost.sandbox import GuestError, SamplingParams

TRAP = GuestError("plugin p", "trap", "expected an answer, got a trap", "use another plugin")


def of_choice(twin, following):
    """A guest whose answer depends on the choice, as randomness makes it."""
    return lambda slot: twin.Decision(((int(slot.logits.argmax()) + slot.choice) % 256,))


@pytest.mark.parametrize(
    ("rows", "n", "sessions"),
    [
        (1, 3, [(0,), (1,), (2,)]),
        (3, 3, [(0, 1, 2)]),
        (3, 5, [(0, 1, 2), (3, 4)]),
        (64, 2, [(0, 1)]),
    ],
)
def test_choices_share_sandboxes_as_far_as_the_rows_reach(twin, rows, n, sessions):
    house = twin.House(sampler=twin.Sampler(max_rows=rows))
    clients = twin.run(house, twin.group([1, 2], 6, n=n))
    opened = [tuple(slot.choice for slot in session.slots) for session in house.sampler.sessions]
    assert sorted(opened) == sessions
    assert [client.tokens for client in clients] == [twin.answer([1, 2], 6)] * n


def test_one_call_serves_all_that_draw_in_a_turn(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=4))
    twin.run(house, twin.group([1, 2], 5, n=4))
    (session,) = house.sampler.sessions
    assert session.calls == [(0, 1, 2, 3)] * 5


def test_each_choice_draws_with_its_own_logits_and_randomness(twin):
    house = twin.House(sampler=twin.Sampler(of_choice(twin, twin.hashed), max_rows=4))
    shared = [client.tokens for client in twin.run(house, twin.group([7], 9, n=4))]
    house = twin.House(sampler=twin.Sampler(of_choice(twin, twin.hashed), max_rows=1))
    assert shared == [client.tokens for client in twin.run(house, twin.group([7], 9, n=4))]
    assert len(set(map(tuple, shared))) == 4


def test_choices_that_were_prefilled_in_different_turns_draw_when_their_logits_are_there(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=3))
    clients = twin.run(house, twin.group([3] * 31, 9, n=3), step_tokens=16, max_sequences=3, chunk_beside_decode=8)
    (session,) = house.sampler.sessions
    assert session.calls[0] == (0,)
    assert (0, 1, 2) in session.calls
    assert sum(map(len, session.calls)) == 3 * 9
    assert [client.tokens for client in clients] == [twin.answer([3] * 31, 9)] * 3


def test_choices_that_wait_for_a_place_sit_in_the_same_sandbox(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=4))
    clients = twin.run(house, twin.group([3], 4, n=4), max_sequences=2)
    (session,) = house.sampler.sessions
    assert session.calls == [(0, 1)] * 4 + [(2, 3)] * 4
    assert [client.tokens for client in clients] == [twin.answer([3], 4)] * 4


def test_a_choice_that_ends_early_closes_its_slot_and_the_others_go_on(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=3))
    requests = twin.group([1], 6, n=3)
    requests[1] = replace(requests[1], max_tokens=2)
    clients = twin.run(house, requests)
    (session,) = house.sampler.sessions
    assert session.calls == [(0, 1, 2)] * 2 + [(0, 2)] * 4
    assert [slot.closed for slot in session.slots] == [False, True, False]
    assert [len(client.tokens) for client in clients] == [6, 2, 6]


def test_cancelling_one_choice_leaves_the_others_and_the_last_one_closes_the_sandbox(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=3))
    core, clients = house.core(), [twin.Client() for _ in range(3)]
    for request, client in zip(twin.group([1], 6, n=3), clients, strict=True):
        core.add(request, client)
    core.turn()
    core.cancel("g-0")
    core.turn()
    core.cancel("g-1")
    assert house.sampler.open == 1
    twin.drain(core)
    assert [len(client.tokens) for client in clients] == [1, 2, 6]
    assert [slot.closed for slot in house.sampler.slots] == [True, True, False]
    twin.leaves_nothing(core, house)


def test_a_guest_that_fails_ends_all_choices_of_its_sandbox_and_no_other(twin):
    def act(slot):
        if slot.choice == 1 and len(slot.accepted) == 2:
            raise TRAP
        return twin.greedy(slot)

    house = twin.House(sampler=twin.Sampler(act, max_rows=2))
    clients = twin.run(house, [*twin.group([1], 6, n=4), twin.request("other", [2], 6)])
    assert [type(client.last) for client in clients] == [ErrorEvent] * 2 + [FinishEvent] * 3
    assert [client.last.error for client in clients[:2]] == [TRAP, TRAP]
    assert [len(client.tokens) for client in clients] == [2, 2, 6, 6, 6]


def test_a_sandbox_that_does_not_open_ends_all_its_choices(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=2))

    def opening(_prompt):
        if not house.sampler.sessions:
            house.sampler.sessions.append(None)
            raise TRAP

    house.sampler.opening = opening
    core, clients = house.core(sampler_threads=1), [twin.Client() for _ in range(4)]
    for request, client in zip(twin.group([1], 3, n=4), clients, strict=True):
        core.add(request, client)
    twin.drain(core)
    assert [type(client.last) for client in clients] == [ErrorEvent] * 2 + [FinishEvent] * 2


def test_a_choice_that_comes_when_the_others_have_ended_gets_a_sandbox_of_its_own(twin):
    house = twin.House(sampler=twin.Sampler(max_rows=2))
    core, clients = house.core(), [twin.Client() for _ in range(2)]
    first, second = twin.group([1], 3, n=2)
    core.add(first, clients[0])
    twin.drain(core)
    assert house.sampler.open == 0
    core.add(second, clients[1])
    twin.drain(core)
    assert clients[0].tokens == clients[1].tokens
    assert [session.calls for session in house.sampler.sessions] == [[(0,)] * 3, [(1,)] * 3]
    twin.leaves_nothing(core, house)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_ids": (9,)},
        {"params": SamplingParams(temperature=0, seed=1)},
        {"sampler_config": b"{}"},
        {"sampler": "greedy"},
        {"choice": 0},
        {"group": None},
    ],
)
def test_requests_that_only_claim_to_belong_together_do_not_share(twin, change):
    house = twin.House(sampler=twin.Sampler(max_rows=2))
    first, second = twin.group([1], 3, n=2)
    clients = twin.run(house, [first, replace(second, **change)])
    assert len(house.sampler.sessions) == 2
    assert [len(client.tokens) for client in clients] == [3, 3]


def test_a_slow_guest_holds_up_its_own_choices_only(twin):
    arrived, through = threading.Event(), threading.Event()

    def act(slot):
        if slot.prompt_ids == (1,) and slot.choice == 1 and len(slot.accepted) == 1:
            arrived.set()
            assert through.wait(120)
        return twin.greedy(slot)

    house = twin.House(sampler=twin.Sampler(act, max_rows=2))
    core, slow, quick = house.core(grace=GUEST_GRACE_SECONDS), [twin.Client(), twin.Client()], twin.Client()
    for request, client in zip(twin.group([1], 5, n=2), slow, strict=True):
        core.add(request, client)
    core.add(twin.request("quick", [2], 30), quick)
    while not quick.ended.is_set():
        core.turn()
    assert arrived.is_set()
    assert [len(client.tokens) for client in slow] == [1, 1]
    core.cancel("g-1")  # while its guest is at work for it
    through.set()
    twin.drain(core)
    assert [len(client.tokens) for client in slow] == [5, 1]
    twin.leaves_nothing(core, house)


@pytest.mark.parametrize(("choice", "size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_choice_outside_its_group_is_refused(twin, choice, size):
    wrong = twin.request("a", [1], choice=choice, group=ChoiceGroup("g", size))
    with pytest.raises(Refused, match=f"expected a choice from 0 to {size - 1}, got {choice}"):
        check(wrong, context=64, vocab=twin.VOCAB, samplers={"greedy": twin.Sampler()})
