"""The small endpoints: which models there are, whether the host is well, and the tokenizer by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import prompts
from .access import MAY_ASK
from .refusal import INVALID_VALUE, http_refusal
from .schema import DetokenizeRequest, TokenizeRequest, read
from .served import Phase

if TYPE_CHECKING:
    from .exchange import Exchange
    from .served import ServedModel
    from .service import Service


MAX_TOKENS = 1 << 18
"""Token ids that are spelled at a time: more than a context has, and at 48 bytes each no more than a body."""


class Models:
    """GET /v1/models."""

    def __init__(self, service: Service) -> None:
        self._registry = service.registry

    async def __call__(self, exchange: Exchange) -> None:
        """Lists the models."""
        self._registry.require_ready()
        await exchange.answer({"object": "list", "data": [_described(model) for model in self._registry.models]})


class Model:
    """GET /v1/models/{id}."""

    def __init__(self, service: Service) -> None:
        self._registry = service.registry

    async def __call__(self, exchange: Exchange) -> None:
        """Describes one model."""
        await exchange.answer(_described(self._registry.find(exchange.scope["path_params"]["id"])))


class Tokenize:
    """POST /tokenize: a text's ids, encoded in the sandbox."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, exchange: Exchange) -> None:
        """Answers {"tokens": […]}."""
        self._service.registry.require_ready()
        request = read(TokenizeRequest, await exchange.body())
        special = {"add_special": bool(request.add_special), "parse_special": bool(request.parse_special)}
        with self._service.registry.hold(request.model) as model:
            work = self._service.work(model, model.tokenizer.encode, request.content, **special)
            tokens = await exchange.while_connected(work)
        await exchange.answer({"tokens": tokens})


class Detokenize:
    """POST /detokenize: the text of ids, from the host's own table."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, exchange: Exchange) -> None:
        """Answers {"content": …}."""
        self._service.registry.require_ready()
        request = read(DetokenizeRequest, await exchange.body())
        if len(request.tokens) > MAX_TOKENS:
            problem = f"expected at most {MAX_TOKENS} token ids, got {len(request.tokens)}"
            raise http_refusal(400, problem, "send fewer", param="tokens", code=INVALID_VALUE)
        with self._service.registry.hold(request.model) as model:
            work = self._service.work(model, prompts.spelled, model, request.tokens, "tokens")
            content = await exchange.while_connected(work)
        await exchange.answer({"content": content})


class Alive:
    """GET /livez: the process answers."""

    async def __call__(self, exchange: Exchange) -> None:
        """Answers 200, always."""
        await exchange.answer({"status": "ok"})


class Ready:
    """GET /readyz: every model has made its first token, runs, and new requests are taken."""

    def __init__(self, service: Service) -> None:
        self._registry = service.registry

    async def __call__(self, exchange: Exchange) -> None:
        """Answers 200, to who may ask for more with each engine's load, or 503."""
        if self._registry.phase is not Phase.READY:
            problem = f"expected a ready host, got one that is {self._registry.phase}"
            raise http_refusal(503, problem, "ask again soon", code=self._registry.phase)
        if failed := self._registry.failed:
            problem = f"expected every engine to run, {len(failed)} of {len(self._registry.models)} ended by a fault"
            raise http_refusal(503, problem, "swap the model, or restart the host", code="engine_failed")
        if not exchange.scope.get(MAY_ASK, False):
            await exchange.answer({"status": "ready"})
            return
        models = {model.name: model.engine.stats()._asdict() for model in self._registry.models}
        await exchange.answer({"status": "ready", "models": models})


def _described(model: ServedModel) -> dict[str, Any]:
    samplers = list(model.samplers) if model.fixed_sampler is None else [model.fixed_sampler.name]
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "sealhost",
        "max_model_len": model.context,  # vLLM's word, by which front ends find out how much fits
        "sealhost": {"digest": model.digest, "context": model.context, "samplers": samplers},
    }
