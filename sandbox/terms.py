"""What a sampler's session is about, and what all sessions of its plugin share.

Terms(params, prompt, choices=(0, 1), config=b"")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .layout import SamplerLayout
    from .params import SamplingParams
    from .tier import Tier


class Terms(NamedTuple):
    """What a session is about.

    Attributes:
        params: Of the request.
        prompt: Ids. Shape: (n,), uint32.
        choices: Index of the choice that each slot serves.
        config: Bytes for the guest.
    """

    params: SamplingParams
    prompt: NDArray[np.uint32]
    choices: tuple[int, ...]
    config: bytes


class Guest(NamedTuple):
    """What all sessions of a plugin share."""

    layout: SamplerLayout
    tier: Tier
    vocab_size: int
    max_backtrack: int
