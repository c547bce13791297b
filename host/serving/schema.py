"""The bodies that clients send, as typed values; a wrong type is refused with the parameter's name.

Rules
* A field that would change the answer and is not supported is refused, never ignored (clause 5.2 of host/README.md).
* A field that cannot change the answer (`user`, `metadata`, …) is accepted and ignored.
* An unknown field is refused: a misspelt `temprature` must not pass. If it is another server's name for something that
  is supported here, the refusal gives our name.
* null means absent for every field, as in OpenAI's API.

Source: OpenAI's API reference for /v1/chat/completions and /v1/completions; extensions are named in the README.

Example:
    request = read(ChatRequest, {"model": "smollm2", "messages": [{"role": "user", "content": "hi"}]})
"""

from __future__ import annotations

import difflib
import re
from typing import Any, TypeVar

import msgspec

from ..errors import RequestError

UNKNOWN_PARAMETER = "unknown_parameter"
UNSUPPORTED_PARAMETER = "unsupported_parameter"

_HARMLESS = frozenset(
    (
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("cache_prompt", "request_id", "priority"),
    )
)
"""Known to OpenAI's API, llama.cpp or vLLM, without influence on the tokens of an answer."""

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "moderation": (),
    "suffix": ("",),
    "best_of": (1,),
    "use_beam_search": (False,),
    "min_tokens": (0,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "skip_special_tokens": (True,),
    "include_stop_str_in_output": (False,),
}
"""Known and not served: the values with which they ask for nothing."""

_CALLED_HERE = {
    "repeat_penalty": "repetition_penalty",
    "n_predict": "max_tokens",
    "num_predict": "max_tokens",
    "think": "chat_template_kwargs",
    "enable_thinking": "chat_template_kwargs",
    "format": "response_format",
    "json_schema": "response_format, or the sampler json with a sampler_config",
    "guided_json": "response_format, or the sampler json with a sampler_config",
    "structured_outputs": "response_format, or the sampler json with a sampler_config",
    "guided_grammar": "the sampler json with a sampler_config",
    "grammar": "the sampler json with a sampler_config",
    "guided_regex": "the sampler regex with a sampler_config",
}
"""llama.cpp's, Ollama's and vLLM's names for what is served under others."""

_JSON_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "true, false"}
_LAST_KIND = re.compile(r" \| (?=[^|]*$)|(?<=true), (?=false,)")
_PYTHON_WORD = re.compile(rf"\b({'|'.join(_JSON_WORDS)})\b")

_NEUTRAL_IN_MESSAGE: dict[str, tuple[Any, ...]] = {
    "tool_calls": ([],),
    "tool_call_id": (),
    "function_call": (),
    "audio": (),
    "refusal": ("",),
    "annotations": ([],),
}

_PATH = re.compile(r" - at `\$\.?(?P<path>[^\s`]*)`\Z")
"""At a message's end. Before it may stand a member's name, megabytes of a client's choice. A path holds no blank, so a
try ends where the next could begin, and all of them together are linear in the message."""
_MISSING = re.compile(r"Object missing required field `(?P<name>\w+)`")


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How a stream is told."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Generate(msgspec.Struct, kw_only=True):
    """Fields that chat and completions share."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    sampler: str | None = None
    sampler_config: dict[str, Any] | None = None


class ChatRequest(Generate, kw_only=True):
    """POST /v1/chat/completions; messages are checked one by one by `prompts`."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionRequest(Generate, kw_only=True):
    """POST /v1/completions; `prompt` is text, texts, token ids or lists of them, checked by `prompts`."""

    prompt: str | list[Any]
    logprobs: int | None = None
    echo: bool | None = None
    add_special: bool | None = None
    parse_special: bool | None = None


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """POST /tokenize."""

    content: str
    add_special: bool | None = None
    parse_special: bool | None = None
    model: str | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """POST /detokenize."""

    tokens: list[int]
    model: str | None = None


class Message(msgspec.Struct, kw_only=True):
    """One message of a conversation, before its content is joined."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None


Body = TypeVar("Body", bound=msgspec.Struct)


def read(kind: type[Body], body: dict[str, Any], *, path: str = "") -> Body:
    """Turns a parsed body into `kind`.

    Args:
        kind: The struct that the body must fit.
        body: The parsed object.
        path: Where the object stands in the request, for names in messages, e.g. "messages[0].".

    Raises:
        RequestError: 400, a field is unknown, asks for what is not served, is missing or has a wrong type.
    """
    known = frozenset(kind.__struct_fields__)
    neutral = _NEUTRAL_IN_MESSAGE if kind is Message else _NEUTRAL
    for name in body.keys() - known - (frozenset() if kind is Message else _HARMLESS):
        _refuse_unless_neutral(name, body[name], neutral, path, known)
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise wrong_type(str(error), path) from None


def _refuse_unless_neutral(
    name: str, value: Any, neutral: dict[str, tuple[Any, ...]], path: str, known: frozenset[str]
) -> None:
    if value is None:
        return
    if name not in neutral:
        problem = "expected a parameter that this server knows"
        param = path + name[:100]  # it may be as long as the body
        remedy = f"use {_CALLED_HERE[name]}" if name in _CALLED_HERE else _meant(name[:100], known)
        raise RequestError(problem, remedy, param=param, reason=UNKNOWN_PARAMETER)
    if not any(value is allowed or (type(value) is type(allowed) and value == allowed) for allowed in neutral[name]):
        problem = "expected it to be absent, as this server does not support it"
        raise RequestError(problem, f"leave {name} out", param=path + name, reason=UNSUPPORTED_PARAMETER)


def _meant(name: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return f"did you mean {near[0]}? otherwise leave it out" if near else "check its spelling or leave it out"


def wrong_type(text: str, path: str = "") -> RequestError:
    """The refusal for what msgspec says of a body: lower case, and with the parameter at fault.

    Args:
        text: Its message.
        path: Of the object that was converted, with a dot at its end.
    """
    param: str | None = None
    if place := _PATH.search(text):
        text, param = text[: place.start()], place["path"].replace("[...]", "")
    if missing := _MISSING.match(text):
        param = f"{param}.{missing['name']}" if param else missing["name"]
        return RequestError("expected it, got none", "add it", param=path + param)
    problem = text[:1].lower() + text[1:].replace("`", "")
    problem = _PYTHON_WORD.sub(lambda word: _JSON_WORDS[word[0]], problem)
    problem = _LAST_KIND.sub(" or ", problem).replace(" | ", ", ")
    return RequestError(
        problem, "correct its type, or leave it out", param=path + param if param else path.rstrip(".") or None
    )
