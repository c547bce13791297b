"""Gemma 3: as Gemma 2 with normed query and key heads, no soft caps, and five windowed layers to a global one.

The windowed layers turn with a base of their own and are never scaled. Converters have added 1 to the norms' weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, Rope
from . import decoder
from .gemma2 import gemma
from .limits import MAX_ROPE_BASE

if TYPE_CHECKING:
    from .facts import Facts

BLOCK: decoder.Places = {**decoder.BLOCK, **decoder.HEAD_NORMS, **decoder.POST_NORMS}

LAYERS_OF_27B = 62
"""The one size whose queries are scaled by the heads' share of the width; files say it by their depth alone."""
LOCAL_BASE = 10000.0
"""Theta of the windowed layers, where the file does not say it."""


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    plain = gemma(facts, largest=LAYERS_OF_27B)
    layer_windows = decoder.windows(facts, plain.layers, period=6)
    if not layer_windows:
        raise facts.refuse("attention.sliding_window", "expected a window, got none")
    base = facts.number("rope.freq_base_swa", above=1, most=MAX_ROPE_BASE, default=LOCAL_BASE)
    return replace(
        plain,
        qk_norm=True,
        attention_cap=decoder.soft_cap(facts, "attn_logit_softcapping", 0.0),
        logit_cap=decoder.soft_cap(facts, "final_logit_softcapping", 0.0),
        ropes=(*plain.ropes, Rope.plain(base, plain.rope_dim)),
        layer_ropes=tuple(int(window > 0) for window in layer_windows),
        layer_windows=layer_windows,
    )
