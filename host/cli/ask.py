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
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 — cyclopts reads annotations at run time
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

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

EXIT, CLEAR, HELP = "/exit", "/clear", "/help"
"""What ends a conversation, what begins it anew, and what says so."""

COMMANDS = f"{CLEAR} forgets the conversation, {EXIT} or Ctrl-D ends it"

_ANSWERS = Group("How it answers", sort_key=1)

Prompt = Annotated[str, Parameter(allow_leading_hyphen=True)]
Raw = Annotated[bool, Parameter(negative="")]
Temperature = Annotated[float, Parameter(group=_ANSWERS)]


@Parameter(name="*", group=_ANSWERS)
@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What an answer is like, apart from its temperature, whose default differs.

    Attributes:
        system: System message, which comes first in the conversation.
        max_tokens: Most tokens of an answer. [default: what the context leaves]
        seed: Seed of the sampling: the same seed and prompt give the same answer.
        sampler: Sampler of the bundle to use. [default: its first]
        sampler_config: The sampler's configuration, a JSON object.
    """

    system: str | None = None
    max_tokens: int | None = None
    seed: int | None = None
    sampler: str | None = None
    sampler_config: str | None = None


ANSWER_DEFAULTS = AnswerOptions()
"""What the verbs take when nothing is said."""


def run(  # noqa: PLR0913 — one parameter for each option of the command line
    bundle: Path,
    prompt: Prompt,
    /,
    *,
    raw: Raw = False,
    record: Path | None = None,
    keys: Keys = None,
    state: StateFolder = None,
    temperature: Temperature = 0.0,
    answer: AnswerOptions = ANSWER_DEFAULTS,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Answer one prompt on the terminal.

    Args:
        bundle: The bundle's directory.
        prompt: What to answer; "-" reads it from standard input.
        raw: Continue the prompt as it is, without the chat template.
        record: File to write what the sampler saw and decided to, for `plugin replay`.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        temperature: Sampling temperature; 0 always takes the likeliest token.
        answer: What the answer is like.
        engine: How the model runs.
    """
    text = _valid(sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if prompt == "-" else prompt)
    with new_recording(record) as file, opened_bundle(bundle, keys, state, engine) as (_, opened):
        asking = Asking(opened.served, answer, temperature)
        if file is not None:
            record_next(opened.served.samplers, answer.sampler, file)
        conversation = [*_told(answer.system), {"role": "user", "content": text}]
        asking.answer(asking.raw_ids(text) if raw else asking.chat_ids(conversation))


def chat(
    bundle: Path,
    /,
    *,
    keys: Keys = None,
    state: StateFolder = None,
    temperature: Temperature = CHAT_TEMPERATURE,
    answer: AnswerOptions = ANSWER_DEFAULTS,
    engine: EngineOptions = DEFAULTS,
) -> None:
    """Talk with a model; /clear forgets what was said, /exit, Ctrl-D or Ctrl-C ends it.

    Args:
        bundle: The bundle's directory.
        keys: Folder with the trusted *.pub files; without it your own trust store.
        state: Folder that remembers accepted versions; without it your own.
        temperature: Sampling temperature; 0 always takes the likeliest token.
        answer: What the answers are like.
        engine: How the model runs.
    """
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 — editing and history for input()
    with opened_bundle(bundle, keys, state, engine) as (_, opened):
        asking = Asking(opened.served, answer, temperature)
        messages = _told(answer.system)
        note(f"{opened.served.name} is ready; {COMMANDS}")
        while (text := _next_line()) is not None:
            if text == HELP:
                note(COMMANDS)
                continue
            if text == CLEAR:
                messages = _told(answer.system)
                continue
            messages.append({"role": "user", "content": _valid(text)})
            try:
                said = asking.answer(asking.chat_ids(messages))
            except RequestError as error:  # the conversation may have become too long; that need not end it
                messages.pop()
                note(f"{error}; {CLEAR} starts anew")
                continue
            messages.append({"role": "assistant", "content": said})


class Asking:
    """How answers are made, for one run of a verb.

    Args:
        model: Who answers.
        answer: What the answers are like.
        temperature: Of every one.

    Raises:
        UsageError: an option is out of range, or names what the model has not.
    """

    def __init__(self, model: ServedModel, answer: AnswerOptions, temperature: float) -> None:
        from ..serving import options, schema  # noqa: PLC0415 — see opening

        fields = {name: getattr(answer, name) for name in ("max_tokens", "seed", "sampler")}
        if answer.sampler_config is not None:
            fields["sampler_config"] = _json_object(answer.sampler_config)
        try:
            request = schema.read(schema.ChatRequest, {**fields, "temperature": temperature, "messages": []})
            self._options = options.chat_options(request, model)
        except RequestError as error:  # the same words, about an option
            option, dot, member = (error.param or "options").partition(".")
            where = f"--{option.replace('_', '-')}{dot}{member}"
            raise UsageError(where, error.problem, error.remedy) from None
        self._model = model
        self.tokens_per_s = 0.0
        self.first_token_s = 0.0

    def chat_ids(self, messages: Sequence[dict[str, str]]) -> tuple[int, ...]:
        """The ids of a conversation."""
        from ..serving.prompts import chat_prompt  # noqa: PLC0415 — see opening

        return chat_prompt(self._model, messages)

    def raw_ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text as it is."""
        from ..serving.prompts import completion_prompts  # noqa: PLC0415 — see opening

        return completion_prompts(self._model, text, add_special=True, parse_special=False)[0]

    def answer(self, ids: tuple[int, ...]) -> str:
        """Streams one answer to standard output; a Ctrl-C ends it early and passes on."""
        from ..engine.request import FinishEvent, GenerationRequest  # noqa: PLC0415 — see opening
        from ..serving import direct, prompts  # noqa: PLC0415 — see opening

        chosen = self._options
        request = GenerationRequest(
            id=uuid.uuid4().hex,
            prompt_ids=ids,
            max_tokens=prompts.answer_room(self._model, ids, chosen.max_tokens, "prompt"),
            params=chosen.params,
            stop_ids=chosen.stop_ids,
            sampler=chosen.sampler,
            sampler_config=chosen.sampler_config,
        )
        texts: list[str] = []
        times = [time.perf_counter()]
        cut = False
        for event in direct.answer(self._model.engine, request):
            show(event.text)
            texts.append(event.text)
            times.append(time.perf_counter())
            cut = isinstance(event, FinishEvent) and event.reason == "length"
        show("\n")
        self._measure(times)
        if cut:
            end = "--max-tokens" if request.max_tokens == chosen.max_tokens else "the context, which is now full"
            count = f"{request.max_tokens} token{'s' * (request.max_tokens != 1)}"
            note(f"[cut after {count} by {end}]")
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
        raise UsageError("--sampler-config", error.problem, "give one JSON object in UTF-8") from None


def _valid(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "prompt", "expected UTF-8, got other bytes", "check your terminal's or file's encoding"
        ) from None
    return text
