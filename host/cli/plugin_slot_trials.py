"""What `plugin test` tries with a sampler's slots: several choices in one instance, and a history that is taken back.

* A guest may let its slots know of each other, and may remember what it took back; so what is held against it is that
  the same course of events gives the same decisions again (clauses 1.8, 2.13, 2.14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...sandbox import SamplingParams
from .plugin_rows import random_logits, shown
from .plugin_trial import Trial, TrialFailedError, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...sandbox import Decision, SamplerSession
    from .plugin_rows import Rows

    Events = list[tuple[int, Decision]]

STEPS = 16
"""Steps of a course of events."""

MOST_SLOTS = 8
"""Slots that take part."""


def slot_trials(tried: Rows, seed: int) -> Iterator[Trial]:
    """The trials "fork" and "backtrack"; each is skipped where the layout leaves nothing to try."""
    slots = min(tried.sampler.max_rows, MOST_SLOTS)
    if slots == 1:
        yield Trial("fork", "skipped", "max_rows is 1: each choice of a request gets an instance of its own")
    else:
        yield attempt("fork", lambda: _twice(tried, seed, slots, _together))
    if tried.sampler.max_backtrack == 0:
        yield Trial("backtrack", "skipped", "max_backtrack is 0: this sampler takes nothing back")
    else:
        yield attempt("backtrack", lambda: _twice(tried, seed, slots, _to_and_fro))


def _twice(tried: Rows, seed: int, slots: int, course: Callable[[Rows, SamplerSession, int, int], Events]) -> str:
    courses = []
    for _ in range(2):
        with tried.session(SamplingParams(seed=seed), [1, 2, 3], range(slots)) as session:
            courses.append(course(tried, session, seed, slots))
    for at, (one, other) in enumerate(zip(*courses, strict=False)):
        if one != other:
            problem = f"expected slot {one[0]} to answer {shown(one[1])} again, got {shown(other[1])} at answer {at}"
            raise TrialFailedError(f"{problem} (clause 1.8)")
    taken = sum(decision.backtrack for _, decision in courses[0])
    return f"{slots} slots, {len(courses[0])} answers, {taken} ids taken back by the guest, twice alike"


def _together(tried: Rows, session: SamplerSession, seed: int, slots: int) -> Events:
    """All slots step together, then some of them, in changing order, and one after another ends."""
    events: Events = []
    live = list(range(slots))
    for step in range(STEPS):
        numbers = np.random.default_rng((seed, step))
        chosen = live if step == 0 else numbers.permutation(live)[: int(numbers.integers(1, len(live) + 1))].tolist()
        found = tried.step(session, {slot: random_logits(numbers, tried.size) for slot in chosen})
        if not found:
            break
        for slot, decision in found.items():
            events.append((slot, decision))
            session.accept(slot, decision.tokens, decision.backtrack)
            if decision.stop or (step % 4 == 3 and slot == max(live) and len(live) > 1):
                session.close_slot(slot)
                live.remove(slot)
        if not live:
            break
    return events


def _to_and_fro(tried: Rows, session: SamplerSession, seed: int, slots: int) -> Events:
    """Slot 0 goes on as the guest says, and now and then the host takes ids back by itself."""
    events: Events = []
    generated = settled = 0
    for step in range(STEPS):
        numbers = np.random.default_rng((seed, slots, step))
        found = tried.step(session, {0: random_logits(numbers, tried.size)})
        if not found or found[0].stop:
            break
        decision = found[0]
        events.append((0, decision))
        session.accept(0, decision.tokens, decision.backtrack)
        generated += len(decision.tokens) - decision.backtrack
        settled = max(settled, generated - tried.sampler.max_backtrack)
        back = int(numbers.integers(0, 1 + generated - settled))
        session.accept(0, (), back)
        generated -= back
    return events
