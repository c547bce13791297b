"""Runs a sampler over a recording and says where it first decides otherwise (README §11).

outcome = replay(sampler, recording)     # Outcome(steps=57, decisions=57, difference=None, is_cut=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .decision import Decision
from .errors import GuestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .recording import Event, Recording
    from .sampler import SamplerPlugin
    from .session import SamplerSession


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay left its recording.

    Attributes:
        step: Number of the step, from 0.
        slot: Whose decision it was; None: the call as a whole.
        recorded: What the recording says, in words.
        replayed: What came now.
    """

    step: int
    slot: int | None
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a replay.

    Attributes:
        steps: Steps that were replayed.
        decisions: Decisions that were alike.
        difference: The first one; None: all were alike.
        is_cut: Whether the recording had reached its bound before the session ended.
    """

    steps: int
    decisions: int
    difference: Difference | None
    is_cut: bool


def replay(sampler: SamplerPlugin, recording: Recording) -> Outcome:
    """Replays a recording; ends at the first difference.

    Args:
        sampler: Loaded for the recording's `vocab_size`.
        recording: Open.

    Raises:
        SandboxError: When the recording is broken, or asks for what this sampler has no room for.
    """
    head = recording.head
    steps = decisions = 0
    config = head.config.encode()
    with sampler.session(recording.params(), head.prompt, choices=head.choices, config=config) as session:
        for event, rows in recording.events():
            if event.call == "full":
                return Outcome(steps, decisions, None, is_cut=True)
            found = _call(session, event, rows)
            difference = _compared(event, found, steps)
            if difference is not None:
                return Outcome(steps, decisions, difference, is_cut=False)
            if isinstance(found, str):  # it failed then, too
                break
            decisions += len(found)
            steps += event.call == "step"
    return Outcome(steps, decisions, None, is_cut=False)


def _call(session: SamplerSession, event: Event, rows: list[NDArray[np.float32]]) -> list[Decision] | str:
    """One call again: its decisions, or the kind of its failure."""
    try:
        if event.call == "step":
            for slot, row in zip(event.slots, rows, strict=True):
                session.logits(slot)[:] = row
            return session.step(event.slots)
        if event.call == "prepare":
            session.prepare(event.slots)
        elif event.call == "reset":
            session.reset()
        else:
            for slot in event.slots[:1]:
                if event.call == "accept":
                    session.accept(slot, event.tokens, event.backtrack)
                else:
                    session.close_slot(slot)
    except GuestError as error:
        return error.kind
    return []


def _compared(event: Event, found: list[Decision] | str, step: int) -> Difference | None:
    if isinstance(found, str) or event.failed:
        replayed = found if isinstance(found, str) else ""
        if replayed == event.failed:
            return None
        return Difference(step, None, event.failed or "an answer", replayed or "an answer")
    recorded = [Decision(tuple(tokens), backtrack, stop) for tokens, backtrack, stop in event.decisions]
    for slot, then, now in zip(event.slots, recorded, found, strict=False):
        if then != now:
            return Difference(step, slot, str(then), str(now))
    if len(recorded) != len(found):
        return Difference(step, None, f"{len(recorded)} decisions", f"{len(found)} decisions")
    return None
