"""Deadlines of guests, and the thread that makes them come."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from failing_guests import LOOP, kind_of_failure, load

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox, SandboxError, engine
from sealhost.sandbox.engine import Ticker
from sealhost.sandbox.limits import deadline_ticks


@pytest.fixture
def own_sandbox(sandbox_cache, sandbox):
    """A sandbox that a test may break; shares the session's compiled code."""
    with Sandbox(OperatorLimits(memory_bytes=1 << 20, table_elements=1000), cache_directory=sandbox_cache) as made:
        yield made


@pytest.fixture
def wall_sandbox(wall_deadlines, own_sandbox):
    """The same, with deadlines by the clock; its guests need a long `init_ms`, which a busy machine may take."""
    return own_sandbox


@pytest.mark.parametrize(
    ("milliseconds", "tick", "ticks"), [(1, 5, 2), (5, 5, 2), (6, 5, 3), (100, 5, 21), (1, 1000, 2), (0.5, 1, 2)]
)
def test_deadline_is_never_early_and_at_least_two_ticks(milliseconds, tick, ticks):
    assert deadline_ticks(milliseconds, tick) == ticks


def test_loop_ends_at_its_deadline_and_not_much_later(wall_sandbox, build_guest, guest_limits):  # R112
    limits = guest_limits(step_ms=100, init_ms=10_000)
    sampler = wall_sandbox.load_sampler(build_guest("sampler", LOOP, limits=limits), 260)
    with sampler.session(SamplingParams(), []) as session:
        started, began = time.monotonic(), time.thread_time()
        with pytest.raises(GuestError, match="longer than 100 ms"):
            session.step()
        assert time.monotonic() - started >= 0.095
        assert time.thread_time() - began < 1.0  # of the processor, which others may hold: 0.11 to 0.25


def test_operators_smaller_limit_counts(sandbox_cache, build_guest, guest_limits, sandbox):
    allowed = OperatorLimits(memory_bytes=1 << 20, table_elements=1000, step_ms=20)
    guest = build_guest("sampler", LOOP, limits=guest_limits(step_ms=60_000))
    with Sandbox(allowed, cache_directory=sandbox_cache) as strict:
        sampler = strict.load_sampler(guest, 260)
        assert sampler.limits.step_ms == 20
        assert kind_of_failure(sampler) == "timeout"


def test_calls_are_refused_once_the_ticker_is_dead(own_sandbox, build_guest):  # R112
    sampler = load(own_sandbox, build_guest)
    with sampler.session(SamplingParams(), []) as session:
        own_sandbox.close()
        with pytest.raises(SandboxError, match="dead one"):
            session.step()
    with pytest.raises(SandboxError, match="dead one"):
        sampler.session(SamplingParams(), [])


def test_ticker_that_fails_is_not_alive():
    failed = threading.Event()
    hook, threading.excepthook = threading.excepthook, lambda _arguments: failed.set()
    try:
        ticker = Ticker(lambda: 1 / 0, 0.001)
        assert failed.wait(120)
        ticker.close()
    finally:
        threading.excepthook = hook
    assert not ticker.alive


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_ticker_that_comes_late_makes_up_for_it():
    clock, ticks = Clock(), threading.Semaphore(0)
    ticker = Ticker(ticks.release, 0.004, clock)
    assert ticker.owed == 0
    clock.now += 0.05
    for _ in range(12):
        assert ticks.acquire(timeout=120)
    ticker.close()
    assert not ticks.acquire(blocking=False)
    assert ticker.owed == 0
    clock.now += 0.02
    assert ticker.owed == 5  # nobody ticks any more


def test_a_ticker_that_wakes_late_sleeps_less(monkeypatch):
    clock, slept = Clock(), []

    class Oversleeper(threading.Event):
        def wait(self, timeout=None):
            slept.append(round(timeout, 6))
            clock.now += timeout + 0.001
            return len(slept) == 3

    with monkeypatch.context() as patched:
        patched.setattr("sealhost.sandbox.engine.threading.Event", Oversleeper)
        patched.setattr("sealhost.sandbox.engine.threading.Thread", lambda target, **_: SimpleNamespace(start=target))
        Ticker(lambda: None, 0.004, clock)
    assert slept == [0.004, 0.003, 0.003]


def test_a_call_that_starts_while_ticks_are_owed_gets_its_whole_time(wall_sandbox, build_guest, guest_limits):
    limits = guest_limits(step_ms=100, init_ms=10_000)
    sampler = wall_sandbox.load_sampler(build_guest("sampler", LOOP, limits=limits), 260)
    ticker = wall_sandbox._engine.ticker
    with sampler.session(SamplingParams(), []) as session:
        ticker.next_at -= 50  # as if it had slept: at its next turn it makes up for all of them
        started = time.monotonic()
        with pytest.raises(GuestError, match="longer than 100 ms"):
            session.step()
        assert time.monotonic() - started >= 0.095


def test_fork_ends_the_tickers_that_its_child_knows(monkeypatch):
    ticker = Ticker(lambda: None, 60)
    monkeypatch.setattr(engine, "tickers", {ticker})
    engine.forked()
    assert not ticker.alive
    ticker.close()


def test_forked_child_has_no_ticker(own_sandbox):
    script = """
import os
from sealhost.sandbox import OperatorLimits
from sealhost.sandbox.engine import Engine
engine = Engine(OperatorLimits())
assert engine.ticker.alive
pid = os.fork()
if pid == 0:
    os._exit(1 if engine.ticker.alive else 0)
engine.close()
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False, cwd="/").returncode == 0
