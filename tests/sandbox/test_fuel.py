"""Fuel mode: calls are limited by what they do, the same on every machine (clause 3.6)."""

from __future__ import annotations

import dataclasses

import pytest

from sealhost.sandbox import AdmissionError, GuestError, OperatorLimits, SamplingParams, Sandbox

TURNS = """(func (export "step") (param i32) (result i32)
  (local $i i32) (local.set $i (i32.const {}))
  (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
  (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 6)) (i32.const 0))"""


@pytest.fixture
def fuelled(sandbox_cache, sandbox):
    """A sandbox with 1,000 units of fuel for each millisecond."""
    limits = OperatorLimits(memory_bytes=1 << 20, table_elements=1000, fuel_per_ms=1000)
    with Sandbox(limits, cache_directory=sandbox_cache) as made:
        yield made


def stepped(sandbox, guest):
    plugin = sandbox.load_sampler(guest, 260)
    with plugin.session(SamplingParams(), []) as session:
        try:
            return session.step(), plugin
        except GuestError as error:
            return error, plugin


def test_a_call_may_spend_its_milliseconds_worth_of_fuel_and_no_more(fuelled, build_guest, guest_limits):
    limits = guest_limits(step_ms=20)  # 20,000 units; a turn takes five or so
    found, plugin = stepped(fuelled, build_guest("sampler", TURNS.format(1_000), limits=limits))
    assert found[0].stop
    stats = plugin.stats()
    assert 1_000 < stats.p50_fuel == stats.p99_fuel < 20_000
    error, plugin = stepped(fuelled, build_guest("sampler", TURNS.format(100_000), limits=limits))
    assert (error.kind, "step spent its fuel of 20000" in str(error)) == ("timeout", True)
    assert plugin.stats().failures == {"timeout": 1}


def test_the_verdict_is_the_same_each_time(fuelled, build_guest, guest_limits):
    limits = guest_limits(step_ms=1)
    fits, too_many = 0, 2_000
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        found, _ = stepped(fuelled, build_guest("sampler", TURNS.format(middle), limits=limits))
        fits, too_many = (fits, middle) if isinstance(found, GuestError) else (middle, too_many)
    for turns, failed in ((fits, False), (too_many, True)) * 5:
        found, _ = stepped(fuelled, build_guest("sampler", TURNS.format(turns), limits=limits))
        assert isinstance(found, GuestError) == failed


def test_a_guest_that_spends_time_but_no_fuel_is_stopped_all_the_same(
    sandbox_cache, sandbox, build_guest, guest_limits
):
    limits = OperatorLimits(memory_bytes=1 << 20, table_elements=1000, fuel_per_ms=1 << 40)
    loop = '(func (export "step") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))'
    with Sandbox(limits, cache_directory=sandbox_cache) as plenty:
        error, _ = stepped(plenty, build_guest("sampler", loop, limits=guest_limits(step_ms=10)))
    assert (error.kind, "longer than 10 ms" in str(error)) == ("timeout", True)


def test_all_pieces_of_a_vocabulary_share_the_fuel_of_loading(fuelled, build_guest, guest_limits, byte_vocabulary):
    load = """(func (export "load") (param i32 i32) (result i32)
      (local $i i32) (local.set $i (i32.const 500))
      (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
      (i32.const 0))"""
    words = dataclasses.replace(byte_vocabulary, merges=(b"a b",) * 2_000)
    pieces = -(-len(words.stream()) // 4096)
    assert pieces == 5
    one_fits = guest_limits(load_ms=4)
    fuelled.load_tokenizer(build_guest("tokenizer", load, limits=one_fits), byte_vocabulary)
    with pytest.raises(AdmissionError, match="load spent its fuel of 4000"):
        fuelled.load_tokenizer(build_guest("tokenizer", load, limits=one_fits), words)
    fuelled.load_tokenizer(build_guest("tokenizer", load, limits=guest_limits(load_ms=100)), words)


def test_fuel_is_not_counted_where_nobody_asks(sandbox, build_guest):
    _, plugin = stepped(sandbox, build_guest("sampler"))
    assert plugin.stats().p50_fuel == 0
