"""Deadlines, threads, the end of instances, and that nothing is left behind."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox, SandboxError, binding, engine
from sealhost.sandbox.engine import Ticker
from sealhost.sandbox.instance import Instance
from sealhost.sandbox.limits import deadline_ticks
from sealhost.sandbox.memory import GuestMemory
from sealhost.sandbox.thread_stack import MARGIN_BYTES, thread_stack_bytes

LOOP = '(func (export "step") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))'
PASSES = """(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 2)) (i32.const 0))"""
TRAP = '(func (export "step") (param i32) (result i32) (unreachable))'
RECURSE = '(func $r (param i64) (result i64) (i64.add (i64.const 1) (call $r (local.get 0)))) (func (export "step") (param i32) (result i32) (drop (call $r (i64.const 0))) (i32.const 0))'


@pytest.fixture
def own_sandbox(sandbox_cache, sandbox):
    """A sandbox that a test may break; shares the session's compiled code."""
    with Sandbox(OperatorLimits(memory_bytes=1 << 20, table_elements=1000), cache_directory=sandbox_cache) as made:
        yield made


@pytest.fixture
def wall_sandbox(wall_deadlines, own_sandbox):
    """The same, with deadlines by the clock; its guests need a long `init_ms`, which a busy machine may take."""
    return own_sandbox


def load(sandbox, build_guest, text="", **options):
    return sandbox.load_sampler(build_guest("sampler", text, **options), 260)


def kind_of_failure(sampler) -> str:
    with sampler.session(SamplingParams(), []) as session, pytest.raises(GuestError) as caught:
        session.step()
    return caught.value.kind


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


def test_two_threads_cannot_use_one_session(sandbox, build_guest, guest_limits):
    sampler = sandbox.load_sampler(build_guest("sampler", LOOP, limits=guest_limits(step_ms=200)), 260)
    with sampler.session(SamplingParams(), []) as session, ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.step)
        while not session._instance._lock.locked():
            time.sleep(0.001)
        with pytest.raises(SandboxError, match="one thread at a time"):
            session.step()
        with pytest.raises(GuestError, match="timeout"):
            running.result()


def test_close_waits_for_a_running_call(sandbox, build_guest, guest_limits):
    sampler = sandbox.load_sampler(build_guest("sampler", LOOP, limits=guest_limits(step_ms=200)), 260)
    session = sampler.session(SamplingParams(), [])
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(session.step)
        while not session._instance._lock.locked():
            time.sleep(0.001)
        session.close()
        with pytest.raises(GuestError, match="timeout"):
            running.result()


def test_an_id_that_is_accepted_while_the_session_closes_is_refused_and_not_written(sandbox, build_guest):
    session = sandbox.load_sampler(build_guest("sampler"), 260).session(SamplingParams(), [])

    class Ids(list):
        """Another thread closes the session when these have been checked and the first one was written."""

        looks = 0

        def __iter__(self):
            self.looks += 1
            yield 1
            if self.looks == 2:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(session.close).result()
            yield 2

    with pytest.raises(SandboxError, match="expected an open session, got a closed one"):
        session.accept(0, Ids((1, 2)))


def test_a_view_of_the_history_that_somebody_holds_does_not_keep_a_session_from_closing(sandbox, build_guest):
    session = sandbox.load_sampler(build_guest("sampler"), 260).session(SamplingParams(), [7])
    held = session._slots[0].past()
    session.close()
    with pytest.raises(SandboxError, match="closed"):
        session.accept(0, (1,))
    del held


def test_close_waits_until_an_answer_has_been_read_and_drawn_from(sandbox, build_guest, monkeypatch):
    class Watched:
        """The session's lock, which tells when `close` comes to wait for it."""

        def __init__(self, lock) -> None:
            self.acquire, self.release, self.lock = lock.acquire, lock.release, lock
            self.somebody_waits = threading.Event()

        def __enter__(self) -> None:
            self.somebody_waits.set()
            self.lock.acquire()

        def __exit__(self, *_) -> None:
            self.lock.release()

    session = sandbox.load_sampler(build_guest("sampler", PASSES), 260).session(SamplingParams(), [])
    session._calling = Watched(session._calling)
    with ThreadPoolExecutor(1) as pool:
        closing = []

        def sample(logits, *_, **_named) -> int:
            closing.append(pool.submit(session.close))
            session._calling.somebody_waits.wait()
            assert not closing[0].done()
            return int(logits.sum()) + 5

        monkeypatch.setattr("sealhost.sandbox.session.sampling.sample", sample)
        assert session.step()[0].tokens == (5,)
        closing[0].result()
    with pytest.raises(SandboxError, match="closed"):
        session.step()


def test_two_threads_cannot_use_one_instance(sandbox, build_guest):
    refused = pytest.raises(SandboxError, match="one thread at a time")
    with sandbox.load_sampler(build_guest("sampler"), 260).session(SamplingParams(), []) as session:
        instance = session._instance
        with instance._lock, refused:
            instance.call("step", 1)


def test_two_threads_cannot_ask_one_session_for_masks(sandbox, puppet):
    second = pytest.raises(SandboxError, match="one thread at a time")
    with puppet("mask").session(SamplingParams(), []) as session, session._calling, second:
        session.prepare([0])


def test_looping_guests_on_four_workers_do_not_harm_a_good_one(sandbox, build_guest, guest_limits):  # R124
    bad = load(sandbox, build_guest, LOOP)
    good = sandbox.load_sampler(build_guest("sampler", limits=guest_limits(step_ms=100)), 260)
    with ThreadPoolExecutor(4) as pool:
        outcomes = [pool.submit(kind_of_failure, bad) for _ in range(24)]
        with good.session(SamplingParams(), []) as session:
            session.logits(0)[5] = 1
            for _ in range(50):
                assert session.step()[0].tokens[0] == 5
        assert {o.result() for o in outcomes} == {"timeout"}


def test_deep_recursion_on_an_ordinary_thread_is_a_trap(sandbox, build_guest):
    sampler = load(sandbox, build_guest, RECURSE)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(kind_of_failure, sampler).result() == "trap"


def test_thread_with_a_small_stack_is_refused_before_the_guest_runs(sandbox, build_guest):
    sampler = load(sandbox, build_guest, RECURSE)
    outcome = []

    def run() -> None:
        outcome.append(thread_stack_bytes())
        with sampler.session(SamplingParams(), []) as session:
            try:
                session.step()
            except SandboxError as error:
                outcome.append(error)

    usual = threading.stack_size((512 << 10) + MARGIN_BYTES - 65536)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(usual)
    size, error = outcome
    assert size < (512 << 10) + MARGIN_BYTES
    assert not isinstance(error, GuestError)
    assert "threading.stack_size" in str(error)


def test_system_that_does_not_tell_its_stacks_is_trusted(monkeypatch):
    monkeypatch.setattr("sealhost.sandbox.thread_stack.ctypes.CDLL", lambda _name: object())
    assert thread_stack_bytes() is None


def test_stack_that_cannot_be_read_is_trusted(monkeypatch):
    class Library:
        class pthread_self:  # noqa: N801
            restype = None

            def __new__(cls):
                return 0

        pthread_getattr_np = staticmethod(lambda *_: 22)
        pthread_attr_getstacksize = pthread_attr_destroy = None

    monkeypatch.setattr("sealhost.sandbox.thread_stack.ctypes.CDLL", lambda _name: Library)
    assert thread_stack_bytes() is None


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_hundreds_of_failures_leave_nothing_behind(sandbox, build_guest, guest_limits):
    fill = """(func (export "step") (param i32) (result i32)
      (memory.fill (i32.const 0) (i32.const 0xff) (i32.const 131072)) (i32.const 0))"""
    patient = guest_limits(step_ms=10_000)  # a busy machine is no failure of theirs
    samplers = [load(sandbox, build_guest, text, limits=patient) for text in (TRAP, RECURSE, fill)]

    def rounds(count: int) -> None:
        for _ in range(count):
            for sampler in samplers:
                assert kind_of_failure(sampler) in {"trap", "invalid"}

    rounds(60)
    memory, files = resident_bytes(), descriptors()
    rounds(200)
    assert descriptors() <= files
    assert resident_bytes() < memory * 1.05


def test_hundreds_of_encodes_leave_nothing_behind(sandbox, build_guest, byte_vocabulary):
    tokenizer = sandbox.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)
    for _ in range(100):
        tokenizer.encode("warm", add_special=True, parse_special=False)
    memory, files = resident_bytes(), descriptors()
    for _ in range(1000):
        tokenizer.encode("text", add_special=True, parse_special=False)
    assert descriptors() <= files
    assert resident_bytes() < memory * 1.05


def test_loading_again_and_again_leaves_nothing_behind(sandbox, build_guest):
    guest = build_guest("sampler")

    def rounds(count: int) -> None:
        for _ in range(count):
            with sandbox.load_sampler(guest, 260).session(SamplingParams(), []) as session:
                session.step()

    rounds(50)
    files = descriptors()
    rounds(50)
    assert descriptors() <= files + 1


def test_too_little_address_space_is_a_clear_error(sandbox_cache, sandbox, build_guest, tmp_path):  # R120
    guest = build_guest("sampler")
    load(sandbox, build_guest)  # compiled code is in the cache
    (tmp_path / "guest.wasm").write_bytes(guest.wasm)
    script = f"""
import resource, sys
from dataclasses import dataclass
from pathlib import Path
from sealhost.sandbox import GuestError, OperatorLimits, Sandbox, SamplingParams
@dataclass
class Limits:
    memory_bytes: int = 1 << 20; init_ms: int = 200; load_ms: int = 200; step_ms: int = 50; encode_ms: int = 50
@dataclass
class Guest:
    wasm: bytes; name: str = "guest"; role: str = "sampler"; sha256: str = ""; abi: int = 1; tier: str = "full"; limits: Limits = Limits(); config_schema: None = None
    __hash__ = None
limits = OperatorLimits(memory_bytes=1 << 20, table_elements=1000)
with Sandbox(limits, cache_directory=Path({str(sandbox_cache)!r})) as sandbox:
    sampler = sandbox.load_sampler(Guest(Path({str(tmp_path)!r}, "guest.wasm").read_bytes()), 260)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    live = []
    try:
        while len(live) < 64:
            live.append(sampler.session(SamplingParams(), []))
    except GuestError as error:
        print(error)
    for session in live:
        session.close()
    with sampler.session(SamplingParams(), []) as session:
        session.logits(0)[4] = 1
        print(len(live), session.step()[0].tokens[0])
"""
    script = script.replace("limits: Limits = Limits()", "limits: object = Limits").replace(
        "class Limits:", "class Limits:"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last.endswith(" 4")
    assert last.startswith("64 ") or "could not start an instance" in refused[0]


@pytest.mark.parametrize("available", [True, False])
def test_instance_that_cannot_be_made_is_a_guest_error(sandbox, build_guest, monkeypatch, available):
    monkeypatch.setattr(binding, "AVAILABLE", available)
    program = load(sandbox, build_guest)._program
    small = replace(program, limits=replace(program.limits, memory_bytes=1 << 16))  # the module has two pages
    with pytest.raises(GuestError, match="could not start an instance: memory minimum size of 2 pages exceeds"):
        Instance(small)


def test_export_of_another_kind_is_never_used(sandbox, build_guest):
    with Instance(load(sandbox, build_guest)._program) as instance:
        with pytest.raises(TypeError, match="function 'memory'"):
            instance.call("memory")
        with pytest.raises(TypeError, match="global 'step'"):
            instance.global_bytes("step", "<i")
        with pytest.raises(KeyError):
            instance.global_bytes("nothing", "<i")


def test_memory_is_checked_at_both_ends():
    backing = np.arange(64, dtype=np.uint8)
    memory = GuestMemory(backing.ctypes.data, 64)
    assert memory.read(60, 4) == bytes((60, 61, 62, 63))
    assert memory.array(8, 2, np.uint32).tolist() == np.frombuffer(backing[8:16].tobytes(), "<u4").tolist()
    for offset, size in ((61, 4), (-1, 4), (64, 1), (2**40, 1), (0, 65), (0, -1)):
        with pytest.raises(SandboxError, match="outside"):
            memory.read(offset, size)
    memory.write(0, b"\xff")
    assert backing[0] == 255
    memory.close()
    for use in (lambda: memory.view, memory.base, lambda: memory.read(0, 1), lambda: memory.write(0, b"x")):
        with pytest.raises(SandboxError, match="closed"):
            use()


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"step_ms": 0}, "step_ms"), ({"memory_bytes": 1 << 32}, "memory_bytes"), ({"tick_ms": -1}, "tick_ms")],
)
def test_limits_out_of_range_are_refused_by_name(changes, words):
    with pytest.raises(SandboxError, match=words):
        OperatorLimits(**changes)
