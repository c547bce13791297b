"""Guests that use much stack, on threads that have little."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from failing_guests import RECURSE, kind_of_failure, load

from sealhost.sandbox import GuestError, SamplingParams, SandboxError
from sealhost.sandbox.thread_stack import MARGIN_BYTES, thread_stack_bytes


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
