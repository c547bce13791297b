"""A session of one choice with the calls of a session before there were slots; goes with its last caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .errors import GuestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .session import SamplerSession


class OneDecision(NamedTuple):
    """A token, or the end of this choice."""

    token: int | None
    stop: bool


class OneChoice:
    """Wraps a session with one slot."""

    def __init__(self, session: SamplerSession) -> None:
        self._session = session

    @property
    def logits_address(self) -> int:
        """As `SamplerSession.logits_address`."""
        return self._session.logits_address(0)

    @property
    def logits(self) -> NDArray[np.float32]:
        """As `SamplerSession.logits`."""
        return self._session.logits(0)

    def step(self) -> OneDecision:
        """As `SamplerSession.step`; several ids at once are refused."""
        (found,) = self._session.step((0,))
        if found.stop:
            return OneDecision(None, stop=True)
        if len(found.tokens) != 1 or found.backtrack:
            raise GuestError("sampler", "invalid", f"expected one token, got {found}")
        return OneDecision(found.tokens[0], stop=False)

    def accept(self, token: int) -> None:
        """As `SamplerSession.accept`."""
        self._session.accept(0, (token,))

    def close(self) -> None:
        """As `SamplerSession.close`."""
        self._session.close()
