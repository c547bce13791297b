"""The models that a data plane answers for, and whether it answers at all yet.

Rules
* A model is published only after it has made a real first token; until then /readyz says 503 (clause 5.6).
* A name that is not served is 404; no other model ever answers in its place.
* A model whose engine has met a fault that it could not go on from stays published, so that its requests are told, and
  the host is not ready.
* A request holds its model from looking it up to its last word, so that a model that was replaced is freed after
  those who use it, and never under them (clause 7.4).

Example:
    registry = Registry()
    registry.publish([served])
    with registry.hold("smollm2") as model: ...
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from .control_text import ControlTexts
from .refusal import http_refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ...sandbox import SamplingParams
    from ..engine.request import EngineStats, Event, GenerationRequest
    from .template import ChatTemplate


class Tokenizer(Protocol):
    """A tokenizer that any worker thread may call."""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of a text; see sandbox.TokenizerPlugin."""


class SamplerTrial(Protocol):
    """What serving itself asks of a sampler's instance, before a request runs."""

    def prepare(self, slots: Sequence[int]) -> None:
        """Lets a guest of the mask tier answer for its first token; see sandbox.SamplerSession."""

    def close(self) -> None:
        """Ends it; idempotent."""


class Sampler(Protocol):
    """A sampler that requests may name; any thread may call it."""

    @property
    def tier(self) -> str:
        """What its guest sees: full, topk:K or mask."""

    def config_bytes(self, config: Mapping[str, Any] | None) -> bytes:
        """Checks a request's configuration; see sandbox.SamplerPlugin."""

    def session(self, params: SamplingParams, prompt_ids: Sequence[int], *, config: bytes = b"") -> SamplerTrial:
        """Starts an instance with one slot; see sandbox.SamplerPlugin."""


class EnginePort(Protocol):
    """What serving needs of an engine; see engine.loop.Engine."""

    def submit(self, request: GenerationRequest, sink: Callable[[Event], None]) -> None:
        """Takes a request, or raises Refused; the sink is called on the engine's thread."""

    def cancel(self, request_id: str) -> None:
        """Ends a request; idempotent."""

    @property
    def is_open(self) -> bool:
        """Whether it takes requests; not after a fault that it could not go on from."""

    def stats(self) -> EngineStats:
        """A snapshot of its counters."""


@dataclass(frozen=True, slots=True)
class FixedSampler:
    """The sampler of every request, whatever clients ask for (clause 5.14).

    Attributes:
        name: One of the model's samplers.
        config: Its configuration, checked and serialised.
    """

    name: str
    config: bytes


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """One loaded model, ready to answer; two that were loaded from one bundle are not the same.

    Attributes:
        name: The bundle's name, the id that clients send.
        digest: Hex SHA-256 of the bundle's manifest.
        created: Seconds since 1970 when it was loaded.
        context: Most tokens of prompt and answer together.
        tokenizer: Its tokenizer plugin.
        token_bytes: The host's own table of every id's bytes.
        visible_bytes: What each id adds to an answer: the same, but nothing for control tokens.
        control_texts: Texts of the ids that stand for control, never for text.
        stop_ids: Ids that end an answer.
        bos: Id of the beginning-of-sequence token, -1 for none.
        eos: Id of the end-of-sequence token, -1 for none.
        add_bos: Whether a prompt starts with BOS.
        add_space_prefix: Whether its tokenizer puts a space before a text.
        template: Its chat template, None when the bundle has none.
        samplers: Its sampler plugins by name, the default first.
        engine: Where its requests run.
        room: Choices that it holds at a time.
        fixed_sampler: The one that the operator has chosen for all requests; None: clients choose.
        longest_token_bytes: Most bytes that one id stands for, at least 1.
        control: Finds `control_texts` in a prompt.
    """

    name: str
    digest: str
    created: int
    context: int
    tokenizer: Tokenizer
    token_bytes: Sequence[bytes]
    visible_bytes: Sequence[bytes]
    control_texts: tuple[str, ...]
    stop_ids: frozenset[int]
    bos: int
    eos: int
    add_bos: bool
    add_space_prefix: bool
    template: ChatTemplate | None
    samplers: Mapping[str, Sampler]
    engine: EnginePort
    room: int
    fixed_sampler: FixedSampler | None = None
    longest_token_bytes: int = field(init=False)
    control: ControlTexts = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest_token_bytes", max(map(len, self.token_bytes), default=0) or 1)
        object.__setattr__(self, "control", ControlTexts(self.control_texts))

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return len(self.token_bytes)

    @property
    def fingerprint(self) -> str:
        """`system_fingerprint` of its answers: which bundle made them."""
        return f"fp_{self.digest[:12]}"


class Phase(StrEnum):
    """Where the host is in its life."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


_UNAVAILABLE = {
    Phase.LOADING: ("expected a loaded model, it is still loading", "try again soon", "loading"),
    Phase.DRAINING: ("the server takes no new requests", "send it to another one", "draining"),
    Phase.STOPPING: ("the server is shutting down", "send it to another one", "shutting_down"),
}
"""What a request is told in each phase but READY: problem, remedy, code."""


class Registry:
    """The models by name, who uses them, and the host's phase; any thread may call it."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}
        self._changed = threading.Condition()
        self._holds: Counter[ServedModel] = Counter()
        self.phase = Phase.LOADING

    def publish(self, models: Sequence[ServedModel]) -> None:
        """Makes warmed-up models available, all at once."""
        with self._changed:
            self._models = {model.name: model for model in models}
            if self.phase is Phase.LOADING:
                self.phase = Phase.READY

    def replace(self, model: ServedModel) -> None:
        """Puts a warmed-up model in the place of the one with its name: from here on new requests get it.

        Who holds the one before keeps it.
        """
        with self._changed:
            self._models = {**self._models, model.name: model}

    def drain(self) -> None:
        """From now on new requests get 503; ignored when the host is stopping.

        Raises:
            RequestError: 503, the host is still loading.
        """
        with self._changed:
            if self.phase is Phase.LOADING:
                self.require_ready()
            if self.phase is Phase.READY:
                self.phase = Phase.DRAINING

    def resume(self) -> None:
        """Takes requests again after `drain`; ignored in any other phase."""
        with self._changed:
            if self.phase is Phase.DRAINING:
                self.phase = Phase.READY

    def stop(self) -> None:
        """From now on new requests get 503, for good."""
        with self._changed:
            self.phase = Phase.STOPPING

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """Every model, in the order of publication."""
        return tuple(self._models.values())

    @property
    def failed(self) -> tuple[ServedModel, ...]:
        """Models whose engine has ended by a fault: they answer nothing until they are swapped."""
        return tuple(model for model in self.models if not model.engine.is_open)

    def require_ready(self) -> None:
        """Raises RequestError (503) unless requests are taken."""
        if (said := _UNAVAILABLE.get(self.phase)) is not None:
            problem, remedy, code = said
            raise http_refusal(503, problem, remedy, code=code)

    def find(self, name: str | None) -> ServedModel:
        """The model of this name; without a name the only one.

        Raises:
            RequestError: 503 while loading, draining or stopping, 404 for an unknown name, 400 for no name among
                several.
        """
        self.require_ready()
        models = self._models  # one snapshot: a swap may come in between
        names = ", ".join(models)
        if name is None:
            if len(models) == 1:
                return next(iter(models.values()))
            raise http_refusal(400, f"expected a model, one of {names}", "name one", param="model")
        if name not in models:
            problem = f"expected one of {names}, got the model {name[:100]!r}"
            raise http_refusal(404, problem, "GET /v1/models lists them", param="model", code="model_not_found")
        return models[name]

    @contextmanager
    def hold(self, name: str | None) -> Iterator[ServedModel]:
        """`find`, and keeps the model from being freed while the block runs."""
        with self._changed:
            model = self.find(name)
            self._holds[model] += 1
        try:
            yield model
        finally:
            with self._changed:
                self._holds[model] -= 1
                if not self._holds[model]:
                    del self._holds[model]
                    self._changed.notify_all()

    def holders(self, model: ServedModel) -> int:
        """Requests that use a model now."""
        with self._changed:
            return self._holds[model]

    def wait_until_free(self, model: ServedModel, given_up: Callable[[], bool]) -> bool:
        """Blocks until nobody uses a model that was replaced; answers False when `given_up` says so, after `wake`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._holds[model] or given_up())
            return not self._holds[model]

    def wake(self) -> None:
        """Has those who wait look again."""
        with self._changed:
            self._changed.notify_all()
