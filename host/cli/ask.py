"""`run` and `chat`: answers on the terminal, streamed.

Rules
* The prompt goes through the same template, tokenizer and sampler as a request over HTTP.
* The answer alone goes to standard output.
"""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..errors import RequestError, UsageError
from .opening import opened_bundle
from .options import DEFAULTS, EngineOptions, Keys, StateFolder
from .recording import new_recording, record_next
from .terminal import note, show, watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..serving.served import ServedModel

CHAT_TEMPERATURE = 0.7
"""A conversation that always says the same thing is a dull one."""

EXIT, CLEAR = "/exit", "/clear"
"""What ends a conversation, and what begins it anew."""

Prompt = Annotated[str, Parameter(allow_leading_hyphen=True)]
Raw = Annotated[bool, Parameter(negative="")]


def run(  # noqa: PLR0913 — one parameter for each option of the command line
    bundle: Path,
    prompt: Prompt,
    /,
    *,
    raw: Raw = False,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    seed: int | None = None,
    sampler: str | None = None,
    sampler_config: str | None = None,
    record: Path | None = None,
    keys: Keys = None,
    state: StateFolder = None,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Answer one prompt on the terminal.

    Args:
        bundle: The bundle's directory.
        prompt: What to answer; "-" reads it from standard input.
        raw: Continue the prompt as it is, without the chat template.
        system: What the model is told before the prompt.
        max_tokens: Most tokens of the answer. [default: what the context leaves]
        temperature: 0 always takes the likeliest token.
        seed: Repeats an answer with a temperature above 0.
        sampler: Name of the bundle's sampler to use. [default: its first]
        sampler_config: The sampler's configuration, a JSON object.
        record: File to make: all that the sampler saw and decided, for `plugin replay`.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        engine: How the model runs.
    """
    text = _valid(sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if prompt == "-" else prompt)
    with new_recording(record) as file, opened_bundle(bundle, keys, state, engine) as (_, opened):
        model = opened.served
        asking = Asking(
            max_tokens=max_tokens, temperature=temperature, seed=seed, sampler=sampler, sampler_config=sampler_config
        )
        if file is not None:
            record_next(model.samplers, sampler, file)
        conversation = [*_told(system), {"role": "user", "content": text}]
        asking.answer(model, asking.raw_ids(model, text) if raw else asking.chat_ids(model, conversation))


def chat(  # noqa: PLR0913 — see run
    bundle: Path,
    /,
    *,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float = CHAT_TEMPERATURE,
    seed: int | None = None,
    sampler: str | None = None,
    sampler_config: str | None = None,
    keys: Keys = None,
    state: StateFolder = None,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Talk with a model; /clear forgets what was said, /exit, Ctrl-D or Ctrl-C ends it.

    Args:
        bundle: The bundle's directory.
        system: What the model is told before the conversation.
        max_tokens: Most tokens of each answer. [default: what the context leaves]
        temperature: 0 always takes the likeliest token.
        seed: Repeats a conversation.
        sampler: Name of the bundle's sampler to use. [default: its first]
        sampler_config: The sampler's configuration, a JSON object.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        engine: How the model runs.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 — editing and history for input()
    with opened_bundle(bundle, keys, state, engine) as (_, opened):
        model = opened.served
        asking = Asking(
            max_tokens=max_tokens, temperature=temperature, seed=seed, sampler=sampler, sampler_config=sampler_config
        )
        messages = _told(system)
        note(f"{model.name} is ready; /clear forgets the conversation, /exit or Ctrl-D ends it")
        while (text := _next_line()) is not None:
            if text == CLEAR:
                messages = _told(system)
                continue
            messages.append({"role": "user", "content": _valid(text)})
            try:
                answer = asking.answer(model, asking.chat_ids(model, messages))
            except RequestError as error:  # the conversation may have become too long; that need not end it
                messages.pop()
                note(f"{error}; {CLEAR} starts anew")
                continue
            messages.append({"role": "assistant", "content": answer})


class Asking:
    """How answers are made, for one run of a verb."""

    def __init__(
        self,
        *,
        max_tokens: int | None,
        temperature: float,
        seed: int | None,
        sampler: str | None = None,
        sampler_config: str | None = None,
    ) -> None:
        self._fields = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "seed": seed,
            "sampler": sampler,
            "sampler_config": None if sampler_config is None else _json_object(sampler_config),
        }
        self.tokens_per_s = 0.0
        self.first_token_s = 0.0

    def chat_ids(self, model: ServedModel, messages: Sequence[dict[str, str]]) -> tuple[int, ...]:
        """The ids of a conversation."""
        from ..serving.prompts import chat_prompt  # noqa: PLC0415 — see opening

        return chat_prompt(model, messages)

    def raw_ids(self, model: ServedModel, text: str) -> tuple[int, ...]:
        """The ids of a text as it is."""
        from ..serving.prompts import completion_prompts  # noqa: PLC0415 — see opening

        return completion_prompts(model, text, add_special=True, parse_special=False)[0]

    def answer(self, model: ServedModel, ids: tuple[int, ...]) -> str:
        """Streams one answer to standard output; a Ctrl-C ends it early and passes on."""
        from ..engine.request import GenerationRequest  # noqa: PLC0415 — see opening
        from ..serving import direct, options, prompts, schema  # noqa: PLC0415 — see opening

        chosen = options.chat_options(schema.read(schema.ChatRequest, {**self._fields, "messages": []}), model)
        request = GenerationRequest(
            id=uuid.uuid4().hex,
            prompt_ids=ids,
            max_tokens=prompts.answer_room(model, ids, chosen.max_tokens, "prompt"),
            params=chosen.params,
            stop_ids=chosen.stop_ids,
            sampler=chosen.sampler,
            sampler_config=chosen.sampler_config,
        )
        texts: list[str] = []
        times = [time.perf_counter()]
        for event in direct.answer(model.engine, request):
            show(event.text)
            texts.append(event.text)
            times.append(time.perf_counter())
        show("\n")
        self._measure(times)
        return "".join(texts)

    def _measure(self, times: Sequence[float]) -> None:
        self.first_token_s = times[1] - times[0]
        if len(times) > 3:
            self.tokens_per_s = (len(times) - 3) / (times[-2] - times[1])  # between the first token and the last
        if watched() and self.tokens_per_s:
            note(f"[{len(times) - 2} tokens, first after {self.first_token_s:.2f} s, then {self.tokens_per_s:.0f}/s]")


def _told(system: str | None) -> list[dict[str, str]]:
    return [{"role": "system", "content": _valid(system)}] if system else []


def _next_line() -> str | None:
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return None
        text = text.strip()
        if text == EXIT:
            return None
        if text:
            return text


def _json_object(text: str) -> dict[str, Any]:
    from ..serving.strict_json import parse_object  # noqa: PLC0415 — see opening

    try:
        return parse_object(text.encode("utf-8", "surrogateescape"))
    except RequestError as error:
        raise UsageError("sampler_config", error.problem, "give one JSON object in UTF-8") from None


def _valid(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "prompt", "expected UTF-8, got other bytes", "check your terminal's or file's encoding"
        ) from None
    return text
