"""From a verified bundle to a running model.

Rules
* Only a VerifiedBundle comes in: nothing here opens a file, and the bundle gives out only bytes that were checked.
* Tensors go to the backend in the order of the file, while later ones are read and checked, and the bytes behind each
  are released right after (clause 1.5). A load counts once every byte was found right (clause 1.8).
* Plugins are loaded on a second thread meanwhile; a failure of either side closes everything (clause 1.7).

Example:
    loaded = load(verify(root, trust, reading="ahead"), Sandbox(), CpuBackend(), EngineConfig())
"""

from __future__ import annotations

import mmap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...kernels.backend import Tensor
from ...kernels.errors import KernelError
from ...signing.errors import Code
from ..errors import HostError, UsageError, WeightsError
from . import fields, graph
from .gguf import GgufFile
from .kv_size import KvSize
from .loaded import LoadedModel, LoadReport
from .vocabulary import end_ids, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...kernels.backend import Backend, ModelBuilder
    from ...sandbox import OperatorLimits, Vocabulary
    from ...signing import VerifiedBundle, VerifiedPlugin, VerifiedWeights
    from ..config import EngineConfig
    from .loaded import Sampler, Tokenizer

TEMPLATE_KEY = "tokenizer.chat_template"
"""The model file's own chat template, for bundles that bring none beside it."""


class PluginLoader(Protocol):
    """What is used of the sandbox."""

    @property
    def limits(self) -> OperatorLimits:
        """What the operator allows plugins."""

    def load_tokenizer(self, plugin: VerifiedPlugin, vocabulary: Vocabulary) -> Tokenizer:
        """Admits a tokenizer and loads the vocabulary into it."""

    def load_sampler(self, plugin: VerifiedPlugin, vocab_size: int, vocabulary: Vocabulary) -> Sampler:
        """Admits a sampler, and gives it the vocabulary if it asks for it."""


@dataclass(frozen=True, slots=True)
class _Plugins:
    tokenizer: Tokenizer
    samplers: dict[str, Sampler]
    seconds: float


def load(
    bundle: VerifiedBundle,
    sandbox: PluginLoader,
    backend: Backend,
    config: EngineConfig,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LoadedModel:
    """Loads a model bundle; its weights are closed when this returns or raises.

    Args:
        bundle: A verified bundle of kind "model".
        sandbox: Where plugins run.
        backend: What runs the model.
        config: Context, pool and threads.
        progress: Called with (bytes repacked, bytes in all).

    Raises:
        WeightsError: the model file is malformed or unsupported.
        HostError: a plugin is missing (E_PLUGIN).
        UsageError: the settings do not fit the model.
        SandboxError: a plugin was not admitted or could not be loaded.
        SealError: weights that were still being read are not those that were signed.
    """
    began = time.perf_counter()
    weights = bundle.weights
    if weights is None:
        raise HostError(
            Code.USAGE, bundle.manifest.name, "expected a model bundle, got one of plugins", "name a model bundle"
        )
    with ExitStack() as stack:
        stack.callback(weights.close)
        weights.hash_with(backend.sha256)
        chosen = _choose_plugins(bundle)
        file = GgufFile.parse(weights)
        graph.family_of(file)  # before the vocabulary: an unknown architecture is the more helpful refusal
        words = vocabulary(file)
        described = graph.describe(file, vocab=len(words.texts), read=weights.view, context=config.context)
        size = KvSize.choose(described.spec, config, backend.kv_type, again=sandbox.limits.max_backtrack)
        parsed = time.perf_counter()
        workers = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="load-plugins"))
        pending = workers.submit(_load_plugins, chosen, sandbox, words)
        with _refusals("model"):
            builder = backend.builder(described.spec, threads=config.backend_threads)
        _pack(described, weights, builder, progress)
        weights.finish()
        packed = time.perf_counter()
        with _refusals("model"):
            model = builder.finish(
                kv_blocks=size.blocks,
                window_blocks=size.window_blocks,
                max_tokens=config.step_tokens,
                max_sequences=config.max_sequences,
            )
        on_failure = stack.enter_context(ExitStack())
        on_failure.callback(model.close)
        finished = time.perf_counter()
        plugins = pending.result()
        on_failure.pop_all()
    report = LoadReport(
        parse_s=parsed - began,
        pack_s=packed - parsed,
        plugins_s=plugins.seconds,
        finish_s=finished - packed,
        total_s=time.perf_counter() - began,
        memory_bytes=model.memory_bytes,
    )
    return LoadedModel(
        name=bundle.manifest.name,
        digest=bundle.digest,
        model=model,
        spec=described.spec,
        vocabulary=words,
        tokenizer=plugins.tokenizer,
        samplers=plugins.samplers,
        template=_template(bundle, file),
        end_ids=end_ids(file, words),
        context=size.context,
        kv_blocks=size.blocks,
        kv_type=backend.kv_type,
        report=report,
        window_blocks=size.window_blocks,
    )


def _pack(
    described: graph.Graph,
    weights: VerifiedWeights,
    builder: ModelBuilder,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Hands every tensor to the backend and its bytes back to the system."""
    released = 0
    for place in described.places:
        info = place.tensor
        raw = np.frombuffer(weights.view(info.start, info.stop), np.uint8)
        with _refusals(info.name):
            builder.put(place.role, place.layer, Tensor(info.name, place.format, info.shape, raw))
        del raw
        weights.release(released, info.stop)
        released = info.stop // mmap.PAGESIZE * mmap.PAGESIZE  # the page that the next tensor shares stays
        if progress is not None:
            progress(info.stop, described.places[-1].tensor.stop)


@contextmanager
def _refusals(where: str) -> Iterator[None]:
    """Gives what the backend refuses a code, a place and a remedy."""
    try:
        yield
    except KernelError as error:
        raise WeightsError(where, str(error), "use a model that the backend can run") from error
    except (MemoryError, OSError) as error:
        problem = f"expected memory for {where}, got none"
        raise UsageError("memory", problem, "lower the memory of the KV pool or take a smaller model") from error


def _choose_plugins(bundle: VerifiedBundle) -> tuple[VerifiedPlugin, list[VerifiedPlugin]]:
    """The tokenizer and the samplers of a bundle, before any time is spent on its weights."""
    tokenizers = [one for one in bundle.plugins if one.role == "tokenizer"]
    samplers = [one for one in bundle.plugins if one.role == "sampler"]
    if len(tokenizers) != 1 or not samplers:
        raise HostError(
            Code.PLUGIN,
            bundle.manifest.name,
            f"expected one tokenizer and at least one sampler, got {len(tokenizers)} and {len(samplers)}",
            "pack the bundle again with --tokenizer and --sampler",
        )
    return tokenizers[0], samplers


def _load_plugins(
    chosen: tuple[VerifiedPlugin, list[VerifiedPlugin]], sandbox: PluginLoader, words: Vocabulary
) -> _Plugins:
    began = time.perf_counter()
    tokenizer = sandbox.load_tokenizer(chosen[0], words)
    samplers = {one.name: sandbox.load_sampler(one, len(words.texts), words) for one in chosen[1]}
    return _Plugins(tokenizer, samplers, time.perf_counter() - began)


def _template(bundle: VerifiedBundle, file: GgufFile) -> str | None:
    """The bundle's template; else the model file's own, which the same signature covers."""
    if bundle.template is not None:
        return bundle.template
    return fields.text(file, TEMPLATE_KEY) if TEMPLATE_KEY in file.metadata else None
