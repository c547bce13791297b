"""Makes recordings/standard.rec: two choices of one request to the `standard` sampler, of a small vocabulary.

python tests/sandbox/make_recording.py
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import IO

import numpy as np

from sealhost.host.cli.plugin_vocabulary import trial_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox import SamplerPlugin, SamplingParams, Sandbox
from sealhost.sandbox.recording import Recorder

RECORDING = Path(__file__).parent / "recordings" / "standard.rec"
VOCABULARY = 48
STEPS = 12


def standard(sandbox: Sandbox) -> SamplerPlugin:
    """The reference sampler, as the sandbox wants to see a plugin."""
    wasm = (reference_plugin("sampler", "standard") / "plugin.wasm").read_bytes()
    limits = SimpleNamespace(memory_bytes=1 << 26, init_ms=1000, load_ms=1000, step_ms=1000, encode_ms=1000)
    # the digest is left out, so that a rebuilt module does not change the recording
    facts = SimpleNamespace(
        name="standard",
        role="sampler",
        wasm=wasm,
        sha256="0" * 64,
        abi=1,
        tier="full",
        limits=limits,
        config_schema=None,
    )
    return sandbox.load_sampler(facts, VOCABULARY, trial_vocabulary())


def record(sampler: SamplerPlugin, file: IO[bytes]) -> None:
    """Plays the request."""
    params = SamplingParams(0.9, 20, 0.95, 0.01, 1.1, 0.2, 0.1, ((3, 1.5), (4, -np.inf)), seed=2**64 - 3)
    sampler.record(Recorder(file))
    numbers = np.random.default_rng(17)
    with sampler.session(params, [1, 2, 3], choices=(0, 5)) as session:
        for step in range(STEPS):
            slots = (0, 1) if step < STEPS // 2 else (1,)
            for slot in slots:
                session.logits(slot)[:] = numbers.normal(0, 3, VOCABULARY)
            for slot, decision in zip(slots, session.step(slots), strict=True):
                session.accept(slot, decision.tokens, decision.backtrack)
            if step == STEPS // 2 - 1:
                session.close_slot(0)


def main() -> None:
    """Writes the file."""
    RECORDING.parent.mkdir(exist_ok=True)
    with Sandbox() as sandbox, RECORDING.open("wb") as file:
        record(standard(sandbox), file)


if __name__ == "__main__":
    main()
