"""What a worker's thread does with a sandbox: asking it before the logits exist, and drawing from them.

Rules
* One guest call serves all slots that draw in a turn (clause 2.15).
* Log-probabilities are taken before the guest can edit the logits (clause 2.12).
* Only what is immutable of a sequence is read here: the engine's thread goes on meanwhile.

Example:
    calls.start(guest, partial(draw, session, guest.take_ended(), asks, vocab))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...signing.errors import Code
from ..errors import HostError
from .logprobs import token_logprobs

if TYPE_CHECKING:
    from collections.abc import Sequence as Many

    import numpy as np
    from numpy.typing import NDArray

    from .request import TokenLogprobs
    from .sequence import Sequence
    from .session import Decision, Session


class Ask(NamedTuple):
    """A slot whose logits are there.

    Attributes:
        sequence: The choice.
        forced: An id that its guest has decided on before, so that only its log-probability is wanted; None: a draw is.
    """

    sequence: Sequence
    forced: int | None


class Opened(NamedTuple):
    """A sandbox is ready."""

    session: Session


class Prepared(NamedTuple):
    """A guest of the mask tier has answered; drawing is the host's own work from here."""


class Reply(NamedTuple):
    """What came for one choice.

    Attributes:
        sequence: The choice.
        decision: The guest's; None when only a log-probability was wanted.
        logprobs: The report on the id at the place that the logits are for, when it is wanted.
    """

    sequence: Sequence
    decision: Decision | None
    logprobs: TokenLogprobs | None


class Drawn(NamedTuple):
    """Everything that a call was asked for, one reply for each ask."""

    replies: list[Reply]


def prepare(session: Session, ended: Many[int], slots: Many[int]) -> Prepared:
    """Asks a guest of the mask tier.

    Args:
        session: The sandbox.
        ended: Slots to close before.
        slots: Those that will draw.

    Raises:
        SealhostError: the guest failed.
    """
    _close(session, ended)
    session.prepare(slots)
    return Prepared()


def draw(session: Session, ended: Many[int], asks: Many[Ask], vocab: int) -> Drawn:
    """One guest step for all that draw.

    Args:
        session: The sandbox, the logits of all these slots written.
        ended: Slots to close before.
        asks: What is wanted, at most once for each slot.
        vocab: Ids are below this.

    Raises:
        SealhostError: the guest failed, or answered an id that does not exist.
    """
    _close(session, ended)
    logits = {
        sequence.slot: session.logits(sequence.slot).copy()
        for sequence, _ in asks
        if sequence.request.logprobs is not None
    }
    slots = [sequence.slot for sequence, forced in asks if forced is None]
    decisions = iter(session.step(slots) if slots else ())
    return Drawn([_reply(ask, next(decisions) if ask.forced is None else None, logits, vocab) for ask in asks])


def _close(session: Session, ended: Many[int]) -> None:
    for slot in ended:
        session.close_slot(slot)


def _reply(ask: Ask, decision: Decision | None, logits: dict[int, NDArray[np.float32]], vocab: int) -> Reply:
    sequence, token = ask
    if decision is not None:
        for one in decision.tokens:
            if not 0 <= one < vocab:
                raise HostError(Code.PLUGIN, "sampler", f"expected ids below {vocab}, got {one}", "use another sampler")
        # after a step back the logits are for another place than the id's
        token = decision.tokens[0] if decision.tokens and not decision.backtrack else None
    count = sequence.request.logprobs
    report = None if count is None or token is None else token_logprobs(logits[sequence.slot], token, count)
    return Reply(sequence, decision, report)
