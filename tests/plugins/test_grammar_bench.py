"""What `tests/bench/grammar_masks.py` measures with is what a host calls: a change of that is seen here, not by who measures next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import wasmtime
from grammar_guest import SMALL, GrammarGuest

from sealhost.plugins import reference_plugin


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    import grammar_masks

    yield grammar_masks
    del sys.modules["grammar_masks"]


def test_steps_are_counted_and_timed_alike(bench, guest_engine):
    module = (reference_plugin("sampler", "json") / "plugin.wasm").read_bytes()
    quick = wasmtime.Config()
    quick.epoch_interruption = True
    engines = {GrammarGuest: guest_engine, bench.TimedGuest: wasmtime.Engine(quick)}
    for kind, engine in engines.items():
        guest = kind(engine, wasmtime.Module(engine, module), SMALL)
        first, others = bench.cost(guest, {"schema": {"enum": ["red", "green"]}}, 5, 2)
        assert len(first) == 2
        assert min(first + others) > 0
