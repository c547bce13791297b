"""What `bench` measures: kinds of work, each with its name and a way to do it once.

Rules (clause 6.7 of host/README.md)
* Prompts are random ids, new ones each time, so that nothing computed before can help.
* Prefill: ids of the prompt / seconds from handing it over to its first token.
* Decode: tokens after the first / seconds from the first to the last, one sequence, greedy, end tokens ignored.
* A crowd: the tokens of all its sequences while every one of them decodes / the seconds of that.

Example:
    Decode(depth=16, tokens=128).run(model, random.Random(1))
"""

from __future__ import annotations

import queue
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..errors import InternalError

if TYPE_CHECKING:
    import random

    from ..engine.request import Event
    from ..serving.served import ServedModel

SHORT_PROMPT = 16
"""Ids before what is decoded, where no depth is asked for."""


class Workload(Protocol):
    """One kind of work."""

    @property
    def name(self) -> str:
        """In facts and tables: words joined by underscores."""

    @property
    def ids(self) -> int:
        """Most ids of one sequence, prompt and answer together."""

    def run(self, model: ServedModel, numbers: random.Random) -> float:
        """Does it once; tokens per second."""


@dataclass(frozen=True, slots=True, order=True)
class Prefill:
    """A prompt of so many ids."""

    length: int

    @property
    def name(self) -> str:
        """In facts and tables."""
        return f"prefill_{self.length}"

    @property
    def ids(self) -> int:
        """Most ids of one sequence."""
        return self.length + 1

    def run(self, model: ServedModel, numbers: random.Random) -> float:
        """Ids per second up to the first token."""
        (times,) = seconds_to_tokens(model, numbers, prompt=self.length, tokens=1)
        return self.length / times[0]


@dataclass(frozen=True, slots=True, order=True)
class Decode:
    """Tokens one after another, the first of them after `depth` ids."""

    depth: int
    tokens: int

    @property
    def name(self) -> str:
        """In facts and tables."""
        return "decode" if self.depth == SHORT_PROMPT else f"decode_depth_{self.depth}"

    @property
    def ids(self) -> int:
        """Most ids of one sequence."""
        return self.depth + self.tokens

    def run(self, model: ServedModel, numbers: random.Random) -> float:
        """Tokens per second after the first."""
        (times,) = seconds_to_tokens(model, numbers, prompt=self.depth, tokens=self.tokens)
        return (len(times) - 1) / (times[-1] - times[0])


@dataclass(frozen=True, slots=True, order=True)
class Crowd:
    """So many sequences that decode together."""

    sequences: int
    tokens: int

    @property
    def name(self) -> str:
        """In facts and tables."""
        return f"batch_{self.sequences}"

    @property
    def ids(self) -> int:
        """Most ids of one sequence."""
        return SHORT_PROMPT + self.tokens

    def run(self, model: ServedModel, numbers: random.Random) -> float:
        """Tokens per second of all of them together, while all decode."""
        each = seconds_to_tokens(model, numbers, prompt=SHORT_PROMPT, tokens=self.tokens, sequences=self.sequences)
        began, ended = max(times[0] for times in each), min(times[-1] for times in each)
        if began >= ended:
            problem = f"expected {self.sequences} sequences to decode together, they took turns"
            raise InternalError("bench", problem, "measure fewer at a time or raise --kv-mib")
        return sum(began < moment <= ended for times in each for moment in times) / (ended - began)


def seconds_to_tokens(
    model: ServedModel, numbers: random.Random, *, prompt: int, tokens: int, sequences: int = 1
) -> list[list[float]]:
    """Seconds from handing prompts over to each token, for each sequence.

    Raises:
        SealhostError: a request was refused or failed.
    """
    from ...sandbox import SamplingParams  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from ..engine.request import ErrorEvent, FinishEvent, GenerationRequest, TokenEvent  # noqa: PLC0415

    events: queue.SimpleQueue[tuple[float, Event]] = queue.SimpleQueue()
    moments: dict[str, list[float]] = {}
    began = time.perf_counter()
    try:
        for _ in range(sequences):
            ids = tuple(numbers.randrange(model.vocab_size) for _ in range(prompt))
            request = GenerationRequest(uuid.uuid4().hex, ids, tokens, SamplingParams(temperature=0.0))
            moments[request.id] = []
            model.engine.submit(request, lambda event: events.put((time.perf_counter(), event)))
        running = sequences
        while running:
            moment, event = events.get()
            if isinstance(event, ErrorEvent):
                raise event.error
            if isinstance(event, TokenEvent):
                moments[event.request_id].append(moment - began)
            running -= isinstance(event, FinishEvent)
    finally:
        for request_id in moments:
            model.engine.cancel(request_id)  # ignored when it has ended
    return list(moments.values())
