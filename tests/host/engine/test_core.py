"""The engine turn by turn, with twins of the model and of the guests."""

from __future__ import annotations

import threading

import pytest

from sealhost.host.engine.guest_calls import GUEST_GRACE_SECONDS
from sealhost.host.engine.request import ErrorEvent, FinishEvent, TokenEvent
from sealhost.host.errors import InternalError
from sealhost.sandbox import GuestError


def test_an_answer_is_what_the_model_gives_alone(twin):
    (client,) = twin.run(twin.House(), [twin.request("a", [5, 6, 7], 20)])
    assert client.tokens == twin.answer([5, 6, 7], 20)
    assert client.last == FinishEvent("a", "length", client.last.text, 3, 20)


@pytest.mark.parametrize(
    ("script", "more", "text", "reason", "tokens"),
    [
        (b"A\xffB", {}, "A\ufffdB", "stop", 4),
        (b"ab\xf0\x9f", {"max_tokens": 4}, "ab\ufffd", "length", 4),
        (b"The quick brown fox", {"stop": ("own fox",), "max_tokens": 50}, "The quick br", "stop", 19),
        (b"abcZZ", {"stop": ("ZZZZ",)}, "abcZZ", "stop", 6),
        (b"abcZZ", {"stop": ("ZZZZ",), "max_tokens": 5}, "abcZZ", "length", 5),
        (b"", {}, "", "stop", 1),
        ([65, 257, 66], {}, "AB", "stop", 4),
        (b"ab", {"stop_ids": frozenset({98})}, "a", "stop", 2),
        (b"abc", {"max_tokens": 1}, "a", "length", 1),
    ],
)
def test_how_an_answer_ends(twin, script, more, text, reason, tokens):
    (client,) = twin.run(twin.House(twin.scripted(script)), [twin.request("a", [0], **more)])
    assert client.text == text
    assert (client.last.reason, client.last.completion_tokens, client.last.prompt_tokens) == (reason, tokens, 1)


def test_no_piece_of_a_stop_text_is_ever_seen(twin):
    house = twin.House(twin.scripted(b"The quick brown fox"))
    (client,) = twin.run(house, [twin.request("a", [0], 50, stop=("own fox",))])
    assert [one.text for one in client.events if isinstance(one, TokenEvent)][-7:] == [""] * 7


def test_a_guest_may_end_the_answer(twin):
    house = twin.House(sampler=twin.Sampler(lambda _: twin.choice(None, stop=True)))
    (client,) = twin.run(house, [twin.request("a", [1])])
    assert client.events == [FinishEvent("a", "stop", "", 1, 0)]


def test_the_context_bounds_an_answer_and_its_last_id_needs_no_room(twin):
    house = twin.House(blocks=2)
    prompt = list(range(31))
    (client,) = twin.run(house, [twin.request("a", prompt, 99)])
    assert client.tokens == twin.answer(prompt, 1)
    assert client.last.reason == "length"


@pytest.mark.parametrize("prompts", [[[1, 2], [1, 2]], [[n] * (n + 1) for n in range(8)]])
@pytest.mark.parametrize("settings", [{}, {"step_tokens": 8, "max_sequences": 8, "chunk_beside_decode": 1}])
def test_many_together_give_what_each_gives_alone(twin, prompts, settings):
    requests = [twin.request(str(n), prompt, 40) for n, prompt in enumerate(prompts)]
    clients = twin.run(twin.House(), requests, **settings)
    assert [one.tokens for one in clients] == [twin.answer(prompt, 40) for prompt in prompts]


def test_a_prompt_above_the_step_budget_finishes_in_chunks(twin):
    house = twin.House()
    twin.run(house, [twin.request("a", [1] * 20, 1)], step_tokens=8, max_sequences=8)
    assert [[length for _, length, _ in step] for step in house.model.steps] == [[8], [8], [4]]


def test_preempted_sequences_give_the_same_tokens(twin):
    house, prompts = twin.House(blocks=8), [[n] * 20 for n in range(4)]
    core, clients = house.core(), [twin.Client() for _ in prompts]
    for n, prompt in enumerate(prompts):
        core.add(twin.request(str(n), prompt, 60), clients[n])
    twin.drain(core)
    assert core.stats.preemptions > 0
    assert [one.tokens for one in clients] == [twin.answer(prompt, 60) for prompt in prompts]
    assert len(house.sampler.slots) == 4  # a preempted one keeps its sandbox, and with it its history
    sandboxes = sorted(house.sampler.slots, key=lambda one: one.prompt_ids)  # opened beside each other
    assert [one.accepted for one in sandboxes] == [one.tokens[:-1] for one in clients]
    twin.leaves_nothing(core, house)


def test_every_choice_has_a_sandbox_of_its_own(twin):
    house = twin.House()
    twin.run(house, [twin.request(f"a-{n}", [1, 2], 3, choice=n) for n in range(3)])
    assert sorted((one.choice, one.prompt_ids) for one in house.sampler.slots) == [(n, (1, 2)) for n in range(3)]


def test_log_probabilities_are_of_the_logits_before_the_guest_edits_them(twin):
    def edits(session):
        session.logits[:] = 0
        session.logits[3] = 100
        return twin.choice(3)

    house = twin.House(sampler=twin.Sampler(edits))
    (client,) = twin.run(house, [twin.request("a", [1], 1, logprobs=2)])
    report = client.events[0].logprobs
    assert report.token == 3
    assert report.top[0][0] == twin.hashed([1])
    assert report.top[0][1] > report.logprob
    assert report.top[1][0] == 0  # ties by id: all others are equal


# ---- what can go wrong


def fails_third(twin, what):
    """A guest that misbehaves in its third step for prompts that begin with 1."""

    def act(session):
        if session.prompt_ids[0] == 1 and len(session.accepted) == 2:
            return what()
        return twin.greedy(session)

    return act


def raising(error):
    def act():
        raise error

    return act


TRAP = GuestError("plugin p", "trap", "expected an answer, got a trap", "use another plugin")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (raising(TRAP), "E_PLUGIN"),
        (raising(RuntimeError("boom")), "E_INTERNAL"),
        (raising(MemoryError()), "E_INTERNAL"),
        (lambda: (260,), "E_INTERNAL"),
    ],
)
def test_a_guest_that_fails_ends_its_own_request_only(twin, what, code):
    house = twin.House(sampler=twin.Sampler(fails_third(twin, what)))
    bad, good = twin.run(house, [twin.request("bad", [1], 9), twin.request("good", [2], 9)])
    assert isinstance(bad.last, ErrorEvent)
    assert bad.last.error.code == code
    assert bad.tokens == twin.answer([1], 2)
    assert good.tokens == twin.answer([2], 9)


@pytest.mark.parametrize("token", [-1, 260, 1 << 40])
def test_an_id_that_does_not_exist_ends_its_own_request_only(twin, token):
    house = twin.House(sampler=twin.Sampler(fails_third(twin, lambda: twin.choice(token))))
    bad, good = twin.run(house, [twin.request("bad", [1], 9, logprobs=3), twin.request("good", [2], 9)])
    assert f"expected ids below 260, got {token}" in str(bad.last.error)
    assert good.tokens == twin.answer([2], 9)


def test_a_sandbox_that_does_not_open_ends_its_own_request_only(twin):
    house = twin.House()

    def opening(prompt):
        if prompt == (1,):
            raise TRAP

    house.sampler.opening = opening
    bad, good = twin.run(house, [twin.request("bad", [1]), twin.request("good", [2])])
    assert bad.events == [ErrorEvent("bad", TRAP)]
    assert good.tokens == twin.answer([2], 8)


def test_a_failed_opening_makes_room_for_who_waits(twin):
    house = twin.House()
    house.sampler.opening = lambda prompt: raising(TRAP)() if prompt == (1,) else None
    bad, good = twin.run(house, [twin.request("bad", [1]), twin.request("good", [2])], max_sequences=1)
    assert isinstance(bad.last, ErrorEvent)
    assert good.tokens == twin.answer([2], 8)


@pytest.mark.parametrize("error", [TRAP, RuntimeError("boom")])
def test_a_guest_that_does_not_accept_ends_its_own_request_only(twin, error):
    house = twin.House()

    def accepting(session, _):
        if session.prompt_ids == (1,):
            raise error

    house.sampler.accepting = accepting
    bad, good = twin.run(house, [twin.request("bad", [1]), twin.request("good", [2])])
    assert isinstance(bad.last, ErrorEvent)
    assert len(bad.tokens) == 1
    assert good.tokens == twin.answer([2], 8)


def test_a_sandbox_that_does_not_close_is_logged_and_forgotten(twin, caplog):
    house = twin.House()
    core, client = house.core(), twin.Client()
    core.add(twin.request("a", [1], 3), client)
    core.turn()
    house.sampler.sessions[0].close = raising(RuntimeError("stuck"))
    twin.drain(core)
    assert client.last.reason == "length"
    assert core.pool.used == 0
    assert "closing the sandbox of request a failed" in caplog.text


def test_a_failed_step_fails_those_who_ran_and_nobody_else(twin, caplog):
    house = twin.House()
    core, clients = house.core(max_sequences=2), [twin.Client() for _ in range(3)]
    for n, client in enumerate(clients):
        core.add(twin.request(str(n), [n], 5), client)
    core.turn()
    house.model.fail_next = True
    twin.drain(core)
    assert [type(one.last) for one in clients] == [ErrorEvent, ErrorEvent, FinishEvent]
    assert clients[0].last.error.code == "E_INTERNAL"
    assert "the device is gone" in str(clients[0].last.error)
    assert clients[2].tokens == twin.answer([2], 5)
    assert (core.stats.failed, core.stats.finished) == (2, 1)
    assert "a model step over 2 sequences failed" in caplog.text
    twin.leaves_nothing(core, house)


@pytest.mark.parametrize("at", [0, 2, 7])
def test_a_sink_that_raises_loses_its_own_request_only(twin, at, caplog):
    house, good, seen = twin.House(), twin.Client(), []

    def sink(event):
        seen.append(event)
        if len(seen) == at + 1:
            raise ValueError("gone")

    core = house.core()
    core.add(twin.request("bad", [1], 8), sink)
    core.add(twin.request("good", [2], 8), good)
    twin.drain(core)
    assert len(seen) == at + 1
    assert good.tokens == twin.answer([2], 8)
    assert "the sink of request bad failed" in caplog.text
    twin.leaves_nothing(core, house)


# ---- cancellation


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 7])
def test_cancelling_frees_everything_at_once_at_any_stage(twin, turns):
    house = twin.House()
    core, gone, stays = house.core(step_tokens=8, max_sequences=4), twin.Client(), twin.Client()
    core.add(twin.request("gone", [1] * 20, 50), gone)
    core.add(twin.request("stays", [2] * 20, 50), stays)
    for _ in range(turns):
        core.turn()
    before, events = core.stats.steps, len(gone.events)
    core.cancel("gone")
    core.pool.check()
    core.turn()
    assert core.stats.steps <= before + 1
    assert core.stats.kv_free_blocks == core.pool.total - (2 if core.stats.running else 0) or turns > 5
    assert len(gone.events) == events
    twin.drain(core)
    assert stays.tokens == twin.answer([2] * 20, 50)
    assert core.stats.cancelled == 1
    twin.leaves_nothing(core, house)


def test_cancelling_what_is_unknown_finished_or_gone_changes_nothing(twin):
    house = twin.House()
    core, client = house.core(), twin.Client()
    core.cancel("unknown")
    core.add(twin.request("a", [1], 2), client)
    twin.drain(core)
    core.cancel("a")
    core.add(twin.request("b", [1], 2), client.__class__())
    core.turn()
    core.cancel("b")
    core.cancel("b")
    twin.drain(core)
    assert core.stats.cancelled == 1
    twin.leaves_nothing(core, house)


class Gate:
    """A guest that waits at its second step for prompts that begin with 1, until it is let through."""

    def __init__(self, twin) -> None:
        self.twin, self.arrived, self.through = twin, threading.Event(), threading.Event()

    def __call__(self, session):
        if session.prompt_ids[0] == 1 and len(session.accepted) == 1:
            self.arrived.set()
            assert self.through.wait(120)
        return self.twin.greedy(session)


def at_the_gate(twin, **settings):
    """A core with one request whose guest is at the gate, and one that goes on."""
    gate = Gate(twin)
    house = twin.House(sampler=twin.Sampler(gate))
    core, slow, quick = house.core(grace=GUEST_GRACE_SECONDS, **settings), twin.Client(), twin.Client()
    core.add(twin.request("slow", [1], 5), slow)
    core.add(twin.request("quick", [2], 30), quick)
    while not gate.arrived.is_set():
        core.turn()
    return gate, house, core, slow, quick, core.woken


def test_a_slow_guest_holds_up_its_own_sequence_only(twin):
    gate, house, core, slow, quick, woken = at_the_gate(twin)
    while not quick.ended.is_set():
        core.turn()
    assert slow.tokens == twin.answer([1], 1)
    assert quick.tokens == twin.answer([2], 30)
    assert not core.turn()  # nothing to do but wait
    woken.clear()  # a busy machine may have made others late before
    gate.through.set()
    assert woken.wait(120)
    assert core.has_news
    twin.drain(core)
    assert slow.tokens == twin.answer([1], 5)
    twin.leaves_nothing(core, house)


def test_more_slow_guests_than_workers_hold_up_nobody_else(twin):
    gate, house, core, slow, quick, _ = at_the_gate(twin, sampler_threads=2)
    more = [twin.Client() for _ in range(2)]
    for n, client in enumerate(more):
        core.add(twin.request(str(n), [1, n], 5), client)
    while not quick.ended.is_set():
        core.turn()
    assert quick.tokens == twin.answer([2], 30)
    gate.through.set()
    while not all(client.ended.is_set() for client in (slow, *more)):
        core.turn()
    assert [client.tokens for client in more] == [twin.answer([1, n], 5) for n in range(2)]
    twin.leaves_nothing(core, house)
    core.close(InternalError("engine", "closing"))


def test_cancelling_while_the_guest_is_at_work_frees_blocks_now_and_the_sandbox_later(twin):
    gate, house, core, slow, _, woken = at_the_gate(twin)
    core.cancel("slow")
    core.turn()
    assert core.pool.used == len(core._scheduler.running[0].blocks)
    assert house.sampler.open == 2
    woken.clear()  # a busy machine may have made others late before
    gate.through.set()
    assert woken.wait(120)
    core.turn()
    assert house.sampler.open == 1
    assert slow.tokens == twin.answer([1], 1)
    twin.drain(core)
    twin.leaves_nothing(core, house)


def test_closing_tells_everybody_waits_for_guests_and_leaves_nothing(twin):
    gate, house, core, slow, quick, _ = at_the_gate(twin)
    error = InternalError("engine", "closing")
    gate.through.set()
    core.close(error)
    assert slow.last == ErrorEvent("slow", error)
    assert quick.last == ErrorEvent("quick", error)
    twin.leaves_nothing(core, house)


def test_a_preempted_sequence_whose_guest_is_late_comes_back_right(twin):
    gate, house, core, slow, quick, woken = at_the_gate(twin)
    sequence = core._sequences["slow"]
    core.cancel("quick")
    core._scheduler._preempt(sequence)
    assert core.turn()  # it comes back in at once,
    assert not core.turn()  # and waits there for its guest
    woken.clear()  # a busy machine may have made others late before
    gate.through.set()
    assert woken.wait(120)
    twin.drain(core)
    assert slow.tokens == twin.answer([1], 5)
    assert quick.last != slow.last
    twin.leaves_nothing(core, house)


def test_a_requests_configuration_reaches_its_guest(twin):
    house = twin.House()
    twin.run(house, [twin.request("a", [5], 2, sampler_config=b"{}"), twin.request("b", [6], 2)])
    assert sorted(house.sampler.configs) == [b"", b"{}"]
