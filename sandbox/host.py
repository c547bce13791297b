"""`Sandbox`: the one place where the sandbox's parts are wired together.

    with Sandbox() as sandbox:
        tokenizer = sandbox.load_tokenizer(plugin, vocabulary)
        sampler = sandbox.load_sampler(other, vocab_size)

One for each process. Loading is the way of README's picture: admission, first instance, snapshot, program.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import wasmtime

from . import abi, sampler, tokenizer
from .admission import admit, refusal
from .cache import CodeCache
from .code import Code
from .compiler import CompileError, CompileLimits, compile_module
from .engine import Engine
from .errors import AdmissionError, GuestError
from .instance import Instance, Program
from .layout import SamplerLayout, TokenizerLayout
from .limits import Limits, OperatorLimits
from .snapshot import Snapshot, split, take
from .token_table import TAKES_VOCABULARY, token_table
from .wasm_rewrite import State, with_global_exports, with_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from .engine import Meter
    from .plugin import Plugin
    from .snapshot import Runs
    from .vocabulary import Vocabulary
    from .wasm_binary import Module

    Layout = TypeVar("Layout", SamplerLayout, TokenizerLayout)

_SNAPSHOT_FORMAT = 6
"""Part of a snapshot's cache key: raise it when what is stored changes, how it is made, or what is checked then."""


class Sandbox:
    """Loads plugins; holds the engine, its ticker and the cache.

    Args:
        limits: What the operator allows.
        cache_directory: Where compiled code is kept; by default the user's cache folder.
        use_cache: Whether it is kept at all.
        compile_limits: Limits of the compiling child.
        meter: Told what each call cost, for those who measure plugins (clause 4.7); calls are slower then.
        clock: Seconds that never go back: the clock of quarantines (clause 10.2).
    """

    def __init__(
        self,
        limits: OperatorLimits | None = None,
        *,
        cache_directory: Path | None = None,
        use_cache: bool = True,
        compile_limits: CompileLimits | None = None,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or OperatorLimits()
        self._compile_limits = compile_limits or CompileLimits()
        self._cache = CodeCache((cache_directory or CodeCache.default_directory()) if use_cache else None)
        self._engine = Engine(self.limits, meter, clock)
        self._fingerprint = self._engine.fingerprint()

    def load_tokenizer(self, plugin: Plugin, vocabulary: Vocabulary) -> tokenizer.TokenizerPlugin:
        """Admits a tokenizer and gives it the vocabulary.

        Args:
            plugin: Verified, of role tokenizer.
            vocabulary: The model's.

        Raises:
            AdmissionError: Naming the clause.
        """

        def first_calls(instance: Instance) -> TokenizerLayout:
            return tokenizer.load_vocabulary(instance, vocabulary.stream())

        def checks(instance: Instance, layout: TokenizerLayout) -> None:
            tokenizer.check_token_bytes(instance, layout, vocabulary)

        raw, program = self._prepare(plugin, "tokenizer", lambda _module: vocabulary.digest, first_calls, checks)
        layout = TokenizerLayout(*abi.TOKENIZER_LAYOUT.unpack(raw))
        return tokenizer.TokenizerPlugin(plugin.name, plugin.sha256, program, layout, vocabulary)

    def load_sampler(
        self, plugin: Plugin, vocab_size: int, vocabulary: Vocabulary | None = None
    ) -> sampler.SamplerPlugin:
        """Admits a sampler, and gives it the vocabulary if it asks for it.

        Args:
            plugin: Verified, of role sampler.
            vocab_size: Logits of the model.
            vocabulary: The model's; None: a sampler that asks for it is refused.

        Raises:
            AdmissionError: Naming the clause.
        """
        words: Vocabulary | None = None

        def inputs(module: Module) -> bytes:
            nonlocal words
            if TAKES_VOCABULARY not in module.exports:
                return b""
            if vocabulary is None:
                raise refusal(plugin.name, "1.15", "expected a vocabulary for a sampler that asks for it, got none")
            words = vocabulary
            return vocabulary.digest

        def first_calls(instance: Instance) -> SamplerLayout:
            return sampler.prepare(instance, None if words is None else token_table(words))

        raw, program = self._prepare(plugin, "sampler", inputs, first_calls, lambda _instance, _layout: None)
        layout = SamplerLayout(*abi.SAMPLER_LAYOUT.unpack(raw))
        return sampler.SamplerPlugin(plugin, program, layout, vocab_size=vocab_size, takes_vocabulary=words is not None)

    def close(self) -> None:
        """Stops the ticker; calls of all plugins are refused from then on. Idempotent."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(
        self,
        plugin: Plugin,
        role: str,
        inputs: Callable[[Module], bytes],
        first_calls: Callable[[Instance], Layout],
        checks: Callable[[Instance, Layout], None],
    ) -> tuple[bytes, Program]:
        """Admission, then the snapshot: from the cache, or made anew.

        Args:
            plugin: What is loaded.
            role: What it must be.
            inputs: Digest of what the guest of a module is given besides that module.
            first_calls: Brings the first instance into the state that is kept.
            checks: What must hold of it; runs after the state was taken.

        Returns:
            The layout that the guest published, and the program that instances are made of.
        """
        if plugin.role != role:
            raise refusal(plugin.name, "1.14", f"expected a {role}, got a {plugin.role}")
        limits = Limits.effective(plugin.limits, self.limits)
        module = admit(plugin, limits, self.limits)
        key = self._snapshot_key(plugin.wasm, role, inputs(module))
        size = abi.SAMPLER_LAYOUT.size if role == "sampler" else abi.TOKENIZER_LAYOUT.size
        cached = self._cache.get(key)
        if cached is not None:
            with cached.code as code, suppress(wasmtime.WasmtimeError):  # clause 2.6
                kept = Snapshot.unpack(cached.head, size)
                return kept.layout, self._load(plugin, limits, code, kept.patches)
        made, compiled = self._make(plugin, module, limits, first_calls, checks)
        program = self._program(plugin, limits, compiled, made.patches)
        self._cache.put(key, compiled, made.pack())
        return made.layout, program

    def _make(
        self,
        plugin: Plugin,
        module: Module,
        limits: Limits,
        first_calls: Callable[[Instance], Layout],
        checks: Callable[[Instance, Layout], None],
    ) -> tuple[Snapshot, bytes]:
        """The snapshot, and its compiled module."""
        try:
            with Instance(self._first_program(plugin, limits, with_global_exports(module))) as instance:
                layout = first_calls(instance)
                state = take(instance, module)  # clause 5.1, before anything else is asked
                checks(instance, layout)
        except GuestError as error:
            raise refusal(plugin.name, "1.15", error.problem) from error
        image, patches = split(state.memory)
        wasm = with_state(module, State(image, state.globals), (abi.MEMORY, *abi.EXPORTS[plugin.role]))
        return Snapshot(layout.pack(), patches), self._compile(plugin.name, wasm)

    def _first_program(self, plugin: Plugin, limits: Limits, wasm: bytes) -> Program:
        """The instrumented module: kept, because other vocabularies start from it too."""
        key = hashlib.sha256(b"module" + self._fingerprint + hashlib.sha256(wasm).digest()).digest()
        cached = self._cache.get(key)
        if cached is not None:
            with cached.code as code, suppress(wasmtime.WasmtimeError):  # clause 2.6
                return self._load(plugin, limits, code)
        compiled = self._compile(plugin.name, wasm)
        program = self._program(plugin, limits, compiled)
        self._cache.put(key, compiled)
        return program

    def _compile(self, name: str, wasm: bytes) -> bytes:
        """Clause 2.1: never in this process."""
        try:
            return compile_module(wasm, self._engine.settings, self._compile_limits)
        except CompileError as error:
            raise refusal(name, error.clause, error.problem) from None

    def _snapshot_key(self, wasm: bytes, role: str, inputs: bytes) -> bytes:
        facts = f"snapshot {_SNAPSHOT_FORMAT} {role} ".encode()
        return hashlib.sha256(facts + self._fingerprint + hashlib.sha256(wasm).digest() + inputs).digest()

    def _load(self, plugin: Plugin, limits: Limits, code: Code, patches: Runs = ()) -> Program:
        return Program.load(plugin.name, plugin.role, self._engine, code, limits, patches)

    def _program(self, plugin: Plugin, limits: Limits, compiled: bytes, patches: Runs = ()) -> Program:
        """Loads code that was compiled just now."""
        try:
            with Code.of(compiled) as code:
                return self._load(plugin, limits, code, patches)
        except wasmtime.WasmtimeError as error:
            raise AdmissionError(
                plugin.name,
                "2.2",
                f"compiled code was not accepted: {error}",
                "report it: the compiling child made it just now",
            ) from None
