"""The two endpoints that generate: POST /v1/chat/completions and POST /v1/completions.

Rules
* Everything that can be refused is refused before anything is sent; the head of a stream goes out with its first event.
* Each choice is a request of its own to the engine; those of one prompt say that they belong together (clause 5.1).
* From reading the body on, the client's going away stops the work.
* The body is let go before an answer begins: while it runs, nothing of it is held but the prompt's ids.
* A request holds its model from looking it up to its last word: a swap changes nothing for it (clause 7.4).

Example:
    Route("/v1/chat/completions", Endpoint(Chat(service)), methods=["POST"])
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..engine.request import ChoiceGroup, GenerationRequest
from . import prompts
from .chat import ChatReply
from .completions import CompletionReply
from .exchange import event
from .generation import Generation
from .options import chat_options, completion_options
from .refusal import INVALID_VALUE, http_refusal
from .response_format import field_to_try, try_config, with_format
from .schema import UNSUPPORTED_PARAMETER, ChatRequest, CompletionRequest, read
from .telemetry import Stopwatch
from .template_variables import template_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .exchange import Exchange
    from .options import Options
    from .reply import Reply
    from .schema import Generate
    from .served import ServedModel
    from .service import Service


class _Job(NamedTuple):
    """A request that is ready for the engine."""

    model: ServedModel
    requests: list[GenerationRequest]
    reply: Reply
    stream: bool
    usage: bool


MAX_LOGPROB_ENTRIES = 1 << 22
"""Log-probabilities in one answer, of 60 bytes each: 20 for each of 128k tokens and some to spare."""


Request = TypeVar("Request", ChatRequest, CompletionRequest)


class _Generates(ABC, Generic[Request]):
    """What both endpoints do with a request, whatever its body is like."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, exchange: Exchange) -> None:
        """Answers one request."""
        self._service.registry.require_ready()
        await exchange.while_connected(self._answer(exchange, self._read(await exchange.body())))

    async def _answer(self, exchange: Exchange, request: Request) -> None:
        with self._service.registry.hold(request.model) as model:
            job = await self._job(model, request)
            del request
            exchange.forget_body()
            await _generate(self._service, exchange, job)

    @abstractmethod
    def _read(self, body: dict[str, Any]) -> Request:
        """A parsed body as this endpoint's request."""

    @abstractmethod
    async def _job(self, model: ServedModel, request: Request) -> _Job:
        """Makes a request ready for the engine."""


class Chat(_Generates[ChatRequest]):
    """POST /v1/chat/completions."""

    def _read(self, body: dict[str, Any]) -> ChatRequest:
        return read(ChatRequest, body)

    async def _job(self, model: ServedModel, request: ChatRequest) -> _Job:
        request = with_format(request, model)
        options = chat_options(request, model)
        ids = await self._service.work(model, _chat_ids, model, request)
        await _try_config(self._service, request, model, options)
        requests = _requests(model, [ids], options, "messages")
        return _job(request, model, requests, ChatReply(model, options))


class Completions(_Generates[CompletionRequest]):
    """POST /v1/completions."""

    def _read(self, body: dict[str, Any]) -> CompletionRequest:
        return read(CompletionRequest, body)

    async def _job(self, model: ServedModel, request: CompletionRequest) -> _Job:
        options = completion_options(request, model)
        if request.echo and request.logprobs is not None:
            problem = "expected it without logprobs, which are not computed for the prompt"
            raise http_refusal(400, problem, "leave one out", param="echo", code=UNSUPPORTED_PARAMETER)
        ids, texts = await self._service.work(model, _encode, model, request)
        await _try_config(self._service, request, model, options)
        requests = _requests(model, ids, options, "prompt")
        return _job(request, model, requests, CompletionReply(model, options, texts, echo=bool(request.echo)))


async def _try_config(service: Service, request: Generate, model: ServedModel, options: Options) -> None:
    if (field := field_to_try(request, model)) is not None:
        await service.work(model, try_config, request, model, options.sampler_config, field)


def _chat_ids(model: ServedModel, request: ChatRequest) -> tuple[int, ...]:
    variables = template_variables(request.chat_template_kwargs)
    return prompts.chat_prompt(model, prompts.chat_messages(request.messages), variables)


def _encode(model: ServedModel, request: CompletionRequest) -> tuple[list[tuple[int, ...]], list[str]]:
    """Ids of all prompts, and their texts where the answer tells them or counts their letters."""
    add_special = request.add_special is not False
    parse_special = request.parse_special is True  # off for a client's text unless it asks for it
    ids = prompts.completion_prompts(model, request.prompt, add_special=add_special, parse_special=parse_special)
    if not request.echo and request.logprobs is None:
        return ids, [""] * len(ids)
    given = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    if isinstance(given[0], str):
        return ids, given
    return ids, [prompts.spelled(model, one, "prompt") for one in ids]


def _requests(
    model: ServedModel, ids: Sequence[tuple[int, ...]], options: Options, param: str
) -> list[GenerationRequest]:
    if (choices := len(ids) * options.choices) > model.room:  # there would never be room, so no 429
        problem = f"expected at most {model.room} choices of all prompts together, got {choices}"
        raise http_refusal(400, problem, "ask for fewer, or send several requests", param="n", code=INVALID_VALUE)
    requests = []
    for prompt in ids:
        room = prompts.answer_room(model, prompt, options.max_tokens, param)
        group = ChoiceGroup(uuid.uuid4().hex, options.choices) if options.choices > 1 else None
        requests += [
            GenerationRequest(
                id=uuid.uuid4().hex,
                prompt_ids=prompt,
                max_tokens=room,
                params=options.params,
                choice=choice,
                stop=options.stop,
                stop_ids=options.stop_ids,
                logprobs=options.logprobs,
                sampler=options.sampler,
                sampler_config=options.sampler_config,
                group=group,
            )
            for choice in range(options.choices)
        ]
    if options.logprobs is not None:
        entries = sum(one.max_tokens for one in requests) * (1 + options.logprobs)
        if entries > MAX_LOGPROB_ENTRIES:
            problem = f"expected at most {MAX_LOGPROB_ENTRIES} log-probabilities in an answer, got up to {entries}"
            remedy = "ask for fewer of them, tokens, choices or prompts"
            raise http_refusal(400, problem, remedy, param="logprobs", code=INVALID_VALUE)
    return requests


def _job(request: Generate, model: ServedModel, requests: list[GenerationRequest], reply: Reply) -> _Job:
    usage = request.stream_options is not None and bool(request.stream_options.include_usage)
    return _Job(model, requests, reply, bool(request.stream), usage)


async def _generate(service: Service, exchange: Exchange, job: _Job) -> None:
    meter = service.telemetry.model(job.model.name)
    generation = Generation(job.model.engine, job.requests, service.unread, Stopwatch(meter, exchange.began))
    with service.running(generation):
        meter.prompt_tokens += sum(len(one.prompt_ids) for one in job.requests if one.choice == 0)
        if job.stream:
            await _stream(exchange, generation, job)
            return
        async for batch in generation.batches():
            for index, one in batch:
                job.reply.add(index, one)
    await exchange.answer(job.reply.body())


async def _stream(exchange: Exchange, generation: Generation, job: _Job) -> None:
    waiting = [event(chunk) for chunk in job.reply.opening()]
    async for batch in generation.batches():
        waiting += [event(chunk) for index, one in batch for chunk in job.reply.chunks(index, one)]
        if waiting:
            await exchange.stream(b"".join(waiting))
            waiting.clear()
    await exchange.finish(event(job.reply.usage_chunk()) if job.usage else b"")
