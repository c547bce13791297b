"""What the engine uses of a sampler's sandbox, as seams; `sandbox.SamplerSession` is the real one.

Rules
* A session serves some choices of one request, each in a slot of its own; one thread at a time uses it.

Example:
    session = sampler.session(params, prompt_ids, choices=(0, 1))
    model.step(batch)                         # writes at session.logits_address(slot)
    for decision in session.step((0, 1)): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MASK_TIER = "mask"
"""A sampler of this tier is asked before the logits exist, so it works beside the model's step (clause 2.18)."""


class Decision(Protocol):
    """A sampler's answer for one slot."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids to append now, in order."""

    @property
    def backtrack(self) -> int:
        """Generated ids to take back before `tokens` are appended."""

    @property
    def stop(self) -> bool:
        """The choice ends here; `tokens` is empty then."""


class Session(Protocol):
    """A sandbox at work."""

    def logits_address(self, slot: int) -> int:
        """Where the model writes this slot's logits: float32[vocab]; valid until `close`."""

    def logits(self, slot: int) -> NDArray[np.float32]:
        """The same, as a live view that is not kept. Shape: (vocab,), float32."""

    def prepare(self, slots: Sequence[int]) -> None:
        """Asks the guest before the logits exist; only the mask tier does anything."""

    def step(self, slots: Sequence[int]) -> Sequence[Decision]:
        """Draws for these slots, whose logits lie in their rows; answers in the same order."""

    def accept(self, slot: int, tokens: Sequence[int], backtrack: int = 0) -> None:
        """Tells what stands: so many generated ids taken back, then these appended."""

    def close_slot(self, slot: int) -> None:
        """This choice has ended."""

    def close(self) -> None:
        """Throws the sandbox away; idempotent."""
