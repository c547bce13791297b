"""Qwen 2 and 2.5: as Llama, with biases on queries, keys and values, and RoPE over split halves.

Its window is not described: the models that have one switch it off, and the file does not say for which layers it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, Role, RopeStyle
from . import decoder

if TYPE_CHECKING:
    from .facts import Facts

BLOCK: decoder.Places = {
    **decoder.BLOCK,
    "attn_q.bias": (Role.QUERY_BIAS,),
    "attn_k.bias": (Role.KEY_BIAS,),
    "attn_v.bias": (Role.VALUE_BIAS,),
}


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    return replace(decoder.decoder(facts, RopeStyle.NEOX), qkv_bias=True)
