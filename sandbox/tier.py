"""The tier of a sampler: how much of the logits it sees (plugins/README.md, clause 2.10).

    Tier.parse("topk:40")   # Tier(name="topk", candidates=40)

| tier | the guest sees | where the model writes the logits |
|---|---|---|
| `full` | every logit | into the guest's memory |
| `topk:K` | the K best candidates | into the host's |
| `mask` | none; it answers before they exist | into the host's |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..signing.manifest import MAX_TOPK

_TIER = re.compile(r"full|mask|topk:([1-9][0-9]{0,3})")


def is_known(text: str) -> bool:
    """Whether a manifest may name this tier."""
    found = _TIER.fullmatch(text)
    return found is not None and int(found[1] or 1) <= MAX_TOPK


@dataclass(frozen=True, slots=True)
class Tier:
    """A sampler's tier.

    Args:
        name: "full", "topk" or "mask".
        candidates: K of topk; else 0.
    """

    name: str
    candidates: int = 0

    @classmethod
    def parse(cls, text: str) -> Tier:
        """A tier that admission has let pass: one that `is_known`."""
        name, _, count = text.partition(":")
        return cls(name, int(count or 0))

    def __str__(self) -> str:
        return f"topk:{self.candidates}" if self.candidates else self.name
