"""What each architecture's description refuses: tensors that are missing, extra or misshapen, and keys beyond the graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from running import described
from tiny_models import CASES, VOCAB

from sealhost.host.errors import WeightsError
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.gguf_types import ValueType
from sealhost.host.weights.graph import describe
from sealhost.kernels.backend import VECTOR_ROLES, Role

NAMED = {case.name: case for case in CASES}
FIRST = {case.architecture: case.name for case in reversed(CASES)}
"""One case of each architecture."""


@pytest.fixture(params=FIRST)
def parsed(request, files):
    return GgufFile.parse(files[FIRST[request.param]])


def refusal(file):
    with pytest.raises(WeightsError) as caught:
        describe(file, vocab=VOCAB)
    return caught.value


def test_every_tensor_and_every_place_are_paired(parsed):
    graph = describe(parsed, vocab=VOCAB)
    spec = graph.spec
    wanted = {(role, None) for role in spec.global_roles}
    wanted |= {(role, layer) for role in spec.block_roles for layer in range(spec.layers)}
    found = [(place.role, place.layer) for place in graph.places]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert {place.tensor.name for place in graph.places} == {tensor.name for tensor in parsed.tensors}
    assert all(place.tensor.shape == spec.shape(place.role) for place in graph.places)


def test_rows_stored_as_one_matrix_are_parted_without_a_gap(files):
    places = described(files["phi3 with a window"]).places
    fused = [place for place in places if place.tensor.name == "blk.1.attn_qkv.weight"]
    assert [place.role for place in fused] == [Role.QUERY, Role.KEY, Role.VALUE]
    assert [place.tensor.shape[0] for place in fused] == [128, 64, 64]
    whole = next(one for one in GgufFile.parse(files["phi3 with a window"]).tensors if one.name == fused[0].tensor.name)
    edges = [whole.start, *(place.tensor.stop for place in fused)]
    assert edges[:-1] == [place.tensor.start for place in fused]
    assert edges[-1] == whole.stop
    gate, up = (place.role for place in places if place.tensor.name == "blk.0.ffn_up.weight")
    assert (gate, up) == (Role.GATE, Role.UP)


def test_each_missing_tensor_is_named(parsed):
    for gone in parsed.tensors:
        if gone.name == "output.weight":
            continue
        kept = tuple(one for one in parsed.tensors if one is not gone)
        assert refusal(replace(parsed, tensors=kept)).where == gone.name


def test_each_misshapen_tensor_is_named(parsed):
    for index, right in enumerate(parsed.tensors):
        for shape in ((*right.shape, 1), (right.shape[0] + 1, *right.shape[1:]), right.shape[:-1] or (1,)):
            wrong = (*parsed.tensors[:index], replace(right, shape=shape), *parsed.tensors[index + 1 :])
            error = refusal(replace(parsed, tensors=wrong))
            assert error.where == right.name
            assert "expected shape" in str(error)


def test_each_vector_in_another_format_than_f32_is_named(parsed):
    vectors = {place.tensor.name for place in describe(parsed, vocab=VOCAB).places if place.role in VECTOR_ROLES}
    for index, right in enumerate(parsed.tensors):
        if right.name in vectors:
            half = (*parsed.tensors[:index], replace(right, type_id=1), *parsed.tensors[index + 1 :])
            error = refusal(replace(parsed, tensors=half))
            assert error.where == right.name
            assert "expected one of: F32; got F16" in str(error)


ALL_NAMES = sorted(
    {
        "attn_q.bias",
        "attn_output.bias",
        "attn_q_norm.weight",
        "post_attention_norm.weight",
        "attn_qkv.weight",
        "attn_qkv.bias",
        "ffn_gate.weight",
        "ffn_gate_inp.weight",
        "ffn_up.bias",
        "attn_sinks.weight",
        "attn_rot_embd.weight",
    }
)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_tensor_of_another_architecture_is_named(parsed, name):
    full = f"blk.0.{name}"
    if any(tensor.name == full for tensor in parsed.tensors):
        return
    extra = replace(parsed.tensors[-1], name=full)
    assert refusal(replace(parsed, tensors=(*parsed.tensors, extra))).where == full


HOSTILE = [0, 1, 3, -1, 2**40, 2**63, True, False, "", "yarn", "x", 0.0, 0.5, -1.0, 1e-30, 1e30, float("nan")]
HOSTILE += [float("inf"), np.zeros(2, np.uint8), np.array([2, 1], np.int32), np.zeros(0, np.uint8), (b"x",)]
KEYS = [
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attn_logit_softcapping",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "feed_forward_length",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "rope.scaling.yarn_beta_fast",
    "something.new",
    "vocab_size",
]


def test_any_value_under_any_key_is_taken_or_refused_by_its_name(parsed):
    prefix = parsed.metadata["general.architecture"] + "."
    for key in KEYS:
        for value in HOSTILE:
            kind = ValueType.STRING if isinstance(value, str | tuple) else ValueType.UINT8
            changed = replace(
                parsed,
                metadata={**parsed.metadata, prefix + key: value},
                kinds={**parsed.kinds, prefix + key: kind},
            )
            try:
                spec = describe(changed, vocab=VOCAB).spec
            except WeightsError:
                continue
            numbers = [one for table in spec.rope_tables for one in (table.factor, *table.frequencies)]
            assert np.isfinite([*numbers, spec.score_scale, spec.attention_cap, spec.logit_cap]).all(), (key, value)


@pytest.mark.parametrize(
    ("architecture", "key", "value", "words"),
    [
        ("qwen2", "attention.sliding_window", 4096, "not supported"),
        ("qwen3", "attention.sliding_window", 4096, "not supported"),
        ("qwen3", "expert_count", 8, "not supported"),
        ("gemma3", "attention.sliding_window", 0, "expected a window"),
        ("gemma3", "attention.causal", False, "not supported"),
        ("gemma3", "attention.sliding_window_pattern", np.ones(3, np.uint8), "7 booleans, one for each layer, got 3"),
        ("gemma2", "attn_logit_softcapping", -1.0, "got -1"),
        ("llama", "attn_logit_softcapping", 50.0, "not supported"),
        ("phi3", "attention.clamp_kqv", 1.0, "not supported"),
    ],
)
def test_a_feature_beyond_an_architectures_description_is_named(files, architecture, key, value, words):
    file = GgufFile.parse(files[FIRST[architecture]])
    full = f"{architecture}.{key}"
    metadata, kinds = {**file.metadata, full: value}, {**file.kinds, full: ValueType.UINT8}
    error = refusal(replace(file, metadata=metadata, kinds=kinds))
    assert error.where == full
    assert words in str(error)


def test_gemma_2_says_in_its_keys_or_by_default_what_its_arithmetic_is(files):
    file = GgufFile.parse(files["gemma2"])
    old = {key: value for key, value in file.metadata.items() if "softcapping" not in key and "window" not in key}
    spec = describe(replace(file, metadata=old), vocab=VOCAB).spec
    assert (spec.attention_cap, spec.logit_cap, spec.layer_windows) == (50.0, 30.0, (4096, 0))
    assert spec.embedding_scale == 8.0
    assert spec.score_scale == pytest.approx(32**-0.5)
