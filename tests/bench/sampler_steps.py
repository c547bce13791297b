"""What a step of the `standard` sampler costs in the guest: time and fuel, by what is asked for.

    python tests/bench/sampler_steps.py [--logits 131072] [--plugin FOLDER]...

* The time is that of the call of `step` alone, with some 2 µs of the way in and out; the host's part stands in guests_cost.py.
* With several folders, two builds of the sampler say, calls alternate, so that a busy machine is fair to all of them.
* Rows: `heads` is normal with sigma 3 and 20 logits that stand out, `flat` is normal with sigma 1.5, `equal` is one value.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.host.cli.plugin_vocabulary import trial_vocabulary
from sealhost.plugins import reference_plugin
from sealhost.sandbox import OperatorLimits, SamplingParams, Sandbox

HISTORY = np.random.default_rng(5).integers(0, 40_000, 1000)
PENALTIES = {"repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1}
FILTERS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
EVERYTHING = {"dry_multiplier": 0.8, "top_n_sigma": 2, "typical_p": 0.95, "xtc_probability": 1, "dynatemp_range": 0.3}

CASES: list[tuple[str, str, dict[str, Any], dict[str, Any] | None]] = [
    ("greedy", "heads", {"temperature": 0}, None),
    ("top-k 40, top-p 0.95, min-p 0.05, temperature 0.8", "heads", FILTERS, None),
    ("the same, all penalties", "heads", {**FILTERS, **PENALTIES}, None),
    ("temperature 0.8 alone", "heads", {"temperature": 0.8}, None),
    ("temperature 3 alone", "heads", {"temperature": 3}, None),
    ("temperature 1 alone", "flat", {}, None),
    ("top-p 0.97 alone", "flat", {"top_p": 0.97}, None),
    ("temperature 2, min-p 0.001", "flat", {"temperature": 2, "min_p": 1e-3}, None),
    ("top-k 20,000", "flat", {"top_k": 20_000}, None),
    ("temperature 1 alone", "equal", {}, None),
    ("configured: greedy", "heads", {"temperature": 0}, {"top_n_sigma": 2}),
    ("configured: everything", "heads", {**FILTERS, **PENALTIES}, EVERYTHING),
    ("top-n-sigma 1 alone", "heads", {}, {"top_n_sigma": 1}),
    ("configured: top-p 0.95 alone", "heads", {"top_p": 0.95}, {"top_n_sigma": 0}),
    ("configured: top-p 0.95 alone", "flat", {"top_p": 0.95}, {"top_n_sigma": 0}),
    ("DRY alone", "heads", {}, {"dry_multiplier": 0.8}),
    *((f"{name} alone", row, {}, config) for row in ("heads", "flat") for name, config in (
        ("mirostat", {"mirostat": 2}),
        ("XTC", {"xtc_probability": 1}),
        ("dynamic temperature", {"dynatemp_range": 0.5}),
        ("typical 0.9", {"typical_p": 0.9}),
    )),
]  # fmt: skip


def row_of(kind: str, size: int) -> np.ndarray:
    """Shape: (size,), float32."""
    chance = np.random.default_rng(1)
    if kind == "equal":
        return np.full(size, 1.5, np.float32)
    row = chance.normal(0, 1.5 if kind == "flat" else 3, size).astype(np.float32)
    if kind == "heads":
        row[chance.integers(0, size, 20)] += chance.uniform(0, 12, 20).astype(np.float32)
    return row


def prepared(sampler, row: np.ndarray, params: dict[str, Any], config: dict[str, Any] | None):
    """A session whose first steps have been: the very first one also reads the configuration and touches new pages."""
    asked = SamplingParams(**{"temperature": 1.0, "seed": 11, **params})
    session = sampler.session(asked, HISTORY % len(row), config=sampler.config_bytes(config))
    session.logits(0)[:] = row
    for _ in range(2):
        session.step((0,))
    return session


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logits", type=int, default=131_072)
    parser.add_argument("--plugin", type=Path, action="append", help="default: the one that is installed")
    parser.add_argument("--rounds", type=int, default=60)
    asked = parser.parse_args()
    plugins = [AuthoredPlugin.read(one) for one in asked.plugin or [reference_plugin("sampler", "standard")]]
    words, spent, limits = trial_vocabulary(), [], OperatorLimits(step_ms=5000)
    with (
        tempfile.TemporaryDirectory() as folder,
        Sandbox(limits, cache_directory=Path(folder) / "cache") as timed,
        Sandbox(limits, cache_directory=Path(folder) / "cache", meter=lambda *call: spent.append(call[2])) as metered,
    ):
        samplers = [[box.load_sampler(one, asked.logits, words) for one in plugins] for box in (timed, metered)]
        print(f"{asked.logits:,} logits: fuel of a step, median and least time of {asked.rounds}")
        for name, kind, params, config in CASES:
            row, fuel = row_of(kind, asked.logits), []
            for sampler in samplers[1]:
                prepared(sampler, row, params, config).close()
                fuel.append(spent[-1])
            sessions = [prepared(sampler, row, params, config) for sampler in samplers[0]]
            seconds: list[list[float]] = [[] for _ in sessions]
            for _ in range(asked.rounds):
                for session, taken in zip(sessions, seconds, strict=True):
                    session._instance.call("step", 1)
                    began = time.perf_counter()
                    session._instance.call("step", 1)
                    taken.append(1e6 * (time.perf_counter() - began))
            for session in sessions:
                session.close()
            figures = (
                f"{used / 1e6:7.2f} M {statistics.median(taken):8.1f} µs ({min(taken):.1f})"
                for used, taken in zip(fuel, seconds, strict=True)
            )
            print(f"  {name:50} {kind:6}", *figures)


if __name__ == "__main__":
    main()
