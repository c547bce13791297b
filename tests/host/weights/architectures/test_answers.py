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
from sealhost.kernels.kv_type import KvType
from sealhost.kernels.reference import ReferenceBackend

TOLERANCE = 1e-4
"""Largest difference of a log-probability; the goldens are rounded to 1e-6."""
ROUNDED = {KvType.FLOAT16: 3e-3, KvType.INT8: 2e-2}
"""The same of the CPU to a reference that rounds keys and values alike: one on the edge between two stored numbers falls
to either side."""
DIVERGENCE = {KvType.FLOAT16: 2e-5, KvType.INT8: 1e-2}
"""What rounding may cost these models, whose weights are larger than trained ones: Kullback-Leibler, nats."""
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
    return {kv_type: CpuBackend(kv_type=kv_type) for kv_type in KvType}


@pytest.mark.parametrize("name", NAMED)
def test_the_cpu_answers_what_transformers_answer_with_a_cache_of_float32(files, goldens, cpu, name):
    with closing(running.built(cpu[KvType.FLOAT32], files[name], NAMED[name].context)) as model:
        found = running.log_probs(model, NAMED[name])
    assert np.abs(found - goldens[name]).max() < TOLERANCE


@pytest.mark.parametrize("kv_type", ROUNDED)
@pytest.mark.parametrize("name", NAMED)
def test_the_cpu_answers_what_the_reference_answers_with_a_cache_that_rounds(files, goldens, cpu, name, kv_type):
    answers = []
    for backend in (cpu[kv_type], ReferenceBackend(cache=kv_type)):
        with closing(running.built(backend, files[name], NAMED[name].context)) as model:
            answers.append(running.log_probs(model, NAMED[name]))
    assert np.abs(answers[0] - answers[1]).max() < ROUNDED[kv_type]
    divergence = (np.exp(goldens[name]) * (goldens[name] - answers[0])).sum(axis=1)
    assert divergence.max() < DIVERGENCE[kv_type]


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
