"""Ranges that all architectures share."""

from __future__ import annotations

MAX_LAYERS = 512
"""Most blocks: four times the deepest open model; a count in the thousands is an attack on allocation."""

MAX_WIDTH = 1 << 17
"""Widest residual or feed-forward stream: twice the widest open model's."""

MAX_HEADS = 1024
"""Most query heads."""

MAX_HEAD_DIM = 512
"""Widest head: twice the widest in use."""

MAX_CONTEXT = 1 << 24
"""Longest context, tokens; what a process really allows is set by its KV pool."""

MAX_ROPE_BASE = 1e12
"""Largest theta of RoPE: float32 keeps the angles meaningful below it."""

MAX_CAP = 1e6
"""Largest soft cap: beyond it float32 would not notice one."""
