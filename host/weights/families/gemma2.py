"""Gemma 2: embeddings times sqrt(dim), GELU, norms after attention and feed-forward, soft caps.

Every other layer is windowed. Converters have added 1 to the norms' weights. What older files do not say is as in
llama.cpp's `llama-model.cpp`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import Activation, DecoderSpec, RopeStyle
from . import decoder

if TYPE_CHECKING:
    from .facts import Facts

BLOCK: decoder.Places = {**decoder.BLOCK, **decoder.POST_NORMS}

LAYERS_OF_27B = 46
"""The one size whose queries are scaled by the heads' share of the width; files say it by their depth alone."""


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    plain = gemma(facts, largest=LAYERS_OF_27B)
    return replace(
        plain,
        attention_cap=decoder.soft_cap(facts, "attn_logit_softcapping", 50.0),
        logit_cap=decoder.soft_cap(facts, "final_logit_softcapping", 30.0),
        layer_windows=decoder.windows(facts, plain.layers, period=2, default=4096),
    )


def gemma(facts: Facts, *, largest: int) -> DecoderSpec:
    """What Gemma 2 and 3 share; `largest` is the depth of the size with another scale of the queries."""
    plain = decoder.decoder(facts, RopeStyle.NEOX)
    width = plain.dim / plain.heads if plain.layers == largest else plain.head_dim
    return replace(
        plain,
        activation=Activation.GELU_TANH,
        embedding_scale=math.sqrt(plain.dim),
        query_scale=facts.number("attention.scale", above=0, most=16, default=1 / math.sqrt(width)),
        post_norms=True,
    )
