"""What `tests/bench/verifying.py` compares loads by, on a small model: a change of what it calls is seen here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench"))
    import verifying

    for name, value in {"DIM": 64, "FEED_FORWARD": 128, "HEADS": 2, "VOCAB": 512, "LAYER_BYTES": 1 << 16}.items():
        monkeypatch.setattr(verifying, name, value)
    yield verifying
    for name in ("verifying", "worker_verifying"):
        del sys.modules[name]


def test_loads_are_timed_on_both_sides_and_leave_the_reader_as_it_was(bench, tmp_path):
    reader = bench.VerifiedWeights._read
    bundle, keys = bench.publish(tmp_path, bench.random_model(tmp_path / "m.gguf", 1 << 18))
    loads = bench.loads(bundle, keys)
    assert loads.ours() > 0
    assert loads.theirs() > 0
    assert bench.VerifiedWeights._read is reader
