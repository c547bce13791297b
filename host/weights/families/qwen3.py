"""Qwen 3, dense: as Llama, with each query and key head normed before it rotates, and RoPE over split halves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....kernels.backend import DecoderSpec, RopeStyle
from . import decoder

if TYPE_CHECKING:
    from .facts import Facts

BLOCK: decoder.Places = {**decoder.BLOCK, **decoder.HEAD_NORMS}


def spec(facts: Facts) -> DecoderSpec:
    """Reads the hyperparameters; see `graph.Family`."""
    return replace(decoder.decoder(facts, RopeStyle.NEOX), qk_norm=True)
