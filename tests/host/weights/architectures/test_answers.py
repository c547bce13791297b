"""Every architecture answers what Hugging Face's transformers answer, from its GGUF file on."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import running
from tiny_models import CASES

from sealhost.host.weights.graph import FAMILIES
from sealhost.kernels.backend import Activation, Rope
from sealhost.kernels.cpu import CpuBackend
from sealhost.kernels.reference import ReferenceBackend

TOLERANCE = 1e-4
"""Largest difference of a log-probability; the goldens are rounded to 1e-6."""
ROUNDED = 3e-3
"""What float32 arithmetic may differ: a key or value on the edge between two float16 numbers falls to either side."""
HALVES = 2e-2
"""What a cache of float16 may cost these models, whose weights are larger than trained ones."""
VISIBLE = 1e-2
"""A feature that changes no log-probability by this much would not be tested."""
NAMED = {case.name: case for case in CASES}


def test_every_architecture_has_a_tiny_model():
    assert {case.architecture for case in CASES} == set(FAMILIES)


@pytest.mark.parametrize("name", NAMED)
def test_the_reference_answers_what_transformers_answer(files, goldens, name):
    with closing(running.built(ReferenceBackend(), files[name], NAMED[name].context)) as model:
        found = running.log_probs(model, NAMED[name])
    assert np.abs(found - goldens[name]).max() < TOLERANCE


@pytest.fixture(scope="module")
def cpu():
    return CpuBackend()


@pytest.mark.parametrize("name", NAMED)
def test_the_cpu_answers_what_the_reference_answers_with_a_cache_of_float16(files, goldens, cpu, name):
    answers = []
    for backend in (cpu, ReferenceBackend(cache=np.float16)):
        with closing(running.built(backend, files[name], NAMED[name].context)) as model:
            answers.append(running.log_probs(model, NAMED[name]))
    assert np.abs(answers[0] - answers[1]).max() < ROUNDED
    assert np.abs(answers[0] - goldens[name]).max() < HALVES


class Altered:
    """The reference, told to leave a feature out."""

    def __init__(self, **changes) -> None:
        self.changes = changes

    def builder(self, spec, *, threads):
        return ReferenceBackend().builder(replace(spec, **self.changes), threads=threads)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama 3 scaling", {"ropes": (Rope.plain(10000.0, 32),)}),
        ("llama with linear scaling", {"ropes": (Rope.plain(10000.0, 32),)}),
        ("llama with yarn", {"ropes": (Rope.plain(10000.0, 32),)}),
        ("mistral with a window", {"layer_windows": ()}),
        ("mistral with a window", {"layer_windows": (8, 8)}),
        ("gemma2", {"layer_windows": (7, 7)}),
        ("gemma2", {"attention_cap": 0.0}),
        ("gemma2", {"logit_cap": 0.0}),
        ("gemma2", {"embedding_scale": 1.0}),
        ("gemma2", {"activation": Activation.SILU}),
        ("gemma3", {"layer_windows": ()}),
        ("gemma3", {"layer_ropes": (0,) * 7}),
        ("gemma3 with linear scaling and another pattern", {"query_scale": None}),
        ("phi3 with a window", {"layer_windows": ()}),
        ("phi3 with long factors", {"ropes": (Rope.plain(10000.0, 32),)}),
        ("phi3 with short factors", {"ropes": (Rope.plain(10000.0, 32),)}),
    ],
)
def test_leaving_a_feature_out_would_show(files, goldens, name, changes):
    with closing(running.built(Altered(**changes), files[name], NAMED[name].context)) as model:
        found = running.log_probs(model, NAMED[name])
    assert np.abs(found - goldens[name]).max() > VISIBLE
