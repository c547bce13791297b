"""Threads, the end of instances, and that nothing is left behind."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from failing_guests import LOOP, PASSES, RECURSE, TRAP, kind_of_failure, load

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, SandboxError, binding
from sealhost.sandbox.instance import Instance
from sealhost.sandbox.memory import GuestMemory


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
