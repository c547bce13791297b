"""The engine on its own thread."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import weakref
from contextlib import closing
from functools import partial

import pytest

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ErrorEvent
from sealhost.host.errors import Refused

PATIENCE = 120
"""Seconds after which a test gives up; nothing waits this long unless it is broken."""


def running(house, **settings) -> Engine:
    engine = Engine(house.loaded, EngineConfig(**settings))
    engine.start()
    return engine


def settled(engine: Engine, condition) -> bool:
    """Waits until the engine's published snapshot fulfils a condition."""
    deadline = threading.Event()
    for _ in range(PATIENCE * 1000):
        if condition(engine.stats()):
            return True
        deadline.wait(0.001)
    return False


def test_eight_at_once_from_eight_threads_give_what_each_gives_alone(twin):
    house = twin.House()
    clients = [twin.Client() for _ in range(8)]
    with closing(running(house)) as engine:
        threads = [
            threading.Thread(target=engine.submit, args=(twin.request(str(n), [n] * (n + 1), 50), client))
            for n, client in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        assert all(client.ended.wait(PATIENCE) for client in clients)
        assert settled(engine, lambda stats: stats.finished == 8 and stats.kv_free_blocks == stats.kv_total_blocks)
        for thread in threads:
            thread.join()
    for n, client in enumerate(clients):
        assert client.tokens == twin.answer([n] * (n + 1), 50)
    assert house.sampler.misused == 0


def test_a_client_that_goes_away_frees_its_blocks_while_others_go_on(twin):
    house, gone, stays = twin.House(blocks=400), twin.Client(), twin.Client()
    with closing(running(house)) as engine:
        engine.submit(twin.request("gone", [1], 5000), gone)
        engine.submit(twin.request("stays", [2], 200), stays)
        assert gone.first.wait(PATIENCE)
        engine.cancel("gone")
        assert stays.ended.wait(PATIENCE)
        assert settled(engine, lambda stats: stats.running == 0 and stats.kv_free_blocks == stats.kv_total_blocks)
        assert engine.stats().cancelled == 1
        assert not gone.ended.is_set()
    assert house.sampler.open == 0


def test_five_hundred_requests_aborted_at_random_stages_leave_an_empty_pool(twin):
    numbers = random.Random(100)
    house = twin.House(blocks=40)
    plans = [
        (numbers.randrange(1, 60), numbers.randrange(1, 30), numbers.choice([None, 0, 0, 1, 5, 20])) for _ in range(500)
    ]

    def leaving(engine, client, name, after):
        def sink(event):
            client(event)
            if after is not None and len(client.tokens) == after:
                engine.cancel(name)

        return sink

    clients = [twin.Client() for _ in plans]
    with closing(running(house, max_sequences=6, max_waiting=1000, step_tokens=32, chunk_beside_decode=16)) as engine:
        for n, (length, tokens, after) in enumerate(plans):
            engine.submit(twin.request(str(n), [n % 256] * length, tokens), leaving(engine, clients[n], str(n), after))
            if after == 0:
                engine.cancel(str(n))
        assert settled(engine, lambda stats: stats.finished + stats.cancelled == 500)
        stats = engine.stats()
        assert (stats.running, stats.waiting, stats.kv_free_blocks) == (0, 0, 40)
        assert stats.cancelled > 150
        engine._core.pool.check()
    assert (house.sampler.open, house.sampler.misused) == (0, 0)
    for n, (length, _, _) in enumerate(plans):
        assert clients[n].tokens == twin.answer([n % 256] * length, len(clients[n].tokens))


def test_everybody_who_leaves_at_once_is_gone_from_the_next_snapshot(twin):
    with closing(running(twin.House(blocks=2000), max_sequences=20)) as engine:
        clients = [twin.Client() for _ in range(20)]
        for n, client in enumerate(clients):
            engine.submit(twin.request(str(n), [n], 5000), client)
        assert all(client.first.wait(PATIENCE) for client in clients)
        for n in range(20):
            engine.cancel(str(n))
        assert settled(engine, lambda stats: stats.cancelled == 20)
        stats = engine.stats()
        assert (stats.running, stats.waiting, stats.kv_free_blocks) == (0, 0, stats.kv_total_blocks)


def test_cancelling_ids_that_are_unknown_or_gone_changes_nothing(twin):
    with closing(running(twin.House())) as engine:
        engine.cancel("unknown")
        for _ in range(2):  # the same id may be used again once it has ended
            client = twin.Client()
            engine.submit(twin.request("a", [1], 4), client)
            assert client.ended.wait(PATIENCE)
            engine.cancel("a")
            engine.cancel("a")
            assert settled(engine, lambda stats: stats.running == 0)
        assert client.tokens == twin.answer([1], 4)
        assert engine.stats().cancelled == 0


@pytest.mark.parametrize(
    ("prompt", "more", "words", "reason"),
    [
        ([], {}, "expected at least 1 token, got an empty prompt", "invalid_value"),
        ([1] * 64, {}, "expected a prompt below the context of 64 tokens, got 64 tokens", "context_length_exceeded"),
        ([1] * 65, {}, "got 65 tokens", "context_length_exceeded"),
        ([1] * 200, {"max_tokens": 1}, "got 200 tokens", "context_length_exceeded"),
        ([260], {}, "expected token ids from 0 to 259, got 260", "invalid_value"),
        ([-1], {}, "got -1", "invalid_value"),
        ([1], {"max_tokens": 0}, "expected at least 1, got 0", "invalid_value"),
        ([1], {"max_tokens": -5}, "expected at least 1, got -5", "invalid_value"),
        ([1], {"logprobs": 21}, "expected 0 to 20, got 21", "invalid_value"),
        ([1], {"logprobs": -1}, "expected 0 to 20, got -1", "invalid_value"),
        ([1], {"stop": ("a", "")}, "got an empty one", "invalid_value"),
        ([1], {"stop_ids": frozenset({99999})}, "got 99999", "invalid_value"),
        ([1], {"sampler": "other"}, "expected one of: greedy; got other", "invalid_value"),
    ],
)
def test_a_request_that_can_never_run_is_refused_at_once(twin, prompt, more, words, reason):
    with closing(running(twin.House(context=64))) as engine, pytest.raises(Refused) as caught:
        engine.submit(twin.request("a", prompt, **more), twin.Client())
    assert words in str(caught.value)
    assert (caught.value.status, caught.value.type, caught.value.reason) == (400, "invalid_request_error", reason)
    assert caught.value.param


def test_a_prompt_one_below_the_context_gives_one_token(twin):
    client = twin.Client()
    with closing(running(twin.House(context=64))) as engine:
        engine.submit(twin.request("a", [1] * 63, 99), client)
        assert client.ended.wait(PATIENCE)
    assert client.tokens == twin.answer([1] * 63, 1)
    assert client.last.reason == "length"


def test_a_request_larger_than_the_pool_blocks_nobody(twin):
    first, second, third = twin.Client(), twin.Client(), twin.Client()
    with closing(running(twin.House(blocks=2, context=64))) as engine:
        with pytest.raises(Refused, match="below the context of 32 tokens, got 40"):
            engine.submit(twin.request("a", [1] * 40, 4), first)
        engine.submit(twin.request("b", [1] * 4, 4), second)
        engine.submit(twin.request("c", [2] * 30, 20), third)
        assert second.ended.wait(PATIENCE)
        assert third.ended.wait(PATIENCE)
    assert first.events == []
    assert second.tokens == twin.answer([1] * 4, 4)
    assert third.tokens == twin.answer([2] * 30, 2)
    assert third.last.reason == "length"


def test_past_the_queue_the_answer_is_to_come_back_later(twin):
    let_through = threading.Event()
    house = twin.House(sampler=twin.Sampler(lambda session: let_through.wait(PATIENCE) and twin.greedy(session)))
    clients = [twin.Client() for _ in range(3)]
    with closing(running(house, max_sequences=1, max_waiting=2)) as engine:
        for n, client in enumerate(clients):
            engine.submit(twin.request(str(n), [n], 2), client)
        with pytest.raises(Refused) as caught:
            engine.submit(twin.request("one more", [1], 2), twin.Client())
        assert (caught.value.status, caught.value.type, caught.value.reason) == (429, "rate_limit_error", "queue_full")
        let_through.set()
        assert all(client.ended.wait(PATIENCE) for client in clients)
        engine.submit(twin.request("later", [1], 2), clients[0].__class__())


def test_an_id_in_use_is_refused(twin):
    with closing(running(twin.House(blocks=2000))) as engine:
        engine.submit(twin.request("a", [1], 5000), twin.Client())
        with pytest.raises(Refused, match="expected an id that is not in use"):
            engine.submit(twin.request("a", [1]), twin.Client())


def test_closing_ends_everything_and_later_requests_are_refused(twin):
    house, clients = twin.House(blocks=2000), [twin.Client() for _ in range(3)]
    engine = running(house, max_sequences=2)
    for n, client in enumerate(clients):
        engine.submit(twin.request(str(n), [n], 20_000), client)
    assert clients[0].first.wait(PATIENCE)
    engine.close()
    engine.close()
    assert all(isinstance(client.last, ErrorEvent) for client in clients)
    assert "the host is stopping" in str(clients[2].last.error)
    assert house.sampler.open == 0
    assert engine.stats().kv_free_blocks == engine.stats().kv_total_blocks
    with pytest.raises(Refused) as caught:
        engine.submit(twin.request("late", [1]), twin.Client())
    assert caught.value.status == 503


def test_an_engine_that_was_never_started_closes(twin):
    Engine(twin.House().loaded, EngineConfig()).close()


def test_a_fault_of_the_engine_itself_ends_requests_and_not_the_thread(twin, caplog):
    house, before, after = twin.House(), twin.Client(), twin.Client()
    engine = Engine(house.loaded, EngineConfig())
    plan, broken = engine._core._scheduler.plan, threading.Event()

    def once():
        if broken.is_set():
            return plan()
        broken.set()
        raise ZeroDivisionError("a bug of ours")

    engine._core._scheduler.plan = once
    engine.start()
    with closing(engine):
        engine.submit(twin.request("before", [1]), before)
        assert before.ended.wait(PATIENCE)
        engine.submit(twin.request("after", [1]), after)
        assert after.ended.wait(PATIENCE)
        assert engine.is_open
    assert not engine.is_open
    assert before.last.error.code == "E_INTERNAL"
    assert after.tokens == twin.answer([1], 8)
    assert "a fault of its own" in caplog.text


def test_a_second_fault_while_requests_are_ended_leaves_nobody_waiting(twin, monkeypatch, caplog):
    """Whatever is broken by then: every client hears of it, and no later one is taken and never answered."""
    house, clients = twin.House(), [twin.Client() for _ in range(3)]
    with closing(running(house)) as engine:
        monkeypatch.setattr(engine._core._scheduler, "remove", lambda _sequence: 1 / 0)
        monkeypatch.setattr(engine._core._scheduler, "plan", lambda: 1 / 0)
        for n, client in enumerate(clients):
            engine.submit(twin.request(str(n), [n + 1], 5), client)
        assert all(client.ended.wait(PATIENCE) for client in clients)
        assert all(isinstance(client.events[-1], ErrorEvent) for client in clients)
        engine._thread.join(PATIENCE)
        with pytest.raises(Refused) as caught:
            engine.submit(twin.request("late", [1], 5), twin.Client())
        assert caught.value.status == 503
        assert not engine.is_open
    assert "a fault of its own" in caplog.text


def test_a_sink_may_talk_to_the_engine(twin):
    house, second = twin.House(), twin.Client()
    with closing(running(house)) as engine:

        def first(event):
            engine.cancel("first")
            if not second.events and "second" not in engine._inbox.live:
                engine.submit(twin.request("second", [3], 4), second)

        engine.submit(twin.request("first", [1], 8), first)
        assert second.ended.wait(PATIENCE)
    assert second.tokens == twin.answer([3], 4)


@pytest.mark.parametrize("tier", ["full", "mask"])
@pytest.mark.parametrize("started", [True, False])
def test_a_closed_engine_and_what_it_served_are_freed_without_the_garbage_collector(twin, tier, started):
    house = twin.House(sampler=twin.Sampler(tier=tier, max_rows=2))
    engine = Engine(house.loaded, EngineConfig())
    client, sinks = twin.Client(), []
    gc.collect()
    gc.disable()
    try:
        if started:
            engine.start()
            for request in (*twin.group([1] * 20, 9, n=2), twin.request("b", [2], 9), twin.request("c", [3], 9000)):
                sink = partial(client.__class__.__call__, twin.Client())
                sinks.append(weakref.ref(sink))
                engine.submit(request, sink)
            engine.submit(twin.request("last", [4], 30), client)
            assert client.ended.wait(PATIENCE)
        engine.close()
        freed = weakref.ref(engine), weakref.ref(engine._core), *sinks
        engine = sink = None
        assert [one() for one in freed] == [None] * len(freed)
    finally:
        gc.enable()


def test_an_engine_is_closed_only_when_its_thread_has_ended_whatever_signal_comes(twin, monkeypatch):
    """What closes it frees its model's memory next; Thread.join, interrupted, says that a thread has ended that has not."""
    engine = Engine(twin.House().loaded, EngineConfig())
    asked, ended = threading.Event(), []
    close = engine._core.close

    def slowly(error):
        while not asked.wait(0.01):
            os.kill(os.getpid(), signal.SIGALRM)  # again: one that comes just before the main thread waits wakes nobody
        close(error)
        ended.append(True)

    def interrupted(*_):
        if not asked.is_set():
            asked.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(engine._core, "close", slowly)
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        engine.start()
        with pytest.raises(KeyboardInterrupt):
            engine.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended == [True]
    engine.close()
