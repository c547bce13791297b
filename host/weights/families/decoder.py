"""What all descriptions share: names of tensors, ranges of hyperparameters, sliding windows.

Names are those of llama.cpp's `gguf-py/gguf/constants.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ....kernels.backend import DecoderSpec, Role, RopeStyle
from .limits import (
    MAX_CAP,
    MAX_CONTEXT,
    MAX_HEAD_DIM,
    MAX_HEADS,
    MAX_LAYERS,
    MAX_WIDTH,
)
from .rope import long_rope_context, rope, rope_base

if TYPE_CHECKING:
    from .facts import Facts

Places = Mapping[str, tuple[Role, ...]]
"""Tensors by name, and the places that each fills: several where matrices are stored as one, rows after rows."""

OUTSIDE: Places = {
    "token_embd.weight": (Role.EMBEDDING,),
    "output_norm.weight": (Role.OUTPUT_NORM,),
    "output.weight": (Role.OUTPUT,),
}
"""Tensors outside the blocks; without a head of its own a model uses the embedding."""

BLOCK: Places = {
    "attn_norm.weight": (Role.ATTENTION_NORM,),
    "attn_q.weight": (Role.QUERY,),
    "attn_k.weight": (Role.KEY,),
    "attn_v.weight": (Role.VALUE,),
    "attn_output.weight": (Role.ATTENTION_OUTPUT,),
    "ffn_norm.weight": (Role.FEED_FORWARD_NORM,),
    "ffn_gate.weight": (Role.GATE,),
    "ffn_up.weight": (Role.UP,),
    "ffn_down.weight": (Role.DOWN,),
}
"""Tensors of each block, after "blk.N."."""

HEAD_NORMS: Places = {"attn_q_norm.weight": (Role.QUERY_NORM,), "attn_k_norm.weight": (Role.KEY_NORM,)}
POST_NORMS: Places = {
    "post_attention_norm.weight": (Role.POST_ATTENTION_NORM,),
    "post_ffw_norm.weight": (Role.POST_FEED_FORWARD_NORM,),
}


def decoder(facts: Facts, style: RopeStyle) -> DecoderSpec:
    """The hyperparameters that every architecture has, with one RoPE table for all layers.

    Raises:
        WeightsError: a key is missing or out of range.
    """
    dim = facts.integer("embedding_length", low=1, high=MAX_WIDTH)
    heads = facts.integer("attention.head_count", low=1, high=MAX_HEADS)
    kv_heads = facts.integer("attention.head_count_kv", low=1, high=heads, default=heads)
    _divides(facts, "attention.head_count_kv", kv_heads, heads, "attention.head_count")
    head_dim = _head_dim(facts, dim, heads)
    rope_dim = facts.integer("rope.dimension_count", low=2, high=head_dim, default=head_dim)
    if rope_dim % 2:
        raise facts.refuse("rope.dimension_count", f"expected an even number, got {rope_dim}")
    facts.key("vocab_size")  # repeats the token count, which the embedding's shape is checked against
    context = long_rope_context(facts, facts.integer("context_length", low=2, high=MAX_CONTEXT))
    base = rope_base(facts)
    return DecoderSpec(
        layers=facts.integer("block_count", low=1, high=MAX_LAYERS),
        dim=dim,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward_dim=facts.integer("feed_forward_length", low=1, high=MAX_WIDTH),
        vocab=facts.vocab,
        context=context,
        norm_epsilon=facts.number("attention.layer_norm_rms_epsilon", above=0, most=1),
        rope_base=base,
        rope_dim=rope_dim,
        rope_style=style,
        tied_head=not facts.has_tensor("output.weight"),
        ropes=(rope(facts, base, rope_dim, context),),
    )


def windows(facts: Facts, layers: int, *, period: int, default: int = 0) -> tuple[int, ...]:
    """The window of each layer; empty when the file has none.

    Args:
        facts: The file.
        layers: Blocks.
        period: Of this many layers the last one sees everything; 0: none does. The file's own pattern goes before.
        default: The window of an architecture whose older files do not say it.
    """
    window = facts.integer("attention.sliding_window", low=0, high=MAX_CONTEXT, default=default)
    name = "attention.sliding_window_pattern"
    pattern = facts.value(name)
    if isinstance(pattern, np.ndarray):
        if len(pattern) != layers or not np.isin(pattern, (0, 1)).all():
            raise facts.refuse(name, f"expected {layers} booleans, one for each layer, got {len(pattern)} values")
        slides = pattern.astype(bool).tolist()
    else:
        period = facts.integer(name, low=0, high=MAX_LAYERS, default=period)
        slides = [period == 0 or (layer + 1) % period != 0 for layer in range(layers)]
    return tuple(window if one else 0 for one in slides) if window else ()


def soft_cap(facts: Facts, name: str, default: float) -> float:
    """A soft cap; 0: none."""
    if facts.is_zero(name) or not (default or facts.has(name)):
        return 0.0
    return facts.number(name, above=0, most=MAX_CAP, default=default)


def _head_dim(facts: Facts, dim: int, heads: int) -> int:
    """Width of a head: stated, or the heads' equal shares of the residual stream."""
    if not facts.has("attention.key_length"):
        _divides(facts, "attention.head_count", heads, dim, "embedding_length")
    head_dim = facts.integer("attention.key_length", low=2, high=MAX_HEAD_DIM, default=dim // heads)
    facts.integer("attention.value_length", low=head_dim, high=head_dim, default=head_dim)
    return head_dim


def _divides(facts: Facts, name: str, divisor: int, number: int, of: str) -> None:
    if number % divisor:
        raise facts.refuse(name, f"expected a divisor of {of} ({number}), got {divisor}")
