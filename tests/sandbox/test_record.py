"""Strikes, quarantine, places and figures of a plugin; time passes only when a test says so."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing

import pytest

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox
from sealhost.sandbox.record import PluginRecord

VOCABULARY = 260
LIMITS = {"max_sessions": 3, "strikes": 3, "backoff_ms": 1000, "max_backoff_ms": 5000}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def record(clock):
    return PluginRecord("guest", OperatorLimits(**LIMITS), clock)


def fail(record, kind="trap", times=1):
    for _ in range(times):
        with closing(record.admit()) as ticket:
            ticket.fail(GuestError("guest", kind, "x"))


def succeed(record):
    with closing(record.admit()) as ticket:
        ticket.prove()


def refused(record) -> str | None:
    """The kind of refusal, None when a session is let in; the session ends before its first call."""
    try:
        record.admit().close()
    except GuestError as error:
        return error.kind
    return None


@pytest.mark.parametrize("kind", ["trap", "timeout", "invalid"])
def test_failures_in_a_row_quarantine_a_plugin_until_the_back_off_has_passed(record, clock, kind):
    fail(record, kind, times=2)
    assert refused(record) is None
    fail(record, kind)
    assert refused(record) == "quarantined"
    assert record.stats().quarantined_s == 1.0
    clock.now += 0.999
    assert refused(record) == "quarantined"
    clock.now += 0.001
    assert refused(record) is None
    assert record.stats().quarantined_s == 0.0


@pytest.mark.parametrize("kind", ["error", "empty"])
def test_what_a_guest_says_itself_is_no_strike_and_no_success(record, kind):
    fail(record, times=2)
    fail(record, kind, times=9)
    assert record.stats().strikes == 2
    fail(record)
    assert refused(record) == "quarantined"


def test_a_success_between_failures_clears_the_strikes(record):
    for _ in range(5):
        fail(record, times=2)
        succeed(record)
    assert (refused(record), record.stats().strikes) == (None, 0)


def test_a_session_that_was_never_called_clears_nothing(record):
    fail(record, times=2)
    record.admit().close()
    fail(record)
    assert refused(record) == "quarantined"


def test_each_failure_after_a_back_off_doubles_it_up_to_its_limit(record, clock):
    fail(record, times=3)
    waits = []
    for _ in range(5):
        waits.append(record.stats().quarantined_s)
        clock.now += waits[-1]
        fail(record)
    assert waits == [1, 2, 4, 5, 5]


def test_one_success_after_a_back_off_clears_everything(record, clock):
    fail(record, times=3)
    clock.now += 1
    fail(record)
    clock.now += 2
    succeed(record)
    fail(record, times=2)
    assert refused(record) is None
    fail(record)
    assert record.stats().quarantined_s == 1.0


def test_after_a_back_off_one_session_tries_the_plugin_and_its_first_answer_lets_others_in(record, clock):
    fail(record, times=3)
    clock.now += 1
    with closing(record.admit()) as trial:
        with pytest.raises(GuestError, match="until one session"):
            record.admit()
        trial.prove()
        assert refused(record) is None
        trial.fail(GuestError("guest", "invalid", "x"))
    assert record.stats().quarantined_s == 2.0


def test_sessions_from_before_a_quarantine_neither_lengthen_nor_lift_it(record, clock):
    early, late = record.admit(), record.admit()
    fail(record, times=3)
    late.fail(GuestError("guest", "trap", "x"))
    late.close()
    early.prove()
    early.close()
    assert record.stats().quarantined_s == 1.0
    assert refused(record) == "quarantined"


def test_live_sessions_have_a_limit_and_give_their_place_back_once(record):
    tickets = [record.admit() for _ in range(3)]
    assert refused(record) == "busy"
    tickets[0].close()
    tickets[0].close()
    assert record.stats().live == 2
    tickets.append(record.admit())
    assert refused(record) == "busy"
    for ticket in tickets:
        ticket.close()
    stats = record.stats()
    assert (stats.sessions, stats.live, stats.refused) == (4, 0, 2)


def test_quantiles_are_at_most_a_fifth_too_high(record):
    assert (record.stats().p50_us, record.stats().p99_us) == (0, 0)
    for microseconds in [10] * 97 + [500] * 3:
        record.times.append(microseconds * 1000)
    stats = record.stats()
    assert stats.calls == 100
    assert 10 <= stats.p50_us < 12
    assert 500 <= stats.p99_us < 600
    for extreme in (0, 1, 10**30):
        record.times.append(extreme)
    assert record.stats().calls == 103


def test_many_threads_lose_no_count(record):
    def work():
        for _ in range(300):
            with closing(record.admit()) as ticket:
                record.times.append(1000)
                ticket.prove()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = record.stats()
    assert (stats.sessions, stats.calls, stats.live, stats.strikes) == (900, 900, 0, 0)


TRAITOR = """(func (export "step") (param i32) (result i32)
  (if (f32.gt (f32.load (i32.const 4096)) (f32.const 0)) (then unreachable))
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1)) (i32.const 0))"""
"""Traps when the first logit is positive."""


@pytest.fixture
def impatient(sandbox, sandbox_cache, clock):
    """A sandbox with few strikes on the test's clock; compiled code comes from the common cache."""
    limits = OperatorLimits(memory_bytes=1 << 20, table_elements=1000, **LIMITS)
    with Sandbox(limits, cache_directory=sandbox_cache, clock=clock) as made:
        yield made


def test_a_sampler_that_keeps_trapping_is_refused_before_it_is_started(impatient, sandbox, build_guest, clock):
    guest = build_guest("sampler", TRAITOR)
    sandbox.load_sampler(guest, VOCABULARY)  # compiles it
    sampler = impatient.load_sampler(guest, VOCABULARY)

    def answer(first):
        with sampler.session(SamplingParams(), [1]) as session:
            session.logits(0)[0] = first
            return session.step()[0].tokens[0]

    assert answer(-1) == 0
    for _ in range(3):
        with pytest.raises(GuestError, match="unreachable"):
            answer(1)
    with pytest.raises(GuestError, match=r"for another 1\.0 s") as caught:
        answer(-1)
    assert caught.value.kind == "quarantined"
    clock.now += 1
    assert answer(-1) == 0
    stats = sampler.stats()
    assert (stats.sessions, stats.calls, stats.refused, stats.live, stats.strikes) == (5, 5, 1, 0, 0)
    assert stats.failures == {"trap": 3}
    assert 0 < stats.p50_us <= stats.p99_us


def test_a_sampler_has_so_many_live_sessions_and_one_that_cannot_start_takes_no_place(
    impatient, sandbox, build_guest, monkeypatch
):
    guest = build_guest("sampler")
    sandbox.load_sampler(guest, VOCABULARY)
    sampler = impatient.load_sampler(guest, VOCABULARY)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(sampler.session(SamplingParams(), [1]))
        with pytest.raises(GuestError, match="at most 3 live sessions") as caught:
            sampler.session(SamplingParams(), [1])
        assert caught.value.kind == "busy"
    with monkeypatch.context() as patch:
        patch.setattr(impatient._engine, "require_ticker", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sampler.session(SamplingParams(), [1])
    assert sampler.stats().live == 0


def test_a_failed_reset_is_a_strike(impatient, sandbox, build_guest):
    guest = build_guest("sampler", '(func (export "reset") (result i32) unreachable)')
    sandbox.load_sampler(guest, VOCABULARY)
    sampler = impatient.load_sampler(guest, VOCABULARY)
    with sampler.session(SamplingParams(), [1]) as session, pytest.raises(GuestError, match="reset trapped"):
        session.reset()
    assert sampler.stats().failures == {"trap": 1}


def test_a_tokenizer_that_keeps_lying_is_refused(impatient, sandbox, build_guest, byte_vocabulary, clock):
    text = """(func (export "encode") (param i32 i32) (result i32)
      (i32.store (i32.const 12288) (i32.const 65)) (i32.const 1))"""
    guest = build_guest("tokenizer", text)
    sandbox.load_tokenizer(guest, byte_vocabulary)
    tokenizer = impatient.load_tokenizer(guest, byte_vocabulary)

    def encode(given):
        return tokenizer.encode(given, add_special=False, parse_special=False)

    assert encode("A") == [65]
    for _ in range(3):
        with pytest.raises(GuestError, match="invalid"):
            encode("B")
    with pytest.raises(GuestError, match="quarantined"):
        encode("A")
    clock.now += 1
    assert encode("A") == [65]
    stats = tokenizer.stats()
    assert (stats.sessions, stats.calls, stats.failures, stats.strikes) == (5, 5, {"invalid": 3}, 0)
