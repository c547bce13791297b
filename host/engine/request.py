"""What the engine is asked for, and what it answers, as values that cross threads.

Rules
* A request is immutable and complete: the engine adds no defaults of its own.
* Every request that `submit` takes ends with exactly one FinishEvent or ErrorEvent, unless it is cancelled.
* An id of the answer that ends generation makes no TokenEvent, but counts in `completion_tokens`.

Example:
    request = GenerationRequest("r1", (504, 3575), max_tokens=16, params=SamplingParams(...), stop=("END",))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from ...sandbox import SamplingParams
    from ...signing.errors import SealhostError

MAX_LOGPROBS = 20
"""Most alternatives for each token, as in OpenAI's API."""


class ChoiceGroup(NamedTuple):
    """The choices of one call: requests that are alike in all but `id` and `choice` (clause 2.15).

    Attributes:
        id: Unique among the groups that are running or waiting.
        size: How many choices there are.
    """

    id: str
    size: int


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One choice to generate.

    Attributes:
        id: Unique among the requests that are running or waiting.
        prompt_ids: Token ids of the prompt, at least one.
        max_tokens: Most ids to generate; the engine caps it at what the context leaves.
        params: Sampling parameters, with the seed.
        choice: Index of this choice among the n of one call.
        stop: Literal texts that end the answer; none is empty.
        stop_ids: Ids that end the answer.
        logprobs: Alternatives to report for each token, 0 to MAX_LOGPROBS; None: no log-probabilities at all.
        sampler: Name of the sampler plugin; None: the bundle's first.
        sampler_config: What the sampler's `config_bytes` made of the request's configuration.
        group: The choices that it belongs to, so that they can share a sandbox; None: it stands alone.
    """

    id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    params: SamplingParams
    choice: int = 0
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    sampler: str | None = None
    sampler_config: bytes = b""
    group: ChoiceGroup | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities under the model's own distribution, before penalties and temperature.

    Attributes:
        token: The id that was drawn.
        logprob: Its natural log-probability; LOGPROB_FLOOR where the model gave it none.
        top: The likeliest (id, log-probability), in descending order.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One id stands; `text` is what it makes visible, maybe nothing, maybe text held back before."""

    request_id: str
    token: int
    text: str
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """The answer is complete; `text` is the tail that was held back."""

    request_id: str
    reason: Literal["stop", "length"]
    text: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The request ended with an error; it produced no FinishEvent."""

    request_id: str
    error: SealhostError


Event = TokenEvent | FinishEvent | ErrorEvent


class EngineStats(NamedTuple):
    """A snapshot after the engine's last turn, cheap to make; counts start at zero with the engine.

    Attributes:
        running: Sequences that hold KV blocks.
        waiting: Requests that were taken and hold none.
        kv_free_blocks: Free blocks of the pool.
        kv_total_blocks: All blocks of the pool.
        window_free_blocks: Free blocks of the pool for layers with a window.
        window_total_blocks: All blocks of that pool; 0: the model has no such layers.
        window_most_blocks: Most of them that one sequence holds when it decodes.
        steps: Model steps.
        prompt_tokens: Tokens prefilled, recomputed ones included.
        completion_tokens: Ids drawn, those that a guest took back later among them.
        preemptions: Sequences that gave their blocks back and were recomputed.
        finished: Requests that ended with a FinishEvent.
        failed: Requests that ended with an ErrorEvent.
        cancelled: Requests that were cancelled.
        model_seconds: Time spent in model steps.
        guest_seconds: Time that the loop waited for sampler guests.
        turn_seconds: Time of all turns that did a step; the rest is the loop's own work.
    """

    running: int = 0
    waiting: int = 0
    kv_free_blocks: int = 0
    kv_total_blocks: int = 0
    window_free_blocks: int = 0
    window_total_blocks: int = 0
    window_most_blocks: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    model_seconds: float = 0.0
    guest_seconds: float = 0.0
    turn_seconds: float = 0.0
