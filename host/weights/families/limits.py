"""Ranges and refusals that all architectures share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import WeightsError
from .. import fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..gguf import GgufFile

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


def divides(key: str, divisor: int, number: int, of: str) -> None:
    """Refuses a divisor that leaves a rest."""
    if number % divisor:
        raise WeightsError(key, f"expected a divisor of {of} ({number}), got {divisor}", "use a model that fits")


def even(key: str, value: int) -> None:
    """Refuses an odd number of elements, which cannot be rotated in pairs."""
    if value % 2:
        raise WeightsError(key, f"expected an even number, got {value}", "use a model that fits")


def refuse_unknown_keys(
    file: GgufFile, prefix: str, read: Collection[str], neutral: Mapping[str, tuple[object, ...]]
) -> None:
    """Refuses an architecture's keys that are neither read nor known to change nothing (clause 1.3)."""
    for key, value in file.metadata.items():
        name = key.removeprefix(prefix)
        if name == key or name in read:
            continue
        if name not in neutral:
            problem = f"expected only features that the graph has, got this key ({fields.describe(file, key)})"
            raise WeightsError(key, problem, "use a model without it")
        if not any(type(value) is type(one) and value == one for one in neutral[name]):
            shown = value if isinstance(value, str | int | float) else fields.describe(file, key)
            wanted = " or ".join(map(str, neutral[name]))
            raise WeightsError(key, f"expected {wanted}, got {shown}: not supported", "use a model without it")
