"""What is checked before a request is taken; a pure function of the request and the model.

Rules
* A request that can never run is refused here, with the field at fault and both numbers (clauses 2.4, 2.13).
* A sampler that holds less than the context bounds its requests like one (clause 2.13).
* Ids are checked before anything gathers rows by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Refused
from .request import MAX_LOGPROBS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..weights.loaded import Sampler
    from .request import GenerationRequest


def check(request: GenerationRequest, *, context: int, vocab: int, samplers: Mapping[str, Sampler]) -> None:
    """Refuses a request that can never run.

    Args:
        request: The request.
        context: Most tokens of one sequence, prompt and answer together.
        vocab: Ids are below this.
        samplers: Those that are loaded, the default first.

    Raises:
        Refused: with the HTTP status 400 and the field at fault.
    """
    _check_prompt(request.prompt_ids, context, vocab)
    if request.max_tokens < 1:
        raise _bad("max_tokens", f"expected at least 1, got {request.max_tokens}")
    if request.logprobs is not None and not 0 <= request.logprobs <= MAX_LOGPROBS:
        raise _bad("logprobs", f"expected 0 to {MAX_LOGPROBS}, got {request.logprobs}")
    if "" in request.stop:
        raise _bad("stop", "expected texts of at least one character, got an empty one")
    _check_ids("stop_token_ids", request.stop_ids, vocab)
    if request.group is not None and not 0 <= request.choice < request.group.size:
        raise _bad("n", f"expected a choice from 0 to {request.group.size - 1}, got {request.choice}")
    if request.sampler is not None and request.sampler not in samplers:
        raise _bad("sampler", f"expected one of: {', '.join(samplers)}; got {request.sampler}")
    name = request.sampler or next(iter(samplers))
    holds = samplers[name].history_capacity
    if len(request.prompt_ids) >= holds:
        raise _too_long(f"a prompt below the {holds} tokens that sampler {name} holds", len(request.prompt_ids))


def _check_prompt(ids: tuple[int, ...], context: int, vocab: int) -> None:
    if not ids:
        raise _bad("prompt", "expected at least 1 token, got an empty prompt")
    if len(ids) >= context:
        raise _too_long(f"a prompt below the context of {context} tokens", len(ids))
    _check_ids("prompt", ids, vocab)


def _check_ids(param: str, ids: Collection[int], vocab: int) -> None:
    if ids and not (min(ids) >= 0 and max(ids) < vocab):
        wrong = next(one for one in ids if not 0 <= one < vocab)
        raise _bad(param, f"expected token ids from 0 to {vocab - 1}, got {wrong}")


def _too_long(expected: str, tokens: int) -> Refused:
    problem = f"expected {expected}, got {tokens} tokens"
    return Refused(problem, "shorten the prompt", param="prompt", reason="context_length_exceeded")


def _bad(param: str, problem: str) -> Refused:
    return Refused(problem, "correct the request", param=param, reason="invalid_value")
