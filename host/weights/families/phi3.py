"""Phi 3, 3.5, 4 and 4-mini: as Llama, with queries, keys and values stored as one matrix, and gate and up as another.

RoPE over split halves, maybe of a part of each head. Models with a long context have two sets of factors: which is used
is decided once, by the context that the process allows (`rope.long_rope_context`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, Role, RopeStyle
from . import decoder

if TYPE_CHECKING:
    from .facts import Facts

_APART = {"attn_q.weight", "attn_k.weight", "attn_v.weight", "ffn_gate.weight", "ffn_up.weight"}

BLOCK: decoder.Places = {
    **{name: places for name, places in decoder.BLOCK.items() if name not in _APART},
    "attn_qkv.weight": (Role.QUERY, Role.KEY, Role.VALUE),
    "ffn_up.weight": (Role.GATE, Role.UP),
}


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    plain = decoder.decoder(facts, RopeStyle.NEOX)
    return replace(plain, layer_windows=decoder.windows(facts, plain.layers, period=0))
