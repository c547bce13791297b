"""Limits of guests: what the operator allows, what a plugin asks for, and the smaller of both (README §3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from .errors import SandboxError

if TYPE_CHECKING:
    from .plugin import PluginLimits

MIB = 1 << 20
WASM_PAGE = 1 << 16
"""Bytes of a WebAssembly page."""

MIN_TICKS = 2
"""Clause 3.1: the first tick may come at once, so one tick is no time at all."""

FUEL_PATIENCE = 10
"""In fuel mode: times a limit's milliseconds after which a call is stopped whatever fuel it has left (clause 3.6)."""

_MAY_BE_OFF = frozenset(("fuel_per_ms", "live_memory_bytes"))
"""Limits that 0 turns off."""

MAX_MEMORY_BYTES = 4096 * MIB - WASM_PAGE
"""What a 32-bit memory can hold, less one page, so that offsets and ends fit 32 bits."""


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """What the operator allows any guest; the reasons stand in README §3 and §10.

    Raises:
        SandboxError: When a limit is not positive (`fuel_per_ms` and `live_memory_bytes` may be 0), or more than 32-bit
            memory can hold.
    """

    memory_bytes: int = 256 * MIB
    stack_bytes: int = 512 * 1024
    table_elements: int = 10_000
    init_ms: int = 1_000
    load_ms: int = 10_000
    step_ms: int = 250
    encode_ms: int = 2_000
    tick_ms: int = 5
    fuel_per_ms: int = 0
    max_sessions: int = 256
    live_memory_bytes: int = 0
    max_backtrack: int = 64
    strikes: int = 5
    backoff_ms: int = 1_000
    max_backoff_ms: int = 300_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in _MAY_BE_OFF else 1
            if value < least:
                raise SandboxError(field.name, f"expected a limit of {least} or more, got {value}", "set it higher")
        if self.memory_bytes > MAX_MEMORY_BYTES:
            problem = f"expected at most {MAX_MEMORY_BYTES} bytes, got {self.memory_bytes}"
            raise SandboxError("memory_bytes", problem, "set it lower: guest memory is 32-bit")


@dataclass(frozen=True, slots=True)
class Limits:
    """Effective limits of one plugin: the smaller of manifest and operator, in bytes and milliseconds."""

    memory_bytes: int
    init_ms: int
    load_ms: int
    step_ms: int
    encode_ms: int

    @classmethod
    def effective(cls, asked: PluginLimits, allowed: OperatorLimits) -> Limits:
        """Takes the smaller one of each."""
        return cls(**{f.name: min(getattr(asked, f.name), getattr(allowed, f.name)) for f in fields(cls)})


def fuel_limit(milliseconds: int, fuel_per_ms: int) -> int | None:
    """Fuel that a call of at most `milliseconds` may spend; None: its time is what counts (clause 3.6)."""
    return milliseconds * fuel_per_ms if fuel_per_ms else None


def deadline_ticks(milliseconds: float, tick_ms: int) -> int:
    """Ticks after which a call of at most `milliseconds` is stopped: never earlier than that, never below two ticks."""
    return max(MIN_TICKS, math.ceil(milliseconds / tick_ms) + 1)  # + 1: the tick that is under way does not count
