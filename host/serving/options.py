"""What a client asked of the generation, checked against ranges and joined with the defaults.

Rules
* Every number has a range; outside of it is 400 with the parameter's name.
* Defaults are OpenAI's: temperature 1, top_p 1, one choice, 16 tokens for a completion, no limit for a chat.
* A request without a seed, or with -1, which other servers take for that, gets a random one, which stands in the
  answer, so that any answer can be repeated.
* -1 for the most tokens is no limit, as in llama.cpp.
* `stop` is literal text; null and [] keep the model's own end tokens; an empty text is refused.

Example:
    options = generation_options(request, model)
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...sandbox import SamplingParams, SandboxError
from ..engine.request import MAX_LOGPROBS
from ..errors import RequestError
from .schema import UNSUPPORTED_PARAMETER

if TYPE_CHECKING:
    from .schema import ChatRequest, CompletionRequest, Generate
    from .served import FixedSampler, ServedModel

MAX_CHOICES = 128
"""Choices of one prompt, as in OpenAI's API."""

MAX_STOPS = 16
"""Stop texts: OpenAI's API takes 4, but editors and agents send others more."""

MAX_STOP_CHARACTERS = 1000
"""Letters of one stop text: so much of an answer may have to be held back."""

MAX_BIASES = 1024
"""Entries of logit_bias; one row of a sampler has room for no more."""

MAX_STOP_IDS = 1024
"""Ids in stop_token_ids: as many as a bias may name."""

MAX_COUNT = 2**31 - 1
"""Largest top_k; whatever exceeds the vocabulary means "off"."""

SMALLEST_TOP_P = 1e-9
"""Stands for top_p 0, which OpenAI's API takes: only the likeliest id is left."""

DEFAULT_COMPLETION_TOKENS = 16
"""max_tokens of /v1/completions, as in OpenAI's API."""

RANDOM_SEED_BITS = 53
"""Bits of a seed that we choose: readers that keep JSON numbers as doubles still repeat it exactly."""

RANDOM_SEED = -1
"""Asks for a random seed, in llama.cpp, Ollama and vLLM, too."""

NO_LIMIT = -1
"""As max_tokens: as many as the context leaves, as in llama.cpp."""

_SEED_LOW, _SEED_HIGH = -(2**63), 2**64 - 1

_DEFAULTS = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 100),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "top_k": (-1, MAX_COUNT),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Everything about a generation but its prompt.

    Attributes:
        params: Sampling parameters with the seed.
        max_tokens: Most ids of the answer, None: as many as the context leaves.
        choices: Answers for each prompt.
        stop: Literal stop texts.
        stop_ids: Ids that end the answer.
        logprobs: Alternatives for each token, None: none asked for.
        sampler: Name of the sampler plugin, None: the bundle's first. The operator's, where there is one.
        sampler_config: Its configuration, checked and serialised.
    """

    params: SamplingParams
    max_tokens: int | None
    choices: int
    stop: tuple[str, ...]
    stop_ids: frozenset[int]
    logprobs: int | None
    sampler: str | None
    sampler_config: bytes


def chat_options(request: ChatRequest, model: ServedModel) -> Options:
    """Options of a chat.

    Raises:
        RequestError: 400, a value is out of range.
    """
    both = (request.max_tokens, request.max_completion_tokens)
    if None not in both and both[0] != both[1]:
        raise _wrong("max_tokens", f"the same as max_completion_tokens ({both[1]})", both[0])
    logprobs = None
    if request.top_logprobs is not None:
        _whole("top_logprobs", request.top_logprobs, 0, MAX_LOGPROBS)
        if not request.logprobs:
            raise _wrong("top_logprobs", "logprobs to be true with it", request.logprobs)
    if request.logprobs:
        logprobs = request.top_logprobs or 0
    name, limit = ("max_completion_tokens", both[1]) if both[1] is not None else ("max_tokens", both[0])
    return _options(request, model, _token_limit(name, limit, model), logprobs)


def completion_options(request: CompletionRequest, model: ServedModel) -> Options:
    """Options of a completion.

    Raises:
        RequestError: 400, a value is out of range.
    """
    if request.logprobs is not None:
        _whole("logprobs", request.logprobs, 0, MAX_LOGPROBS)
    limit = (
        DEFAULT_COMPLETION_TOKENS
        if request.max_tokens is None
        else _token_limit("max_tokens", request.max_tokens, model)
    )
    return _options(request, model, limit, request.logprobs)


def _options(request: Generate, model: ServedModel, max_tokens: int | None, logprobs: int | None) -> Options:
    choices = _whole("n", 1 if request.n is None else request.n, 1, MAX_CHOICES)
    sampler, sampler_config = _sampler(request, model)
    if request.stream_options is not None and not request.stream:
        raise _wrong("stream_options", "stream to be true with it", request.stream)
    return Options(
        params=_params(request, model),
        max_tokens=max_tokens,
        choices=choices,
        stop=_stops(request.stop),
        stop_ids=_stop_ids(request, model),
        logprobs=logprobs,
        sampler=sampler,
        sampler_config=sampler_config,
    )


def _sampler(request: Generate, model: ServedModel) -> tuple[str | None, bytes]:
    """Name and configuration of the sampler; no name means the model's first."""
    if (fixed := model.fixed_sampler) is not None:
        if request.sampler not in {None, fixed.name}:
            raise sampler_is_fixed(fixed, "sampler")
        if request.sampler_config is not None:
            raise sampler_is_fixed(fixed, "sampler_config")
        return fixed.name, fixed.config
    if request.sampler is not None and request.sampler not in model.samplers:
        raise _wrong("sampler", f"one of {', '.join(model.samplers)}", request.sampler[:100] or "an empty name")
    sampler = next(iter(model.samplers)) if request.sampler is None else request.sampler
    try:
        return request.sampler, model.samplers[sampler].config_bytes(request.sampler_config)
    except SandboxError as error:
        raise RequestError(error.problem, error.remedy, param=error.where) from None


def sampler_is_fixed(fixed: FixedSampler, param: str) -> RequestError:
    """The refusal of a parameter that would choose another sampler than the operator's."""
    problem = f"expected it to be absent: this server answers every request through the sampler {fixed.name}"
    return RequestError(problem, f"leave {param} out", param=param, reason=UNSUPPORTED_PARAMETER)


def _params(request: Generate, model: ServedModel) -> SamplingParams:
    numbers = {name: _number(request, name) for name in _RANGES}
    return SamplingParams(
        temperature=numbers["temperature"],
        top_k=max(0, int(numbers["top_k"])),  # -1 and 0 both mean "off"
        top_p=max(numbers["top_p"], SMALLEST_TOP_P),
        min_p=numbers["min_p"],
        repetition_penalty=numbers["repetition_penalty"],
        presence_penalty=numbers["presence_penalty"],
        frequency_penalty=numbers["frequency_penalty"],
        logit_bias=_biases(request.logit_bias, model.vocab_size),
        seed=_seed(request.seed),
    )


def _number(request: Generate, name: str) -> float:
    value: float | None = getattr(request, name)
    if value is None:
        return _DEFAULTS.get(name, 0)
    low, high = _RANGES[name]
    if not low <= value <= high:  # false for NaN, too
        raise _wrong(name, f"a number from {low} to {high}", value)
    return value


def _whole(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise _wrong(name, f"a whole number from {low} to {high}", value)
    return value


def _token_limit(name: str, value: int | None, model: ServedModel) -> int | None:
    return None if value in {None, NO_LIMIT} else _whole(name, value, 1, model.context)


def _seed(value: int | None) -> int:
    if value in {None, RANDOM_SEED}:
        return secrets.randbits(RANDOM_SEED_BITS)
    return _whole("seed", value, _SEED_LOW, _SEED_HIGH) % 2**64


def _biases(biases: dict[str, float] | None, vocab_size: int) -> tuple[tuple[int, float], ...]:
    if not biases:
        return ()
    if len(biases) > MAX_BIASES:
        raise _wrong("logit_bias", f"at most {MAX_BIASES} entries", len(biases))
    return tuple((_bias_token(key, vocab_size), _bias_value(value)) for key, value in biases.items())


def _bias_token(key: str, vocab_size: int) -> int:
    # isdecimal alone would take digits of every script, int() blanks and underscores
    # and leading zeros would name an id twice, of which one would win in silence
    if not (key.isascii() and key.isdecimal() and len(key) <= 10 and key == str(int(key)) and int(key) < vocab_size):
        raise _wrong("logit_bias", f"token ids from 0 to {vocab_size - 1} as keys", key)
    return int(key)


def _bias_value(value: float) -> float:
    if not -100 <= value <= 100:
        raise _wrong("logit_bias", "values from -100 to 100", value)
    return value


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(texts) > MAX_STOPS:
        raise _wrong("stop", f"at most {MAX_STOPS} texts", len(texts))
    for text in texts:
        if not 1 <= len(text) <= MAX_STOP_CHARACTERS:
            raise _wrong("stop", f"texts of 1 to {MAX_STOP_CHARACTERS} letters", f"one of {len(text)}")
    return texts


def _stop_ids(request: Generate, model: ServedModel) -> frozenset[int]:
    extra = request.stop_token_ids or []
    if len(extra) > MAX_STOP_IDS:
        raise _wrong("stop_token_ids", f"at most {MAX_STOP_IDS} ids", len(extra))
    for token in extra:
        _whole("stop_token_ids", token, 0, model.vocab_size - 1)
    own = frozenset[int]() if request.ignore_eos else model.stop_ids
    return own | frozenset(extra)


def _wrong(name: str, expected: str, got: object) -> RequestError:
    shown = "null" if got is None else str(got).lower() if isinstance(got, bool) else str(got)[:100]
    return RequestError(f"expected {expected}, got {shown}", "correct the parameter", param=name)
