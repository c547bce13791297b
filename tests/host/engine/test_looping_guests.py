"""Guests that loop for ever, many at a time (cases R112, R124): nobody else waits for them, and they end."""

from __future__ import annotations

import hashlib
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import wasmtime

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ErrorEvent
from sealhost.sandbox import OperatorLimits, Sandbox

HERE = Path(__file__).parent
GUEST = HERE / "guests" / "turncoat.wat"
LOOPS = HERE.parents[1] / "sandbox" / "hostile" / "step_loops.wat"
PATIENCE = 120
MANY, WORKERS = 24, 4


def plugin(name: str, text: str, step_ms: int):
    wasm = bytes(wasmtime.wat2wasm(text))
    limits = SimpleNamespace(memory_bytes=1 << 20, init_ms=500, load_ms=500, step_ms=step_ms, encode_ms=50)
    digest = hashlib.sha256(wasm).hexdigest()
    return SimpleNamespace(
        name=name, role="sampler", wasm=wasm, sha256=digest, abi=1, tier="full", limits=limits, config_schema=None
    )


@contextmanager
def serving(twin, cache, *, step_ms: int, **allowed):
    """An engine with a sampler that loops and one that does not."""
    good = GUEST.read_text()
    loops = good[: good.index('(func (export "step")')] + LOOPS.read_text() + ")"
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(OperatorLimits(step_ms=step_ms, **allowed), cache_directory=cache))
        samplers = {
            name: sandbox.load_sampler(plugin(name, text, step_ms), twin.VOCAB)
            for name, text in (("good", good), ("loops", loops))
        }
        house = twin.House(lambda ids: 100 + len(ids), blocks=256)
        config = EngineConfig(max_sequences=32, sampler_threads=WORKERS)
        engine = Engine(replace(house.loaded, samplers=samplers), config)
        engine.start()
        stack.callback(engine.close)
        yield engine, samplers


def ask(engine, twin, names, sampler, tokens=8):
    clients = [twin.Client() for _ in names]
    for name, client in zip(names, clients, strict=True):
        engine.submit(twin.request(name, [50], tokens, sampler=sampler), client)
    return clients


def until(condition) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE * 1000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never came to it")


RIGHT = [101 + n for n in range(8)]


def test_a_well_behaved_guest_is_not_delayed_beyond_one_deadline(twin, tmp_path):
    with serving(twin, tmp_path / "cache", step_ms=500, strikes=1000) as (engine, _):
        loops = ask(engine, twin, [f"loop-{n}" for n in range(MANY)], "loops")
        until(lambda: engine._core._calls.late == MANY)
        (good,) = ask(engine, twin, ["good"], "good", 4)
        assert good.ended.wait(PATIENCE)
        assert not any(client.events for client in loops)  # a whole answer, and their first deadline has not passed
        assert good.tokens == RIGHT[:4]


def test_each_loop_ends_at_its_deadline_the_next_ones_are_refused_and_the_next_good_call_is_right(twin, tmp_path):
    with serving(twin, tmp_path / "cache", step_ms=40, backoff_ms=300_000) as (engine, samplers):
        good, *loops = ask(engine, twin, ["good"], "good") + ask(engine, twin, list(map(str, range(MANY))), "loops")
        assert all(client.ended.wait(PATIENCE) for client in (good, *loops))
        assert good.tokens == RIGHT
        assert all(isinstance(client.last, ErrorEvent) and client.tokens == [] for client in loops)
        kinds = [client.last.error.kind for client in loops]
        assert set(kinds) <= {"timeout", "quarantined"}
        assert kinds.count("timeout") >= 5  # a strike each; past five the plugin is in quarantine
        calls = samplers["loops"].stats().calls
        later = ask(engine, twin, ["later-1", "later-2"], "loops")
        (again,) = ask(engine, twin, ["again"], "good")
        assert all(client.ended.wait(PATIENCE) for client in (again, *later))
        assert [client.last.error.kind for client in later] == ["quarantined"] * 2
        assert samplers["loops"].stats().calls == calls  # refused without being called
        assert again.tokens == RIGHT
        until(lambda: engine._core._calls.workers <= 2 * WORKERS)
        assert engine.stats().kv_free_blocks == engine.stats().kv_total_blocks


def test_without_a_ticker_calls_are_refused_instead_of_looping_for_ever(twin, tmp_path):
    with serving(twin, tmp_path / "cache", step_ms=40) as (engine, samplers):
        samplers["loops"]._program.engine.close()
        (loop,) = ask(engine, twin, ["loop"], "loops")
        assert loop.ended.wait(PATIENCE)
        assert isinstance(loop.last, ErrorEvent)
        assert loop.tokens == []
