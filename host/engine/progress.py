"""What a guest's answer makes of a choice: ids appended or taken back, events, the end. No model, pool or thread.

Rules
* Each id is looked at by itself: the answer ends at the very id that completes it, and the rest is dropped
  (clause 2.16).
* Where log-probabilities are wanted, an id is appended only with the model's own for its place.
* What is taken back leaves no trace (clause 2.17), and a choice always has an id left to run.

Example:
    step = progress(sequence, reply)
    for event in step.events: sink(event)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...signing.errors import Code
from ..errors import HostError
from .request import FinishEvent, TokenEvent

if TYPE_CHECKING:
    from typing import Literal

    from .drawing import Reply
    from .request import TokenLogprobs
    from .sequence import Sequence
    from .session import Decision

BACKTRACKS_PER_TOKEN = 4
"""Ids that a choice may take back for each one that it may have: a guest that searches gets somewhere or ends."""

MIN_BACKTRACKS = 64
"""Ids that any choice may take back, however short its answer."""


class Accepted(NamedTuple):
    """What the guest is told of its own answer."""

    tokens: tuple[int, ...]
    backtrack: int


class Progress(NamedTuple):
    """What an answer led to.

    Attributes:
        events: Of ids that stand now.
        drawn: Ids that were drawn, one that ended the answer among them.
        finish: The end; None: the choice goes on.
        accepted: What the guest is to be told; None: nothing.
    """

    events: list[TokenEvent]
    drawn: int
    finish: FinishEvent | None = None
    accepted: Accepted | None = None


def progress(sequence: Sequence, reply: Reply) -> Progress:
    """Takes an answer; the caller gives back blocks that are too many, sends the events, and tells the guest.

    Raises:
        HostError: the guest takes back what it may not, or asks for nothing at all.
    """
    accepted = None
    if reply.decision is not None:
        _take_back(sequence, reply.decision)
        if reply.decision.stop:
            return _ended(sequence, [], 0, "stop")
        room = sequence.limit - len(sequence.ids)
        accepted = Accepted(tuple(reply.decision.tokens[:room]), reply.decision.backtrack)
        sequence.forced.extend(accepted.tokens)
    return _append(sequence, reply.logprobs, accepted)


def _append(sequence: Sequence, report: TokenLogprobs | None, accepted: Accepted | None) -> Progress:
    """Appends what is decided on, as far as it can be now."""
    request, events, drawn = sequence.request, list[TokenEvent](), 0
    while sequence.forced and (request.logprobs is None or report is not None):
        token = sequence.forced.popleft()
        drawn += 1
        if token in request.stop_ids:
            return _ended(sequence, events, drawn, "stop", extra=1)
        before = None if sequence.held is None else sequence.stream.mark()
        text, stopped = sequence.stream.push(token)
        sequence.ids.append(token)
        event = TokenEvent(request.id, token, text, report)
        report = None  # the logits were for this place only
        events += [event] if sequence.held is None or before is None else sequence.held.add(event, before)
        if stopped:
            return _ended(sequence, events, drawn, "stop", flush=False)
        if len(sequence.ids) >= sequence.limit:
            return _ended(sequence, events, drawn, "length")
    sequence.cached = min(sequence.cached, len(sequence.ids) - 1)  # the last one runs again, for its logits
    return Progress(events, drawn, accepted=accepted)


def _take_back(sequence: Sequence, decision: Decision) -> None:
    count = decision.backtrack
    if not (count or decision.tokens or decision.stop):
        raise _refused("expected ids, a step back or the end, got an answer of nothing")
    if count == 0:
        return
    held = 0 if sequence.held is None else len(sequence.held)
    if sequence.held is None or not 0 < count <= held:
        raise _refused(f"expected at most {held} ids to take back, which nobody has seen yet, got {count}")
    sequence.taken_back += count
    most = BACKTRACKS_PER_TOKEN * (sequence.limit - len(sequence.request.prompt_ids)) + MIN_BACKTRACKS
    if sequence.taken_back > most:
        raise _refused(f"expected at most {most} ids taken back by one choice in all, got {sequence.taken_back}")
    sequence.stream.rewind(sequence.held.take_back(count))
    del sequence.ids[-count:]
    sequence.cached = min(sequence.cached, len(sequence.ids))


def _ended(
    sequence: Sequence,
    events: list[TokenEvent],
    drawn: int,
    reason: Literal["stop", "length"],
    *,
    extra: int = 0,
    flush: bool = True,
) -> Progress:
    """The end; `extra` ids count without standing, and a completed stop text leaves nothing to flush."""
    if sequence.held is not None:
        events = events + sequence.held.release()
    request, tail = sequence.request, sequence.stream.finish() if flush else ""
    completion = sequence.generated + extra
    finish = FinishEvent(request.id, reason, tail, len(request.prompt_ids), completion)
    return Progress(events, drawn, finish)


def _refused(problem: str) -> HostError:
    return HostError(Code.PLUGIN, "sampler", problem, "use another sampler, or change its configuration")
