"""RoPE frequencies from metadata and factor tensors, against their formulas, and what is refused by name."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from running import described, reader
from tiny_models import CASES, VOCAB, gguf_file

from sealhost.host.errors import WeightsError
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.gguf_types import ValueType
from sealhost.host.weights.graph import describe

NAMED = {case.name: case for case in CASES}
PLAIN = 10000.0 ** (-np.arange(16) / 16)
KINDS = {str: ValueType.STRING, int: ValueType.UINT32, float: ValueType.FLOAT32, bool: ValueType.BOOL}


def spec_of(files, name, keys=None, context=None):
    """The spec of a tiny model with other metadata; keys without a value are taken out."""
    file, prefix = GgufFile.parse(files[name]), NAMED[name].architecture + "."
    metadata, kinds = dict(file.metadata), dict(file.kinds)
    for key, value in (keys or {}).items():
        metadata.pop(prefix + key, None)
        if value is not None:
            metadata[prefix + key], kinds[prefix + key] = value, KINDS[type(value)]
    changed = replace(file, metadata=metadata, kinds=kinds)
    return describe(changed, vocab=VOCAB, read=reader(files[name]), context=context).spec


def frequencies(spec, table=0):
    return np.array(spec.ropes[table].frequencies)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"rope.scaling.type": "none"},
        {"rope.scaling.factor": 0.0},
        {"rope.scale_linear": 1.0},
        {"rope.scaling.type": "linear"},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 1.0},
        {"rope.scaling.finetuned": True},
    ],
)
def test_without_scaling_the_frequencies_are_plain(files, keys):
    spec = spec_of(files, "llama", keys)
    assert np.allclose(frequencies(spec), PLAIN, rtol=1e-12)
    assert spec.ropes[0].factor == 1


@pytest.mark.parametrize("keys", [{"rope.scaling.factor": 4.0}, {"rope.scale_linear": 4.0}])
def test_linear_scaling_slows_all_pairs(files, keys):
    assert np.allclose(frequencies(spec_of(files, "llama", keys)), PLAIN / 4, rtol=1e-12)


def test_yarn_keeps_fast_pairs_and_stretches_slow_ones(files):
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 256}
    spec = spec_of(files, "llama", keys)
    ratio = frequencies(spec) / PLAIN
    assert ratio[0] == pytest.approx(1)
    assert ratio[-1] == pytest.approx(1 / 8)
    assert (np.diff(ratio) <= 1e-12).all()
    assert spec.ropes[0].factor == pytest.approx(0.1 * math.log(8) + 1)
    assert spec_of(files, "llama", keys | {"rope.scaling.attn_factor": 0.5}).ropes[0].factor == pytest.approx(
        0.5 * (0.1 * math.log(8) + 1)
    )


def test_yarn_ramps_between_its_two_limits(files):
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 256}
    turns = 256 * PLAIN / (2 * math.pi)
    steep = keys | {"rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 2.0}
    ratio = frequencies(spec_of(files, "llama", steep)) / PLAIN
    assert np.allclose(ratio[turns > 8], 1)
    assert np.allclose(ratio[turns < 1], 1 / 8)


def test_factors_divide_the_frequencies(files):
    divisors = np.array(NAMED["llama 3 scaling"].factors["rope_freqs.weight"], np.float32).astype(np.float64)
    assert divisors.max() == pytest.approx(8)
    assert np.allclose(frequencies(spec_of(files, "llama 3 scaling")), PLAIN / divisors, rtol=1e-12)


def test_gemmas_windowed_layers_turn_with_a_base_of_their_own_and_unscaled(files):
    spec = spec_of(files, "gemma3", {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0})
    assert np.allclose(frequencies(spec, 1), PLAIN)
    assert np.allclose(frequencies(spec, 0), 1e6 ** (-np.arange(16) / 16) / 8, rtol=1e-6)
    assert spec.layer_ropes == (1, 1, 1, 1, 1, 0, 1)
    assert spec.layer_windows == (7, 7, 7, 7, 7, 0, 7)


@pytest.mark.parametrize(
    ("context", "reach", "first"), [(None, 128, "long"), (33, 128, "long"), (32, 32, "short"), (8, 32, "short")]
)
def test_the_context_chooses_between_two_sets_of_factors_and_is_kept_within_it(files, context, reach, first):
    spec = spec_of(files, "phi3 with long factors", context=context)
    factors = NAMED["phi3 with long factors"].factors[f"rope_factors_{first}.weight"]
    assert np.allclose(frequencies(spec), PLAIN / np.array(factors, np.float32), rtol=1e-12)
    assert spec.context == reach


REFUSED = [
    ({"rope.scaling.type": "su"}, "rope.scaling.type", "got su: not supported"),
    ({"rope.scaling.type": "none", "rope.scaling.factor": 8.0}, "rope.scaling.factor", "beside no scaling"),
    ({"rope.scaling.type": "longrope"}, "rope_factors_long.weight", "missing"),
    ({"rope.scaling.factor": 0.5}, "rope.scaling.factor", "at least 1, got 0.5"),
    ({"rope.scaling.factor": float("nan")}, "rope.scaling.factor", "nan"),
    ({"rope.scaling.factor": 2.0, "rope.scale_linear": 2.0}, "rope.scale_linear", "one scaling factor"),
    ({"rope.scaling.attn_factor": 0.0}, "rope.scaling.attn_factor", "got 0"),
    ({"rope.scaling.original_context_length": 0}, "rope.scaling.original_context_length", "got 0"),
    ({"rope.scaling.yarn_beta_fast": 16.0}, "rope.scaling.yarn_beta_fast", "expected only features"),
    ({"rope.scaling.type": "yarn", "rope.scaling.yarn_beta_fast": 0.0}, "rope.scaling.yarn_beta_fast", "got 0"),
    ({"rope.scaling.type": "yarn", "rope.scaling.yarn_ext_factor": 0.5}, "yarn_ext_factor", "not supported"),
    ({"rope.scaling.type": "yarn", "rope.scaling.yarn_log_multiplier": 0.1}, "yarn_log_multiplier", "not supported"),
]


@pytest.mark.parametrize(("keys", "where", "words"), REFUSED)
def test_a_scaling_that_the_graph_cannot_express_is_refused_by_name(files, keys, where, words):
    with pytest.raises(WeightsError) as caught:
        spec_of(files, "llama", keys)
    assert where in caught.value.where
    assert words in str(caught.value)


def with_factors(name, factors):
    return gguf_file(replace(NAMED[name], factors=factors))


@pytest.mark.parametrize("worst", [0.0, -1.0, float("nan"), float("inf")])
def test_factors_that_are_no_positive_numbers_are_refused(worst):
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight: expected positive finite numbers"):
        described(with_factors("llama", {"rope_freqs.weight": [1.0] * 15 + [worst]}))


def test_factors_of_another_length_or_without_their_partner_are_refused():
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight: expected 16 numbers in F32, got F32 15"):
        described(with_factors("llama", {"rope_freqs.weight": [1.0] * 15}))
    with pytest.raises(WeightsError, match=r"rope_factors_short\.weight: expected this tensor beside"):
        described(with_factors("llama", {"rope_factors_long.weight": [1.0] * 16}))
    both = {"rope_factors_long.weight": [1.0] * 16, "rope_factors_short.weight": [1.0] * 16}
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight: expected one set of factors"):
        described(with_factors("llama", both | {"rope_freqs.weight": [1.0] * 16}))


def test_a_description_without_the_files_bytes_refuses_factors_rather_than_ignore_them(files):
    with pytest.raises(WeightsError, match=r"rope_freqs\.weight: expected a description that has the file's bytes"):
        describe(GgufFile.parse(files["llama 3 scaling"]), vocab=VOCAB)
