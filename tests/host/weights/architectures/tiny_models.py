"""Tiny random models of every architecture, as Hugging Face names their weights and as a converter would write them to GGUF.

Weights come from a seeded generator, so goldens need to hold the answers only. Nothing here needs torch.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

VOCAB = 64
TOKENS = 40
ENDS = (3, 17, 40)
"""Tokens after which the log-probabilities are compared."""

COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}

_ATTENTION = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
}
_FEED_FORWARD = {
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
}
_PLAIN = {**_ATTENTION, "ffn_norm.weight": "post_attention_layernorm.weight", **_FEED_FORWARD}
_HEAD_NORMS = {"attn_q_norm.weight": "self_attn.q_norm.weight", "attn_k_norm.weight": "self_attn.k_norm.weight"}
_GEMMA = {
    **_ATTENTION,
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_norm.weight": "pre_feedforward_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
    **_FEED_FORWARD,
}
BLOCKS = {
    "llama": _PLAIN,
    "qwen2": _PLAIN | {f"attn_{one}.bias": f"self_attn.{one}_proj.bias" for one in "qkv"},
    "qwen3": _PLAIN | _HEAD_NORMS,
    "gemma2": _GEMMA,
    "gemma3": _GEMMA | _HEAD_NORMS,
    "phi3": {
        "attn_norm.weight": "input_layernorm.weight",
        "attn_qkv.weight": "self_attn.qkv_proj.weight",
        "attn_output.weight": "self_attn.o_proj.weight",
        "ffn_norm.weight": "post_attention_layernorm.weight",
        "ffn_up.weight": "mlp.gate_up_proj.weight",
        "ffn_down.weight": "mlp.down_proj.weight",
    },
}
"""GGUF's name of each tensor of a block, and Hugging Face's."""
OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


@dataclass(frozen=True)
class Case:
    """One tiny model.

    Attributes:
        name: What it shows.
        architecture: GGUF's name.
        model_type: Hugging Face's name.
        config: What differs from COMMON in Hugging Face's configuration.
        metadata: What its converter would write beside the common keys, after the architecture's prefix.
        factors: Tensors of RoPE factors, by name.
        tokens: Length of the prompt.
        ends: Tokens after which log-probabilities are compared.
        context: Context that the process wants; None: all.
    """

    name: str
    architecture: str
    model_type: str
    config: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    factors: dict[str, list[float]] = field(default_factory=dict)
    tokens: int = TOKENS
    ends: tuple[int, ...] = ENDS
    context: int | None = None

    @property
    def full_config(self) -> dict[str, Any]:
        """All of Hugging Face's configuration."""
        return COMMON | self.config

    @property
    def ids(self) -> list[int]:
        """The prompt."""
        return np.random.default_rng(len(self.name)).integers(0, VOCAB, self.tokens).tolist()


LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 10000.0,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
YARN_KEYS = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 64,
}
SHORT_FACTORS = [1.0 + 0.05 * pair for pair in range(16)]
LONG_FACTORS = [1.0 + 0.5 * pair for pair in range(16)]
LONG_ROPE = {
    "max_position_embeddings": 128,
    "original_max_position_embeddings": 32,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": SHORT_FACTORS,
        "long_factor": LONG_FACTORS,
        "original_max_position_embeddings": 32,
    },
    "head_dim": None,
    "hidden_size": 128,
}
LONG_ROPE_KEYS = {
    "rope.scaling.original_context_length": 32,
    "rope.scaling.attn_factor": math.sqrt(1 + math.log(4) / math.log(32)),
}
LONG_ROPE_FACTORS = {"rope_factors_short.weight": SHORT_FACTORS, "rope_factors_long.weight": LONG_FACTORS}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}
GEMMA = {"tie_word_embeddings": True, "query_pre_attn_scalar": 32, "sliding_window": 7}


def llama3_factors(scaling: dict[str, Any], head_dim: int) -> list[float]:
    """Divisors of the frequencies, as llama.cpp's `convert_hf_to_gguf.py` derives them from a configuration."""
    old, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    divisors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * scaling["rope_theta"] ** (2 * pair / head_dim)
        smooth = min(1.0, max(0.0, (old / wavelength - low) / (high - low)))
        divisors.append(1 / ((1 - smooth) / factor + smooth))
    return divisors


CASES = [
    Case("llama", "llama", "llama"),
    Case("llama with a tied head", "llama", "llama", {"tie_word_embeddings": True}),
    Case(
        "llama 3 scaling", "llama", "llama", {"rope_parameters": LLAMA3},
        factors={"rope_freqs.weight": llama3_factors(LLAMA3, 32)},
    ),
    Case(
        "llama with linear scaling", "llama", "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    Case("llama with yarn", "llama", "llama", {"rope_parameters": YARN}, YARN_KEYS),
    Case("mistral with a window", "llama", "mistral", {"sliding_window": 7}, {"attention.sliding_window": 7}),
    Case("qwen2", "qwen2", "qwen2", {"head_dim": None, "hidden_size": 128}),
    Case("qwen2 with yarn", "qwen2", "qwen2", {"head_dim": None, "hidden_size": 128, "rope_parameters": YARN}, YARN_KEYS),
    Case("qwen3 with a tied head", "qwen3", "qwen3", {"tie_word_embeddings": True}),
    Case(
        "gemma2", "gemma2", "gemma2", GEMMA | CAPS,
        {"attention.sliding_window": 7, **CAPS},
    ),
    Case(
        "gemma3", "gemma3", "gemma3_text", GEMMA | {"num_hidden_layers": 7}, {"attention.sliding_window": 7},
    ),
    Case(
        "gemma3 with linear scaling and another pattern", "gemma3", "gemma3_text",
        GEMMA
        | {
            "sliding_window_pattern": 2,
            "query_pre_attn_scalar": 20,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
        {
            "attention.sliding_window": 7,
            "attention.sliding_window_pattern": 2,
            "attention.scale": 20**-0.5,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "rope.freq_base": 1000000.0,
            "rope.freq_base_swa": 5000.0,
        },
    ),
    Case(
        "phi3 with a window", "phi3", "phi3", {"head_dim": None, "hidden_size": 128, "sliding_window": 7},
        {"attention.sliding_window": 7},
    ),
    Case(
        "phi3 that turns half of each head", "phi3", "phi3",
        {"head_dim": None, "hidden_size": 128, "partial_rotary_factor": 0.5}, {"rope.dimension_count": 16},
    ),
    Case(
        "phi3 with long factors", "phi3", "phi3", LONG_ROPE, LONG_ROPE_KEYS, LONG_ROPE_FACTORS,
    ),
    Case(
        "phi3 with short factors", "phi3", "phi3", LONG_ROPE, LONG_ROPE_KEYS, LONG_ROPE_FACTORS, 32, (3, 17, 32), 32,
    ),
]  # fmt: skip
"""Every architecture, and every feature at least once."""


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor of a block, by GGUF's name."""
    config = case.full_config
    dim, wide = config["hidden_size"], config["intermediate_size"]
    head = config["head_dim"] or dim // config["num_attention_heads"]
    query, key = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    known = {
        "attn_q.weight": (query, dim),
        "attn_k.weight": (key, dim),
        "attn_v.weight": (key, dim),
        "attn_qkv.weight": (query + 2 * key, dim),
        "attn_output.weight": (dim, query),
        "ffn_gate.weight": (wide, dim),
        "ffn_up.weight": (2 * wide if case.architecture == "phi3" else wide, dim),
        "ffn_down.weight": (dim, wide),
        "attn_q.bias": (query,),
        "attn_k.bias": (key,),
        "attn_v.bias": (key,),
        "attn_q_norm.weight": (head,),
        "attn_k_norm.weight": (head,),
    }
    return {name: known.get(name, (dim,)) for name in BLOCKS[case.architecture]}


def weights(case: Case) -> dict[str, NDArray[np.float32]]:
    """All weights as Hugging Face names and stores them, by GGUF's name."""
    config, numbers = case.full_config, np.random.default_rng(20)
    dim = config["hidden_size"]
    shapes = {"token_embd.weight": (VOCAB, dim), "output_norm.weight": (dim,)}
    if not config["tie_word_embeddings"]:
        shapes["output.weight"] = (VOCAB, dim)
    for layer in range(config["num_hidden_layers"]):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in _shapes(case).items()}
    made = {}
    for name, shape in shapes.items():
        if "norm" in name:
            low = -0.5 if case.architecture.startswith("gemma") else 0.5
            made[name] = numbers.uniform(low, low + 1, shape).astype(np.float32)
        else:
            scale = 1.0 if len(shape) == 1 else 2 / math.sqrt(shape[1])
            made[name] = (scale * numbers.standard_normal(shape)).astype(np.float32)
    return made


def hugging_face_name(case: Case, name: str) -> str:
    """Hugging Face's name for a tensor of GGUF."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    _, layer, rest = name.split(".", 2)
    return f"model.layers.{layer}.{BLOCKS[case.architecture][rest]}"


def _stored(case: Case, name: str, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """A tensor as a converter stores it."""
    if case.architecture.startswith("gemma") and "norm" in name:
        return array + np.float32(1)
    if case.architecture == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
        head = case.full_config["head_dim"]  # split halves become adjacent pairs
        return array.reshape(-1, 2, head // 2, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
    return array


def gguf_file(case: Case) -> bytes:
    """The model as a GGUF file in F32."""
    config = case.full_config
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        writer = gguf.GGUFWriter(path, case.architecture)
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        if config["head_dim"]:
            writer.add_key_length(config["head_dim"])
            writer.add_value_length(config["head_dim"])
        base = {"gemma3": 1000000.0}.get(case.architecture, 10000.0)
        for name, value in ({"rope.freq_base": base} | case.metadata).items():
            add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
            add(f"{case.architecture}.{name}", value)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list([f"<{token}>" for token in range(VOCAB)])
        writer.add_token_merges(["a b"])
        for name, factors in case.factors.items():
            writer.add_tensor(name, np.array(factors, np.float32))
        for name, array in weights(case).items():
            writer.add_tensor(name, _stored(case, name, array))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()
