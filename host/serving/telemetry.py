"""What the data plane counts: how requests ended, tokens, and how long clients waited for them.

Rules
* The data plane's event loop alone writes, so nothing is locked on the way of a token; other threads read snapshots.
* What is counted is keyed by endpoints, outcomes and names of models that are served, never by a client's text
  (clause 7.9).
* `metrics` turns these counts into text.

Example:
    watch = Stopwatch(telemetry.model("smollm2"), began)
    watch(batch)                    # a batch of events has arrived
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from ..engine.request import TokenEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..engine.request import FinishEvent

FIRST_TOKEN_BOUNDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: from a short prompt on a small model to a long one behind a full queue."""

BETWEEN_TOKENS_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds: from a thousand tokens a second to what a reader calls stuck."""


class Outcome(StrEnum):
    """How a request ended."""

    FINISHED = "finished"
    REFUSED = "refused"
    """The client asked for what cannot be had: 4xx but 429."""
    UNAVAILABLE = "unavailable"
    """It should come back later: 429 and 503."""
    FAILED = "failed"
    """Ours or a plugin's fault, also in the middle of a stream."""
    CANCELLED = "cancelled"
    """The client went away."""


def outcome_of(status: int) -> Outcome:
    """The outcome that an error status stands for."""
    if status in {429, 503}:
        return Outcome.UNAVAILABLE
    return Outcome.REFUSED if status < 500 else Outcome.FAILED


class Histogram:
    """Observations in buckets.

    Args:
        bounds: Upper edges, ascending; the last bucket has none.
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Adds one."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """Observations up to each edge, and in all."""
        return list(accumulate(tuple(self._counts)))


class ModelMeter:
    """What was counted under one model's name, whichever version answered."""

    __slots__ = ("between_tokens", "completion_tokens", "first_token", "prompt_tokens")

    def __init__(self) -> None:
        self.prompt_tokens = self.completion_tokens = 0
        self.first_token = Histogram(FIRST_TOKEN_BOUNDS)
        self.between_tokens = Histogram(BETWEEN_TOKENS_BOUNDS)


class Telemetry:
    """All counts of one data plane."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, Outcome]] = Counter()
        self.models: dict[str, ModelMeter] = {}

    def endpoint(self, name: str) -> Callable[[Outcome], None]:
        """Counts the requests of one endpoint; all its outcomes are there from the start, at 0."""
        for outcome in Outcome:
            self.requests[name, outcome] = 0

        def count(outcome: Outcome) -> None:
            self.requests[name, outcome] += 1

        return count

    def model(self, name: str) -> ModelMeter:
        """The meter of a model that is served."""
        if name not in self.models:
            self.models = {**self.models, name: ModelMeter()}  # who reads meanwhile sees the old or the new
        return self.models[name]


class Stopwatch:
    """Times the tokens of one HTTP request as they reach the event loop.

    Args:
        meter: Where its observations go.
        began: When the request arrived, by `time.perf_counter`.
    """

    __slots__ = ("_began", "_last", "_meter")

    def __init__(self, meter: ModelMeter, began: float) -> None:
        self._meter = meter
        self._began = began
        self._last: dict[int, float] = {}

    def __call__(self, batch: Sequence[tuple[int, TokenEvent | FinishEvent]]) -> None:
        """Takes (choice, event) that have arrived together."""
        now = time.perf_counter()
        for choice, event in batch:
            if not isinstance(event, TokenEvent):
                continue
            last = self._last.get(choice)
            if last is None:
                self._meter.first_token.observe(now - self._began)
            else:
                self._meter.between_tokens.observe(now - last)
            self._last[choice] = now
            self._meter.completion_tokens += 1
