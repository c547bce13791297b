"""The llama description: what it reads, and every feature or tensor that it refuses by name.

What the other architectures add is in `architectures/`.
"""

from __future__ import annotations

import pytest

from sealhost.host.errors import WeightsError
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.graph import describe
from sealhost.kernels.backend import DecoderSpec, Role, Rope, RopeStyle

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def described(plan, vocab=8):
    return describe(GgufFile.parse(plan.build()), vocab=vocab)


def test_a_llama_file_becomes_a_spec_and_a_place_for_every_tensor(tiny_llama):
    graph = described(tiny_llama())
    assert graph.spec == DecoderSpec(
        layers=1,
        dim=32,
        heads=2,
        kv_heads=1,
        head_dim=16,
        feed_forward_dim=64,
        vocab=8,
        context=64,
        norm_epsilon=pytest.approx(1e-5),
        rope_base=10000.0,
        rope_dim=16,
        rope_style=RopeStyle.NORM,
        tied_head=True,
        ropes=(Rope.plain(10000.0, 16),),
    )
    assert {(place.role, place.layer) for place in graph.places} == {
        (Role.EMBEDDING, None),
        (Role.OUTPUT_NORM, None),
        *((role, 0) for role in graph.spec.block_roles),
    }
    starts = [place.tensor.start for place in graph.places]
    assert starts == sorted(starts)


def test_a_head_of_its_own_is_not_tied(tiny_llama):
    graph = described(tiny_llama(tied=False))
    assert not graph.spec.tied_head
    assert (Role.OUTPUT, None) in {(place.role, place.layer) for place in graph.places}


@pytest.mark.parametrize(
    ("changes", "attribute", "expected"),
    [
        ({"attention.head_count_kv": None, "attention.head_count": (U32, 1)}, "kv_heads", 1),
        ({"attention.head_count_kv": (ARRAY, (I32, [1, 1]))}, "kv_heads", 1),
        ({"rope.freq_base": None}, "rope_base", 10000.0),
        ({"rope.dimension_count": None}, "rope_dim", 16),
        ({"rope.dimension_count": (U32, 4)}, "rope_dim", 4),
        ({"attention.key_length": (U32, 16), "attention.value_length": (U32, 16)}, "head_dim", 16),
        ({"rope.scaling.type": (STRING, "none")}, "context", 64),
        ({"expert_count": (U32, 0)}, "layers", 1),
        ({"vocab_size": (U32, 8)}, "vocab", 8),
    ],
)
def test_defaults_and_neutral_values_are_taken(tiny_llama, changes, attribute, expected):
    plan = tiny_llama({"llama." + name: change for name, change in changes.items()})
    if changes.get("attention.head_count"):  # without a count of their own, keys and values have every head
        plan.tensors = [one for one in plan.tensors if "attn_k" not in one.name and "attn_v" not in one.name]
        query = next(one for one in plan.tensors if "attn_q" in one.name)
        plan.tensors += [type(query)(f"blk.0.attn_{one}.weight", query.dims) for one in "kv"]
        plan.metadata = [one for one in plan.metadata if "rope.dimension_count" not in one[0]]
    assert getattr(described(plan).spec, attribute) == expected


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        (
            {"general.architecture": (STRING, "mamba")},
            "general.architecture",
            "gemma3, llama, phi3, qwen2, qwen3; got mamba",
        ),
        ({"general.architecture": None}, "general.architecture", "missing"),
        ({"general.architecture": (U32, 1)}, "general.architecture", "a string"),
        ({"block_count": (U32, 0)}, "block_count", "got 0"),
        ({"block_count": (U32, 100_000)}, "block_count", "got 100000"),
        ({"block_count": (F32, 1.0)}, "block_count", "integer"),
        ({"block_count": None}, "block_count", "missing"),
        ({"context_length": (U32, 1)}, "context_length", "got 1"),
        ({"context_length": (U32, 1 << 31)}, "context_length", "got 2147483648"),
        ({"embedding_length": (U32, 0)}, "embedding_length", "got 0"),
        ({"embedding_length": (U32, 4_000_000_000)}, "embedding_length", "got 4000000000"),
        ({"embedding_length": (U32, 33)}, "attention.head_count", "divisor of embedding_length (33)"),
        ({"feed_forward_length": (U32, 0)}, "feed_forward_length", "got 0"),
        ({"attention.head_count": (U32, 0)}, "attention.head_count", "got 0"),
        (
            {"attention.head_count": (U32, 16), "attention.head_count_kv": (U32, 3)},
            "attention.head_count_kv",
            "divisor",
        ),
        ({"attention.head_count_kv": (U32, 4)}, "attention.head_count_kv", "1 to 2"),
        ({"attention.head_count_kv": (ARRAY, (I32, [1, 2]))}, "attention.head_count_kv", "one integer"),
        ({"attention.value_length": (U32, 32)}, "attention.value_length", "got 32"),
        ({"attention.layer_norm_rms_epsilon": (F32, float("nan"))}, "attention.layer_norm_rms_epsilon", "nan"),
        ({"attention.layer_norm_rms_epsilon": (F32, -1.0)}, "attention.layer_norm_rms_epsilon", "got -1"),
        ({"attention.layer_norm_rms_epsilon": None}, "attention.layer_norm_rms_epsilon", "missing"),
        ({"rope.freq_base": (F32, float("inf"))}, "rope.freq_base", "inf"),
        ({"rope.freq_base": (F32, 0.0)}, "rope.freq_base", "got 0"),
        ({"rope.dimension_count": (U32, 7)}, "rope.dimension_count", "even"),
        ({"rope.dimension_count": (U32, 18)}, "rope.dimension_count", "got 18"),
        ({"rope.scaling.type": (STRING, "ntk")}, "rope.scaling.type", "got ntk: not supported"),
        ({"attention.scale": (F32, 0.5)}, "attention.scale", "expected only features"),
        ({"expert_count": (U32, 8)}, "expert_count", "not supported"),
        ({"attention.sliding_window": (STRING, "all")}, "attention.sliding_window", "one integer"),
        ({"attention.causal": (BOOL, 0)}, "attention.causal", "not supported"),
        ({"logit_scale": (F32, 0.5)}, "logit_scale", "not supported"),
        ({"something.new": (U32, 1)}, "something.new", "expected only features"),
    ],
)
def test_a_hyperparameter_out_of_range_or_beyond_the_graph_is_refused_by_name(tiny_llama, changes, key, words):
    full = {name if name.startswith("general.") else "llama." + name: change for name, change in changes.items()}
    with pytest.raises(WeightsError) as caught:
        described(tiny_llama(full))
    assert key in caught.value.where
    assert words in str(caught.value)


@pytest.mark.parametrize("index", range(11))
def test_each_missing_tensor_is_named(tiny_llama, index):
    plan = tiny_llama()
    gone = plan.tensors.pop(index)
    with pytest.raises(WeightsError) as caught:
        described(plan)
    assert caught.value.where == gone.name
    assert "missing" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "rope_freqs.weight",
        "blk.0.attn_q.bias",
        "blk.1.attn_q.weight",
        "blk.00.attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk.99999.attn_q.weight",
        "blk.0.ffn_gate_exps.weight",
        "unknown",
    ],
)
def test_each_extra_tensor_is_named(tiny_llama, tensor_plan, name):
    plan = tiny_llama()
    plan.tensors.append(tensor_plan(name, (32, 32)))
    with pytest.raises(WeightsError) as caught:
        described(plan)
    assert caught.value.where == name


@pytest.mark.parametrize("index", range(11))
def test_each_misshapen_tensor_is_named(tiny_llama, tensor_plan, index):
    plan = tiny_llama()
    right = plan.tensors[index]
    plan.tensors[index] = tensor_plan(right.name, (*right.dims, 2))
    with pytest.raises(WeightsError) as caught:
        described(plan)
    assert caught.value.where == right.name
    assert "expected shape" in str(caught.value)


def test_an_embedding_with_other_rows_than_tokens_is_refused(tiny_llama):
    with pytest.raises(WeightsError, match=r"token_embd\.weight: expected shape 9 x 32, got 8 x 32"):
        described(tiny_llama(), vocab=9)


@pytest.mark.parametrize(
    ("name", "type_id", "block_bytes", "words"),
    [
        ("blk.0.attn_q.weight", 9, 40, "got Q8_1"),
        ("blk.0.attn_q.weight", 39, 17, "got MXFP4"),
        ("blk.0.attn_norm.weight", 8, 34, "expected one of: F32; got Q8_0"),
    ],
)
def test_an_unsupported_quantisation_names_tensor_and_type(tiny_llama, name, type_id, block_bytes, words):
    plan = tiny_llama()
    tensor = next(one for one in plan.tensors if one.name == name)
    rows = tensor.dims[1] if len(tensor.dims) > 1 else 1
    tensor.type_id, tensor.data = type_id, bytes(block_bytes * rows)
    with pytest.raises(WeightsError) as caught:
        described(plan)
    assert caught.value.where == name
    assert words in str(caught.value)
