"""Llama and what is built like it in GGUF: Llama 2 and 3, Mistral, SmolLM2.

RMSNorm, RoPE over adjacent pairs, grouped-query attention, SwiGLU; the head may be tied to the embedding.
Names are those of llama.cpp's `gguf-py/gguf/constants.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, Role, RopeStyle
from .. import fields
from .limits import (
    MAX_CONTEXT,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_ROPE_BASE,
    MAX_WIDTH,
    divides,
    even,
    refuse_unknown_keys,
)

if TYPE_CHECKING:
    from ..gguf import GgufFile

PREFIX = "llama."

READ = frozenset(
    {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "vocab_size",
    }
)
"""Keys that the description below reads; vocab_size repeats the token count, which is checked elsewhere."""

NEUTRAL: dict[str, tuple[object, ...]] = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (1.0,),
    "rope.scale_linear": (1.0,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.causal": (True,),
    "attention.sliding_window": (0,),
    "use_parallel_residual": (False,),
    "logit_scale": (1.0,),
    "residual_scale": (1.0,),
    "embedding_scale": (1.0,),
    "tensor_data_layout": ("Meta AI original pth",),
}
"""Values under which a feature that the graph lacks changes nothing; any other value is refused (clause 1.3)."""

GLOBAL = {
    "token_embd.weight": Role.EMBEDDING,
    "output_norm.weight": Role.OUTPUT_NORM,
    "output.weight": Role.OUTPUT,
}
"""Tensors outside the blocks."""

BLOCK = {
    "attn_norm.weight": Role.ATTENTION_NORM,
    "attn_q.weight": Role.QUERY,
    "attn_k.weight": Role.KEY,
    "attn_v.weight": Role.VALUE,
    "attn_output.weight": Role.ATTENTION_OUTPUT,
    "ffn_norm.weight": Role.FEED_FORWARD_NORM,
    "ffn_gate.weight": Role.GATE,
    "ffn_up.weight": Role.UP,
    "ffn_down.weight": Role.DOWN,
}
"""Tensors of each block, after "blk.N."."""


def spec(file: GgufFile, *, vocab: int, tied_head: bool) -> DecoderSpec:
    """Reads the hyperparameters.

    Args:
        file: The parsed model file.
        vocab: Tokens of the vocabulary.
        tied_head: The file has no head of its own.

    Raises:
        WeightsError: a key is missing, out of range, or asks for something that the graph cannot express.
    """
    refuse_unknown_keys(file, PREFIX, READ, NEUTRAL)
    dim = fields.integer(file, PREFIX + "embedding_length", low=1, high=MAX_WIDTH)
    heads = fields.integer(file, PREFIX + "attention.head_count", low=1, high=MAX_HEADS)
    kv_heads = fields.integer(file, PREFIX + "attention.head_count_kv", low=1, high=heads, default=heads)
    divides(PREFIX + "attention.head_count_kv", kv_heads, heads, "attention.head_count")
    head_dim = _head_dim(file, dim, heads)
    rope_dim = fields.integer(file, PREFIX + "rope.dimension_count", low=2, high=head_dim, default=head_dim)
    even(PREFIX + "rope.dimension_count", rope_dim)
    return DecoderSpec(
        layers=fields.integer(file, PREFIX + "block_count", low=1, high=MAX_LAYERS),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward_dim=fields.integer(file, PREFIX + "feed_forward_length", low=1, high=MAX_WIDTH),
        vocab=vocab,
        context=fields.integer(file, PREFIX + "context_length", low=2, high=MAX_CONTEXT),
        norm_epsilon=fields.number(file, PREFIX + "attention.layer_norm_rms_epsilon", above=0, most=1),
        rope_base=fields.number(file, PREFIX + "rope.freq_base", above=1, most=MAX_ROPE_BASE, default=10000.0),
        rope_dim=rope_dim,
        rope_style=RopeStyle.NORM,
        tied_head=tied_head,
    )


def _head_dim(file: GgufFile, dim: int, heads: int) -> int:
    """Width of a head: stated, or the heads' equal shares of the residual stream."""
    key = PREFIX + "attention.key_length"
    if key not in file.metadata:
        divides(PREFIX + "attention.head_count", heads, dim, "embedding_length")
    head_dim = fields.integer(file, key, low=2, high=MAX_HEAD_DIM, default=dim // heads)
    fields.integer(file, PREFIX + "attention.value_length", low=head_dim, high=head_dim, default=head_dim)
    return head_dim
