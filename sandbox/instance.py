"""One guest in a store of its own: calls with deadlines, errors with names, a deterministic end (README §4).

with Instance(program) as instance:
    status = instance.call("step", 1)
    instance.memory.read(offset, 16)
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

import wasmtime

from . import abi, binding
from .binding import Deadline, GuestFunction, bind, export
from .engine import FULL_TANK
from .errors import GuestError, SandboxError
from .limits import FUEL_PATIENCE, WASM_PAGE, deadline_ticks, fuel_limit
from .memory import GuestMemory
from .record import MOST_UNSORTED
from .thread_stack import require_stack, roomy
from .wasm_binary import MAX_TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from .code import Code
    from .engine import Engine
    from .errors import GuestErrorKind
    from .limits import Limits
    from .record import PluginRecord
    from .snapshot import Runs


_SHOWN = (60, 80)
"""Characters of a guest's own words that an error shows, from both ends; an error is one line."""

_OWN_LIMITS = ("load", "step", "encode")
"""Calls that have a limit of their own; the others have that of `init`."""

_STATUS_NAMES = {int(s): s.name for s in abi.Status}
_KINDS: dict[int, GuestErrorKind] = {abi.Status.ERROR_CONFIG: "config", abi.Status.ERROR_EMPTY: "empty"}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled module that instances are made of; shared by all threads.

    Args:
        plugin: Name, for messages.
        engine: The engine that the module was loaded into.
        prepared: The module with its (empty) imports resolved.
        limits: Effective limits.
        deadlines_ms: Milliseconds that a call of each exported function may take.
        patches: Memory that each instance starts with besides the module's own (clause 5.5).
        memory_bytes: Memory that the module declares: its minimum, which is its maximum (clause 1.5).
    """

    plugin: str
    engine: Engine
    prepared: wasmtime.InstancePre
    limits: Limits
    deadlines_ms: Mapping[str, int]
    patches: Runs
    memory_bytes: int

    @classmethod
    def load(cls, plugin: str, role: str, engine: Engine, code: Code, limits: Limits, patches: Runs) -> Program:
        """Loads compiled code that is trusted already (clause 2.2).

        Raises:
            wasmtime.WasmtimeError: When it was compiled for another engine.
        """
        module = code.load(engine.raw)
        types = {e.name: e.type for e in module.exports}
        _check_types(types, role)
        special = {"step": limits.step_ms, "encode": limits.encode_ms, "load": limits.load_ms}
        deadlines = {name: special.get(name, limits.init_ms) for name in abi.EXPORTS[role] | abi.OPTIONAL_EXPORTS[role]}
        memory = types.get(abi.MEMORY)
        memory_bytes = memory.limits.min * WASM_PAGE if isinstance(memory, wasmtime.MemoryType) else 0
        prepared = wasmtime.Linker(engine.raw).instantiate_pre(module)
        return cls(plugin, engine, prepared, limits, deadlines, patches, memory_bytes)


def _check_types(found: Mapping[str, object], role: str) -> None:
    """Clause 4.5: wasmtime's own view of the types that calls rely on."""
    optional = {name: kind for name, kind in abi.OPTIONAL_EXPORTS[role].items() if name in found}
    for name, expected in (abi.EXPORTS[role] | optional).items():
        kind = found.get(name)
        shape = (
            ([str(t) for t in kind.params], [str(t) for t in kind.results])
            if isinstance(kind, wasmtime.FuncType)
            else None
        )
        if shape != (["i32"] * len(expected.params), ["i32"] * len(expected.results)):
            raise wasmtime.WasmtimeError(f"compiled module exports {name!r} as {shape}")


class Instance:
    """A fresh instance of a program; used by one thread at a time.

    Args:
        program: What it runs.
        record: Where what its calls take is noted (clause 10.4); None: nowhere.

    Raises:
        SandboxError: When deadlines would not hold, or the thread's stack is too small.
        GuestError: When it cannot start, or all instances together would have more memory than the operator allows.
    """

    __slots__ = (
        "_dead",
        "_engine",
        "_instance",
        "_is_open",
        "_last",
        "_last_name",
        "_lock",
        "_program",
        "_record",
        "_store",
        "memory",
        "spent",
    )

    def __init__(self, program: Program, record: PluginRecord | None = None) -> None:
        program.engine.require_ticker()
        self._record = record
        self._program = program
        self._engine = program.engine
        self._lock = threading.Lock()
        self._dead: str | None = None
        self._is_open = True
        self.spent = 0
        """Fuel of the last call that came back; 0 where none is counted."""
        self._last: GuestFunction
        self._last_name = ""
        program.engine.live_memory.take(program.plugin, program.memory_bytes)
        self._store = wasmtime.Store(program.engine.raw)
        try:
            self._store.set_limits(  # clause 3.3
                memory_size=program.limits.memory_bytes,
                table_elements=program.engine.allowed.table_elements,
                instances=1,
                tables=MAX_TABLES,
                memories=1,
            )
            self._store.set_epoch_deadline(
                program.engine.ticker.due(deadline_ticks(program.limits.init_ms, program.engine.allowed.tick_ms))
            )
            self._instance = binding.instantiate(self._store, program.prepared)
            self.memory = GuestMemory(*binding.memory(self._store, self._instance, abi.MEMORY))
            for offset, run in program.patches:
                self.memory.write(offset, run)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as error:
            self._end()
            problem = f"could not start an instance: {_one_line(error)}"
            raise GuestError(
                program.plugin, "trap", problem, "lower the number of live instances, or check it"
            ) from None

    @property
    def program(self) -> Program:
        """What it runs."""
        return self._program

    def call(self, name: str, argument: int = 0, other: int = 0) -> int:
        """Calls an exported function of the ABI, which takes up to two i32: passed on one by one, for unpacking costs.

        Args:
            name: Of the function.
            argument: Its first, if it takes one.
            other: Its second, if it takes two.

        Raises:
            GuestError: On a trap or a timeout; the instance is dead then (clause 4.3).
            SandboxError: When it is closed, dead, or in use on another thread.
        """
        if not self._lock.acquire(False):  # by name it costs half as much again
            raise self.in_use()
        began = perf_counter_ns()
        try:
            engine = self._engine
            if self._dead is not None:
                raise SandboxError(
                    f"plugin {self._program.plugin}", f"expected a live instance, got {self._dead}", "start a new one"
                )
            if not engine.ticker.alive:
                engine.require_ticker()
            if roomy.bytes < engine.stack_bytes:
                require_stack(engine.stack_bytes)
            function = self._last if name == self._last_name else self._bind(name)
            if engine.counts_fuel:
                return self._counted(name, function, argument, other)
            return function.call(argument, other)
        except wasmtime.Trap as trap:
            raise self._trapped(name, trap) from None
        except wasmtime.WasmtimeError as error:
            self.fail("one that failed")
            raise GuestError(self._program.plugin, "trap", f"{name} could not run: {_one_line(error)}") from None
        finally:
            self._lock.release()
            record = self._record
            if record is not None:
                times = record.times
                times.append(perf_counter_ns() - began)
                if len(times) >= MOST_UNSORTED:
                    record.sort()

    def in_use(self) -> SandboxError:
        """The refusal of a second thread: clause 4.2."""
        problem = "expected one thread at a time, got a second one"
        return SandboxError(f"plugin {self._program.plugin}", problem, "give each thread its own session")

    def fail(self, reason: str) -> None:
        """Marks the instance dead: clause 4.3."""
        self._dead = reason

    def guest_error(self, name: str, status: int, error_at: int, error_capacity: int) -> GuestError:
        """What an error status means, with the guest's own words (clause 4.6).

        Args:
            name: Of the function that answered.
            status: Negative.
            error_at: Offset of the error area.
            error_capacity: Its size in bytes.
        """
        self.fail("one that reported an error")
        text = self.memory.read(error_at, error_capacity).split(b"\0", 1)[0].decode(errors="replace")
        known = _STATUS_NAMES.get(status, f"status {status:#x}")
        kind = _KINDS.get(status, "error")
        said = f': "{_shortened(text)}"' if text else ""
        return GuestError(
            self._program.plugin, kind, f"{name} answered {known}{said}", "change the request, or the plugin"
        )

    def close(self) -> None:
        """Ends the instance and gives its memory back; waits for a call that is running. Idempotent."""
        with self._lock:
            self._dead = "a closed one"
            if self._is_open:
                self._is_open = False
                self._last_name = ""
                self.memory.close()
                self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        self._store.close()
        self._program.engine.live_memory.give_back(self._program.memory_bytes)

    def global_bytes(self, name: str, layout: str) -> bytes:
        """The value of an exported global as little-endian bytes.

        Args:
            name: Of the export.
            layout: Its `struct` format: "<i", "<q", "<f" or "<d".
        """
        found = export(self._store, self._instance, name)
        if not isinstance(found, wasmtime.Global):
            raise TypeError(f"expected a global {name!r}, got {found!r}")
        return struct.pack(layout, found.value(self._store))

    def _bind(self, name: str) -> GuestFunction:
        function = export(self._store, self._instance, name)
        if not isinstance(function, wasmtime.Func):
            raise TypeError(f"expected a function {name!r}, got {function!r}")
        allowed = self._program.engine.allowed
        patience = FUEL_PATIENCE if allowed.fuel_per_ms else 1
        ticks = deadline_ticks(patience * self._program.deadlines_ms[name], allowed.tick_ms)
        engine = self._engine
        self._last = bind(self._store, function, Deadline(engine.ticker, ticks), engine.scratch)
        self._last_name = name
        return self._last

    def _counted(self, name: str, function: GuestFunction, argument: int, other: int) -> int:
        """Calls a function, with its fuel counted and, where the operator says so, limited (clauses 3.6 and 4.7)."""
        engine = self._program.engine
        self.spent = 0
        tank = fuel_limit(self._program.deadlines_ms[name], engine.allowed.fuel_per_ms) or FULL_TANK
        self._store.set_fuel(tank)
        result = function.call(argument, other)
        self.spent = tank - self._store.get_fuel()
        if self._record is not None:
            self._record.fuels.append(self.spent)
        if engine.meter is not None:
            engine.meter(self._program.plugin, name, self.spent)
        return result

    def _trapped(self, name: str, trap: wasmtime.Trap) -> GuestError:
        code = trap.trap_code
        slower = f"raise {name if name in _OWN_LIMITS else 'init'}_ms, or make the plugin faster"
        if code is wasmtime.TrapCode.INTERRUPT:
            self.fail("one that ran out of time")
            problem = f"{name} took longer than {self._program.deadlines_ms[name]} ms"
            return GuestError(self._program.plugin, "timeout", problem, slower)
        if code is wasmtime.TrapCode.OUT_OF_FUEL:
            self.fail("one that ran out of fuel")
            fuel = fuel_limit(self._program.deadlines_ms[name], self._program.engine.allowed.fuel_per_ms)
            problem = f"{name} spent its fuel of {fuel}"
            return GuestError(self._program.plugin, "timeout", problem, slower)
        self.fail("one that trapped")
        what = code.name.lower().replace("_", " ") if code is not None else _one_line(trap)
        return GuestError(self._program.plugin, "trap", f"{name} trapped: {what}")


def _shortened(text: str) -> str:
    """The beginning and the end of a long text: a sentence says first what was expected, and last what was got."""
    return text if len(text) <= sum(_SHOWN) else f"{text[: _SHOWN[0]]}…{text[-_SHOWN[1] :]}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
