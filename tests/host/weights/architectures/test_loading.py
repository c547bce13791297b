"""From a verified bundle to a running model, where a description needs more than the file's header."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import running
from tiny_models import CASES

from sealhost.host.config import EngineConfig
from sealhost.host.weights.loader import load
from sealhost.kernels.reference import ReferenceBackend
from sealhost.sandbox import OperatorLimits

NAMED = {case.name: case for case in CASES}


@pytest.fixture
def loaded(files, memory_weights):
    """Loads a tiny model as the host does, and closes it at the end."""
    models = []

    def run(name, context=None):
        plugins = (SimpleNamespace(name="t", role="tokenizer"), SimpleNamespace(name="s", role="sampler"))
        manifest = SimpleNamespace(name=name, version=1)
        bundle = SimpleNamespace(
            weights=memory_weights(files[name]), template=None, plugins=plugins, manifest=manifest, digest="ab" * 32
        )
        sandbox = SimpleNamespace(limits=OperatorLimits(), load_tokenizer=lambda *_: None, load_sampler=lambda *_: None)
        models.append(load(bundle, sandbox, ReferenceBackend(), EngineConfig(context=context, step_tokens=64)))
        return models[-1]

    yield run
    for model in models:
        model.close()


@pytest.mark.parametrize("name", ["llama 3 scaling", "phi3 with long factors", "phi3 with short factors", "gemma3"])
def test_a_loaded_bundle_answers_what_transformers_answer(loaded, goldens, name):
    model = loaded(name, NAMED[name].context)
    assert np.abs(running.log_probs(model.model, NAMED[name]) - goldens[name]).max() < 1e-4


def test_the_operators_context_chooses_long_ropes_factors(loaded):
    assert loaded("phi3 with long factors").context == 128
    assert loaded("phi3 with long factors", 33).context == 33
    assert loaded("phi3 with long factors", 32).spec.context == 32
