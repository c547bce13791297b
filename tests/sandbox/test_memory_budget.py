"""The operator's limit on what the memories of all live instances take together (clause 3.7)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from sealhost.sandbox import GuestError, OperatorLimits, SamplingParams, Sandbox
from sealhost.sandbox.instance import Instance
from sealhost.sandbox.memory_budget import MemoryBudget

TWO_PAGES = 2 << 16
"""What the tests' guests declare."""


@pytest.fixture
def tight(sandbox_cache):
    limits = OperatorLimits(memory_bytes=1 << 20, live_memory_bytes=3 * TWO_PAGES)
    with Sandbox(limits, cache_directory=sandbox_cache) as sandbox:
        yield sandbox


def test_instance_beyond_the_limit_is_refused_until_another_ends(tight, build_guest, byte_vocabulary):
    sampler = tight.load_sampler(build_guest("sampler"), 260)
    tokenizer = tight.load_tokenizer(build_guest("tokenizer"), byte_vocabulary)
    live = [sampler.session(SamplingParams(), []) for _ in range(3)]
    for refused in (
        lambda: sampler.session(SamplingParams(), []),
        lambda: tokenizer.encode("ok", add_special=False, parse_special=False),
    ):
        with pytest.raises(
            GuestError, match="at most 393216 bytes in all live instances, got 393216 and another 131072"
        ) as caught:
            refused()
        assert caught.value.kind == "busy"
    assert sampler.stats().live == 3
    for _ in range(2):  # a second close gives nothing back
        live[0].close()
    assert tokenizer.encode("ok", add_special=False, parse_special=False) == [111, 107]
    with sampler.session(SamplingParams(), []), pytest.raises(GuestError, match="all live instances"):
        sampler.session(SamplingParams(), [])
    for session in live:
        session.close()


def test_instance_that_cannot_start_takes_nothing(tight, build_guest):
    sampler = tight.load_sampler(build_guest("sampler"), 260)
    program = sampler._program
    small = replace(program, limits=replace(program.limits, memory_bytes=1 << 16))
    for _ in range(4):
        with pytest.raises(GuestError, match="could not start"):
            Instance(small)
    sampler.session(SamplingParams(), []).close()


def test_budget_is_kept_by_many_threads():
    budget = MemoryBudget(8)

    def work(_number):
        refused = 0
        for _ in range(500):
            try:
                budget.take("guest", 3)
            except GuestError:
                refused += 1
            else:
                budget.give_back(3)
        return refused

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for _ in range(8):
        budget.take("guest", 1)
    with pytest.raises(GuestError, match="all live instances"):
        budget.take("guest", 1)


def test_no_limit_is_no_limit():
    budget = MemoryBudget(0)
    for _ in range(3):
        budget.take("guest", 1 << 60)
    budget.give_back(1 << 60)
