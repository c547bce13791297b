"""Ten thousand failures in a row, of every hostile guest that fails in a call, leave nothing behind."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import pytest

from sealhost.sandbox import GuestError, SamplingParams

FAILS_IN_A_CALL = {"trap", "invalid", "error", "empty"}
HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.wat"))
CALLS = 10_000


@pytest.fixture(scope="module")
def failing(sandbox, hostile_guest, byte_vocabulary):
    """A call for each hostile guest that can be loaded, and the kind that it must fail with."""
    calls = []
    for path in HOSTILE:
        guest, facts = hostile_guest(path)
        if facts["expect"] not in FAILS_IN_A_CALL or facts.keys() & {"steps", "then"}:  # those take more than a call
            continue
        if guest.role == "sampler":
            call = sampling(sandbox.load_sampler(guest, 260, byte_vocabulary), int(facts.get("slots", 1)))
        else:
            call = encoding(sandbox.load_tokenizer(guest, byte_vocabulary))
        calls.append((facts["expect"], call))
    return calls


def sampling(sampler, slots: int):
    def call() -> None:
        with sampler.session(SamplingParams(), [1, 2, 3], choices=range(slots)) as session:
            session.prepare(range(slots))
            session.step(range(slots))

    return call


def encoding(tokenizer):
    def call() -> None:
        for text in ("a", "abcdefgh"):
            tokenizer.encode(text, add_special=False, parse_special=False)

    return call


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_ten_thousand_failures_leave_nothing_behind(failing):
    assert len(failing) > 60

    def fail(count: int) -> None:
        for number in range(count):
            expected, call = failing[number % len(failing)]
            try:
                call()
            except GuestError as error:
                found = error.kind
            else:
                found = "nothing"
            if found != "timeout":  # a busy machine may be slower than these small deadlines
                assert found == expected

    fail(CALLS // 10)
    gc.collect()
    memory, files = resident_bytes(), descriptors()
    fail(CALLS)
    gc.collect()
    assert descriptors() <= files
    assert resident_bytes() < memory * 1.05
