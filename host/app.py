"""The one place where the parts are wired: bundle and trust → verifier → sandbox and backend → model → engine.

Rules
* Everything is verified before anything is parsed: a host takes verified bundles and never a path.
* A model counts as open only after a real first token, made by its own sampler (clause 5.6); one that makes none
  leaves nothing behind.
* Each model can be closed by itself, beside others that go on; what is still open is closed with the host.
* numba and wasmtime are imported when a host is made, not before (clause 6.5).

Example:
    bundle = verify(Path("smollm2"), DirectoryTrust(Path("keys")))
    with Host(EngineConfig()) as host:
        opened = host.open(bundle)
        opened.served.engine.submit(...)
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from ..kernels.errors import KernelError
from ..signing.errors import SealhostError
from .engine.detokenizer import TokenTable
from .engine.loop import Engine
from .engine.request import GenerationRequest, TokenEvent
from .errors import InternalError, UsageError, about_bundle
from .memory import check_fits
from .serving.direct import answer
from .serving.job import PatientTokenizer
from .serving.renderer import Renderer
from .serving.served import FixedSampler, ServedModel
from .serving.template import ChatTemplate
from .weights.loader import load
from .weights.vocabulary import SILENT_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from ..sandbox import OperatorLimits, PluginStats, SamplerPlugin, Sandbox, TokenizerPlugin, Vocabulary
    from ..signing import VerifiedBundle, VerifiedPlugin
    from .config import EngineConfig, SamplerChoice
    from .weights.loaded import LoadedModel, LoadReport


class Guest(Protocol):
    """A plugin that was loaded for one model, and what it did since."""

    @property
    def name(self) -> str:
        """Name in its bundle's manifest."""

    @property
    def sha256(self) -> str:
        """Hex digest of its module."""

    def stats(self) -> PluginStats:
        """A snapshot of its record; any thread may ask."""


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A model that has made its first token.

    Attributes:
        bundle: What was verified; its weights are closed by now.
        loaded: The running model.
        served: The same as the data plane and the command line use it.
        guests: Its plugins with their roles, those of plugin bundles too.
        load_s: Seconds of loading: parsing, repacking, plugins, KV pool.
        first_token_s: Seconds of the warm-up request.
    """

    bundle: VerifiedBundle
    loaded: LoadedModel
    served: ServedModel
    guests: tuple[tuple[str, Guest], ...]
    load_s: float
    first_token_s: float
    _resources: ExitStack = field(repr=False)

    def close(self) -> None:
        """Ends its engine, requests that still run with an error, and frees its memory; idempotent."""
        self._resources.close()

    @property
    def verify_s(self) -> float:
        """Seconds of verifying: signatures, small files, and the threads' time of hashing weights during the load."""
        weights = self.bundle.weights
        return self.bundle.report.seconds + (0.0 if weights is None else weights.seconds)

    @property
    def open_s(self) -> float:
        """Seconds from the first look at the signature to a loaded model, all verified."""
        return self.bundle.report.seconds + self.load_s

    @property
    def report(self) -> LoadReport:
        """Where the load's time and memory went."""
        return self.loaded.report


class Host:
    """A process's sandbox and backend, and the models that were opened on them.

    Args:
        config: Settings of every model and engine.
        limits: What the operator allows plugins; None: the sandbox's defaults.
        announce: Told in words what takes long.
        sampler: The one that every request goes through; None: clients choose.

    Raises:
        HostError: the backend cannot run here.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        limits: OperatorLimits | None = None,
        announce: Callable[[str], None] | None = None,
        sampler: SamplerChoice | None = None,
    ) -> None:
        from ..kernels.cpu import CpuBackend  # noqa: PLC0415 — brings numba (clause 6.5)
        from ..sandbox import Sandbox  # noqa: PLC0415 — brings wasmtime

        self.config = config
        try:
            self.backend = CpuBackend(kv_type=config.kv_type, progress=announce)
        except KernelError as error:
            raise UsageError("backend", str(error), "see kernels/README.md for what it needs") from error
        self._open: list[Opened] = []
        self._sandbox = Sandbox(limits)
        self._sampler = sampler

    def open(
        self,
        bundle: VerifiedBundle,
        *,
        plugins: Sequence[VerifiedBundle] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> Opened:
        """Loads a model bundle, starts its engine and makes a first token.

        Args:
            bundle: What was verified; its weights are closed when this returns or raises.
            plugins: Verified plugin bundles whose samplers requests may name, too.
            progress: Told of the bytes loaded and in all.

        Raises:
            SealhostError: anything on the way was refused.
        """
        began = time.perf_counter()
        shelf = _Shelf(self._sandbox)
        with ExitStack() as stack:
            if bundle.weights is not None:
                stack.callback(bundle.weights.close)
                remedy = "free some, or take a smaller model"
                check_fits(bundle.weights.size, beside="what runs on this machine", remedy=remedy)
            renderer = _renderer(bundle.template, stack)  # it parses while the weights are loaded
            loaded = load(bundle, shelf, self.backend, self.config, progress=progress)
            stack.callback(loaded.close)
            loaded = _with_samplers(loaded, plugins, shelf)
            fixed = None if self._sampler is None else _fixed_sampler(loaded, self._sampler)
            engine = Engine(loaded, self.config)
            engine.start()
            stack.callback(engine.close)
            renderer = renderer or _renderer(loaded.template, stack)
            served = _served(loaded, engine, renderer, fixed, room=self.config.room)
            ready = time.perf_counter()
            _first_token(served)
            resources = stack.pop_all()
        opened = Opened(
            bundle=bundle,
            loaded=loaded,
            served=served,
            guests=tuple(shelf.guests),
            load_s=ready - began,
            first_token_s=time.perf_counter() - ready,
            _resources=resources,
        )
        self._open.append(opened)
        resources.callback(self._open.remove, opened)
        return opened

    def close(self) -> None:
        """Ends all engines, frees all models and stops the sandbox; idempotent."""
        while self._open:
            self._open[-1].close()
        self._sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Shelf:
    """The sandbox, and which plugins of it belong to one model."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.limits = sandbox.limits
        self.guests: list[tuple[str, Guest]] = []

    def load_tokenizer(self, plugin: VerifiedPlugin, vocabulary: Vocabulary) -> TokenizerPlugin:
        """As the sandbox does."""
        tokenizer = self._sandbox.load_tokenizer(plugin, vocabulary)
        self.guests.append(("tokenizer", tokenizer))
        return tokenizer

    def load_sampler(self, plugin: VerifiedPlugin, vocab_size: int, vocabulary: Vocabulary) -> SamplerPlugin:
        """As the sandbox does."""
        sampler = self._sandbox.load_sampler(plugin, vocab_size, vocabulary)
        self.guests.append(("sampler", sampler))
        return sampler


def _with_samplers(loaded: LoadedModel, bundles: Sequence[VerifiedBundle], shelf: _Shelf) -> LoadedModel:
    samplers = dict(loaded.samplers)
    for bundle in bundles:
        for plugin in bundle.plugins:
            if plugin.role != "sampler":
                continue  # a tokenizer belongs to one vocabulary, so it comes with its model
            if plugin.name in samplers:
                whose = "the model's own" if plugin.name in loaded.samplers else "another plugin bundle's"
                problem = f"expected samplers of distinct names, got two called {plugin.name}, of which one is {whose}"
                raise UsageError(bundle.manifest.name, problem, f"pack the plugin bundle without {plugin.name}")
            with about_bundle(bundle.root):
                samplers[plugin.name] = shelf.load_sampler(plugin, loaded.spec.vocab, loaded.vocabulary)
    return dataclasses.replace(loaded, samplers=samplers)


def _renderer(source: str | None, stack: ExitStack) -> Renderer | None:
    if source is None:
        return None
    renderer = Renderer(source)
    stack.callback(renderer.close)
    renderer.start()
    return renderer


def _fixed_sampler(loaded: LoadedModel, choice: SamplerChoice) -> FixedSampler:
    """What the operator has chosen, as this model has it.

    Raises:
        UsageError: it has none of that name, or one that takes no such configuration.
    """
    if choice.name not in loaded.samplers:
        problem = f"expected one of {', '.join(loaded.samplers)} for {loaded.name}, got {choice.name}"
        raise UsageError("--sampler", problem, "pack the model with it, or give a --plugin bundle that has it")
    try:
        return FixedSampler(choice.name, loaded.samplers[choice.name].config_bytes(choice.config))
    except SealhostError as error:
        problem = f"expected a configuration for {choice.name}: {error.where}: {error.problem}"
        raise UsageError("--sampler-config-file", problem, error.remedy) from None


def _served(
    loaded: LoadedModel, engine: Engine, renderer: Renderer | None, fixed: FixedSampler | None, *, room: int
) -> ServedModel:
    words = loaded.vocabulary
    template = None
    if renderer is not None:
        renderer.check()
        template = ChatTemplate(renderer, bos=_text(words, words.bos), eos=_text(words, words.eos))
    silent = [token for token, kind in enumerate(words.types.tolist()) if kind in SILENT_TYPES]
    return ServedModel(
        name=loaded.name,
        digest=loaded.digest,
        created=int(time.time()),
        context=engine.context,
        tokenizer=PatientTokenizer(loaded.tokenizer),
        token_bytes=words.token_bytes,
        visible_bytes=TokenTable(words).spelled,
        control_texts=tuple(_text(words, token) for token in silent),
        stop_ids=loaded.end_ids,
        bos=words.bos,
        eos=words.eos,
        add_bos=words.add_bos,
        add_space_prefix=words.add_space_prefix,
        template=template,
        samplers=loaded.samplers,
        engine=engine,
        room=room,
        fixed_sampler=fixed,
    )


def _text(words: Vocabulary, token: int) -> str:
    return words.token_bytes[token].decode("utf-8", "replace") if token >= 0 else ""


def _first_token(model: ServedModel) -> None:
    """One token through the model and the default sampler, or the operator's.

    Raises:
        SealhostError: there was none.
    """
    from ..sandbox import SamplingParams  # noqa: PLC0415 — brings wasmtime

    request = GenerationRequest(
        id=f"warm-up-{uuid.uuid4().hex}",
        prompt_ids=(max(model.bos, 0),),
        max_tokens=1,
        params=SamplingParams(temperature=0.0),
        sampler=None if model.fixed_sampler is None else model.fixed_sampler.name,
        sampler_config=b"" if model.fixed_sampler is None else model.fixed_sampler.config,
    )
    if not any(isinstance(event, TokenEvent) for event in answer(model.engine, request)):
        raise InternalError(model.name, "expected a first token, got none", "check its plugins with `sealhost bench`")
