"""Llama and what is built like it in GGUF: Llama 2 and 3, Mistral (with a window in each layer), SmolLM2.

RMSNorm, RoPE over adjacent pairs (Llama 3's scaling comes as `rope_freqs`), grouped-query attention, SwiGLU; the head
may be tied to the embedding.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, RopeStyle
from . import decoder

if TYPE_CHECKING:
    from .facts import Facts

BLOCK = decoder.BLOCK


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    plain = decoder.decoder(facts, RopeStyle.NORM)
    return replace(plain, layer_windows=decoder.windows(facts, plain.layers, period=0))
