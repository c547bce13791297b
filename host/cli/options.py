"""Options that several verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from ...kernels.kv_type import KvType
from ..config import (
    DEFAULT_KV_BYTES,
    DEFAULT_MAX_SEQUENCES,
    DEFAULT_MAX_WAITING,
    DEFAULT_STEP_TOKENS,
    MEBIBYTE,
    EngineConfig,
)
from ..errors import UsageError
from .places import state_in, trust_in  # what the shared options name

if TYPE_CHECKING:
    from ...sandbox import OperatorLimits

__all__ = [
    "DEFAULTS",
    "OPTIONS",
    "EngineOptions",
    "Json",
    "Keys",
    "PassphraseFd",
    "StateFolder",
    "state_in",
    "trust_in",
]


OPTIONS = Group("Options", sort_key=0)
"""How help calls the options of a verb that belong to no other group."""


Keys = Annotated[
    Path | None,
    Parameter(
        name="--keys",
        help="Folder of trusted public keys (*.pub); without it your own trust store.",
    ),
]
StateFolder = Annotated[
    Path | None,
    Parameter(
        name="--state",
        help="Folder that remembers accepted versions; without it your own.",
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object instead of text.")]
PassphraseFd = Annotated[
    int | None, Parameter(name="--passphrase-fd", help="Read the passphrase from this open file descriptor.")
]

_Limit = Annotated[int, Parameter(group=Group("Limits of plugins", sort_key=3))]


@Parameter(name="*", group=Group("How the model runs", sort_key=2))
@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a model runs.

    Attributes:
        context: Most tokens in one sequence, prompt and answer together. [default: the model's, at most 8192]
        threads: CPU threads for the kernels. [default: one for each usable core]
        kv_mib: Memory for the KV cache, MiB.
        kv_type: Type of the KV cache: float32 rounds nothing, int8 takes half the memory of float16.
        max_sequences: Most sequences that run at the same time.
        max_waiting: Most requests that wait for a free place.
        lazy: Verify each chunk of the weights when it is first used; for what that gives up see signing/README.md, 7.5.
        plugin_memory_mib: Memory limit of one sandbox, MiB.
        plugin_step_ms: Time limit of one step of a sampler, milliseconds.
        plugin_encode_ms: Time limit for encoding one text, milliseconds.
        plugin_sessions: Most live sandboxes of one plugin.
        plugin_live_mib: Memory limit of all live sandboxes together, as declared by their plugins, MiB; 0: no limit.
        plugin_backtrack: Most tokens that a sampler may take back at a time.
        plugin_fuel: Instructions that count as one millisecond, so that the load of the machine does not matter;
            0: limit by time.
    """

    context: Annotated[int | None, Parameter(show_default=False)] = None
    threads: Annotated[int, Parameter(show_default=False)] = 0
    kv_mib: int = DEFAULT_KV_BYTES // MEBIBYTE
    kv_type: Literal["float16", "float32", "int8"] = "float16"
    max_sequences: int = DEFAULT_MAX_SEQUENCES
    max_waiting: int = DEFAULT_MAX_WAITING
    lazy: Annotated[bool, Parameter(negative="")] = False
    plugin_memory_mib: _Limit = 256
    plugin_step_ms: _Limit = 250
    plugin_encode_ms: _Limit = 2000
    plugin_sessions: _Limit = 256
    plugin_live_mib: _Limit = 0
    plugin_backtrack: _Limit = 64
    plugin_fuel: _Limit = 0

    @property
    def reading(self) -> Literal["ahead", "lazy"]:
        """When the weights are verified: see signing's `verify`."""
        return "lazy" if self.lazy else "ahead"

    def config(self) -> EngineConfig:
        """The engine's settings.

        Raises:
            UsageError: a value is out of range.
        """
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(option, f"expected {least} to {most}, got {value}", "choose another number")
        return EngineConfig(
            context=self.context,
            threads=self.threads,
            kv_bytes=self.kv_mib * MEBIBYTE,
            kv_type=KvType(self.kv_type),
            max_sequences=self.max_sequences,
            max_waiting=self.max_waiting,
        )

    def limits(self) -> OperatorLimits:
        """What the operator allows plugins; a plugin gets the lesser of this and what its publisher asked for."""
        from ...sandbox import OperatorLimits  # noqa: PLC0415 — brings wasmtime (clause 6.5)

        return OperatorLimits(
            memory_bytes=self.plugin_memory_mib * MEBIBYTE,
            step_ms=self.plugin_step_ms,
            encode_ms=self.plugin_encode_ms,
            max_sessions=self.plugin_sessions,
            live_memory_bytes=self.plugin_live_mib * MEBIBYTE,
            max_backtrack=self.plugin_backtrack,
            fuel_per_ms=self.plugin_fuel,
        )


_RANGES = {
    "context": (2, 1 << 24),
    "threads": (0, 4096),
    "kv_mib": (1, 1 << 24),
    "max_sequences": (1, DEFAULT_STEP_TOKENS),
    "max_waiting": (1, 100_000),
    "plugin_memory_mib": (1, 4095),
    "plugin_step_ms": (1, 600_000),
    "plugin_encode_ms": (1, 600_000),
    "plugin_sessions": (1, 100_000),
    "plugin_live_mib": (0, 1 << 24),
    "plugin_backtrack": (1, 100_000),
    "plugin_fuel": (0, 10**9),
}
"""The least and the most of each. A step must have room for a token of every sequence; 4,095 MiB is what 32-bit memory
holds, ten minutes the format's most; the others are far beyond what a machine has."""

DEFAULTS = EngineOptions()
"""What verbs take when nothing is said."""
