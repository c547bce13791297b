"""Real guests that misbehave: each costs its own request an error and nobody else anything."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import wasmtime

from sealhost.host.config import EngineConfig
from sealhost.host.engine.loop import Engine
from sealhost.host.engine.request import ErrorEvent, FinishEvent
from sealhost.host.errors import Refused
from sealhost.sandbox import GuestError, Sandbox

GUEST = Path(__file__).parent / "guests" / "turncoat.wat"
PATIENCE = 120


@pytest.fixture(scope="module")
def turncoat(tmp_path_factory, twin):
    wasm = bytes(wasmtime.wat2wasm(GUEST.read_text()))
    limits = SimpleNamespace(memory_bytes=1 << 20, init_ms=500, load_ms=500, step_ms=50, encode_ms=50)
    plugin = SimpleNamespace(
        name="turncoat", role="sampler", wasm=wasm, sha256=hashlib.sha256(wasm).hexdigest(), abi=1, tier="full", limits=limits, config_schema=None
    )  # fmt: skip
    with Sandbox(cache_directory=tmp_path_factory.mktemp("cache") / "cache") as sandbox:
        yield sandbox.load_sampler(plugin, twin.VOCAB)


@pytest.fixture
def engine(turncoat, twin):
    """Answers prompt (n,) with two harmless ids and then n for ever."""
    house = twin.House(lambda ids: ids[0] if len(ids) > 2 else 100 + len(ids), blocks=128)
    loaded = replace(house.loaded, samplers={"turncoat": turncoat})
    one = Engine(loaded, EngineConfig(max_sequences=4))
    one.start()
    with closing(one):
        yield one


@pytest.mark.parametrize(
    ("order", "kind"),
    [(1, "timeout"), (2, "trap"), (3, "invalid"), (4, "invalid"), (5, "error"), (6, "trap"), (7, "invalid")],
)
def test_a_guest_that_misbehaves_costs_its_own_request_only(engine, twin, order, kind):
    bad, good, later = twin.Client(), twin.Client(), twin.Client()
    engine.submit(twin.request("bad", [order], 20), bad)
    engine.submit(twin.request("good", [50], 20), good)
    assert bad.ended.wait(PATIENCE)
    assert good.ended.wait(PATIENCE)
    assert bad.tokens == [101, 102]
    assert isinstance(bad.last, ErrorEvent)
    assert isinstance(bad.last.error, GuestError)
    assert bad.last.error.kind == kind
    assert "turncoat" in str(bad.last.error)
    assert good.tokens == [101, 102, *[50] * 18]
    engine.submit(twin.request("later", [50], 4), later)
    assert later.ended.wait(PATIENCE)
    assert later.tokens == [101, 102, 50, 50]
    stats = engine.stats()
    assert stats.kv_free_blocks == stats.kv_total_blocks


def test_a_guest_may_end_the_answer_by_itself(engine, twin):
    client = twin.Client()
    engine.submit(twin.request("a", [8], 20), client)
    assert client.ended.wait(PATIENCE)
    assert client.last == FinishEvent("a", "stop", "", 1, 2)


def test_what_the_guest_holds_bounds_prompt_and_answer(engine, twin):
    client, good = twin.Client(), twin.Client()
    with pytest.raises(Refused, match="expected a prompt below the 1024 tokens that sampler turncoat holds, got 1024"):
        engine.submit(twin.request("longer", [50] * 1024, 20), twin.Client())
    engine.submit(twin.request("long", [50] * 1020, 20), client)
    engine.submit(twin.request("good", [50], 4), good)
    assert client.ended.wait(PATIENCE)
    assert good.ended.wait(PATIENCE)
    assert client.last == FinishEvent("long", "length", "", 1020, 4)
    assert good.tokens == [101, 102, 50, 50]
