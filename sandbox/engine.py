"""One wasmtime engine with the settings of README §1.12 and §3, and the thread that makes its epochs advance.

engine = Engine(OperatorLimits())
engine.require_ticker()   # before every call: clause 3.2
engine.close()
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import wasmtime

from ..signing.errors import Code
from .errors import SandboxError
from .memory_budget import MemoryBudget

if TYPE_CHECKING:
    from .binding import Scratch
    from .limits import OperatorLimits

SETTINGS: dict[str, bool | int] = {
    # clause 1.12: what admission refuses is off in the engine as well
    "wasm_threads": False,
    "shared_memory": False,
    "wasm_tail_call": False,
    "wasm_multi_memory": False,
    "wasm_memory64": False,
    "wasm_relaxed_simd": False,
    "wasm_exceptions": False,
    "wasm_function_references": False,
    "wasm_gc": False,
    "gc_support": False,
    "wasm_wide_arithmetic": False,
    "wasm_custom_page_sizes": False,
    "wasm_stack_switching": False,
    "wasm_component_model": False,
    # what LLVM, Rust and AssemblyScript emit by default
    "wasm_simd": True,
    "wasm_bulk_memory": True,
    "wasm_multi_value": True,
    "wasm_reference_types": True,
    "epoch_interruption": True,  # clause 3.1
    "cranelift_nan_canonicalization": True,  # clause 8.3: no machine's NaN bits leak in
    "memory_may_move": False,  # views stay valid as long as the store lives
    "memory_init_cow": True,  # clause 5.1
    "parallel_compilation": False,  # one thread in the child: its CPU limit means what it says
    "native_unwind_info": False,  # traps need none, and registering it is a process-wide lock
}
"""Settings of the engine here and in the compiling child; `max_wasm_stack` is added from the operator's limits."""

Meter: TypeAlias = Callable[[str, str, int], None]
"""Called with the plugin's name, the function's name and the fuel (about one for each instruction) of a call."""

FULL_TANK = 1 << 62
"""Fuel of a metered call: it counts, and the deadline limits."""


tickers: weakref.WeakSet[Ticker] = weakref.WeakSet()
"""All that there are, so that a forked child can learn that theirs are dead."""


def forked() -> None:
    """Called in a child: its only thread is the one that forked."""
    for ticker in tickers:
        ticker.alive = False


os.register_at_fork(after_in_child=forked)


class Ticker:
    """Calls `tick` once for each `interval` on a daemon thread, until it is closed or `tick` raises.

    A thread that gets no processor is late; the ticks that it owes come at once then, so that deadlines are times and
    not counts of wake-ups (clause 3.1).

    Args:
        tick: What is called.
        interval: Seconds.
        clock: Seconds that never go back.

    Attributes:
        clock: The same.
        next_at: When the next tick is due: before that none is owed, which is quicker to see than how many are.
        alive: Whether epochs still advance. False in a forked child, where no other thread lives on; noted at the fork,
            because asking for the process each time would cost every call a trip to the system.
    """

    def __init__(
        self, tick: Callable[[], object], interval: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tick = tick
        self._interval = interval
        self.clock = clock
        self.next_at = clock() + interval
        self._stop = threading.Event()
        self.alive = True
        tickers.add(self)
        self._thread = threading.Thread(target=self._run, name="sealhost-ticker", daemon=True)
        self._thread.start()

    @property
    def owed(self) -> int:
        """Ticks that are due and have not come."""
        late = self.clock() - self.next_at
        return 1 + int(late / self._interval) if late >= 0 else 0

    def due(self, ticks: int) -> int:
        """Epochs from now to a deadline after so many ticks: those that are owed come on top."""
        return ticks + self.owed

    def close(self) -> None:
        """Stops the thread and waits for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(max(self.next_at - self.clock(), 0)):
                for _ in range(self.owed):
                    self._tick()
                    self.next_at += self._interval
        finally:
            self.alive = False


class Engine:
    """An engine and its ticker; shared by all threads.

    Args:
        allowed: The operator's limits; of these the stack, the tick and the fuel matter here.
        meter: Told after each call what it cost; guests then run in fuel mode, which is slower.
        clock: Seconds that never go back, for quarantines.
    """

    def __init__(
        self, allowed: OperatorLimits, meter: Meter | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.allowed = allowed
        self.clock = clock
        self.meter = meter
        self.live_memory = MemoryBudget(allowed.live_memory_bytes)
        self.settings = {**SETTINGS, "max_wasm_stack": allowed.stack_bytes}
        self.stack_bytes = allowed.stack_bytes
        self.counts_fuel = meter is not None or allowed.fuel_per_ms > 0
        if self.counts_fuel:
            self.settings["consume_fuel"] = True
        config = wasmtime.Config()
        for name, value in self.settings.items():
            setattr(config, name, value)
        self.raw = wasmtime.Engine(config)
        self.scratch: Scratch = []
        self.ticker = Ticker(self.raw.increment_epoch, allowed.tick_ms / 1000)

    def fingerprint(self) -> bytes:
        """What compiled code depends on besides the module (clause 2.4). Shape: 32 bytes."""
        facts = {"wasmtime": version("wasmtime"), "settings": self.settings, "cpu": _cpu()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).digest()

    def require_ticker(self) -> None:
        """Refuses when deadlines would not come.

        Raises:
            SandboxError: When the ticker is dead or closed.
        """
        if not self.ticker.alive:
            problem = "expected a running ticker, got a dead one, so no deadline would hold"
            raise SandboxError("sandbox", problem, "restart the host", Code.INTERNAL)

    def close(self) -> None:
        """Stops the ticker; calls are refused from then on."""
        self.ticker.close()


def _cpu() -> str:
    """The processor's features, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {features}"
