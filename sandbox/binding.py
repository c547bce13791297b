"""The one place that touches the binding's private side: calls, look-ups and starts without its checks and wrappers.

The public `InstanceExports` wraps every export of an instance (64 µs for six); `export` looks up one, and `memory` does
without wrapping it. The public `InstancePre.instantiate` runs a generator around the C function.
The public `Func.__call__` asks for the function's type and boxes each value: 25 to 60 µs. The C function below it takes
raw 16-byte values. Types are not checked there, so only functions whose exact type has been checked may be bound
(clause 4.5): up to two i32 in, one i32 out. The binding's own prototype of it converts pointers one by one; ours takes
addresses, which halves the way in and out, and is used only while the binding's says that the C function is the same.
The deadline is set with the interpreter held, so that no other thread can take it there: a call lets go of it once.

When a release of the binding lacks one of the names, the public way is taken, and everything else stays as it is.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import wasmtime

if TYPE_CHECKING:
    from .engine import Ticker

Scratch: TypeAlias = "list[Frame]"
"""Frames that no call uses now: the last one to come back is the next to go."""


class Deadline(NamedTuple):
    """What a call may take.

    Attributes:
        ticker: Of the engine.
        ticks: Its ticks.
    """

    ticker: Ticker
    ticks: int


try:
    from wasmtime import _bindings as _native
    from wasmtime import _extern, _ffi

    _RAW_VALUE: Any = _native.wasmtime_val_raw_t
    _TRAP = _native.wasm_trap_t
    _ERROR = _native.wasmtime_error_t
    _CONTEXT = ctypes.POINTER(_native.wasmtime_context_t)
    _PROTOTYPES = (
        (_native._wasmtime_func_call_unchecked, ctypes.POINTER(_ERROR), [  # noqa: SLF001 — the reason for this file
            _CONTEXT, ctypes.POINTER(_native.wasmtime_func_t), ctypes.POINTER(_RAW_VALUE), ctypes.c_size_t,
            ctypes.POINTER(ctypes.POINTER(_TRAP)),
        ]),
        (_native._wasmtime_context_set_epoch_deadline, None, [_CONTEXT, ctypes.c_uint64]),  # noqa: SLF001 — as above
    )  # fmt: skip
    _RAW_BYTES = ctypes.sizeof(_RAW_VALUE)
    _address = ctypes.c_void_p
    _epochs = ctypes.c_uint64.from_param
    _TWO = ctypes.c_size_t.from_param(2)
    _SECOND = _RAW_BYTES // ctypes.sizeof(ctypes.c_int)
    _library: ctypes.CDLL = _native.dll  # type: ignore[attr-defined]  # it is there, though not declared

    class _Frame(ctypes.Structure):
        """What a call reads and writes beside the guest's memory, all in one place.

        Attributes:
            values: Arguments in, result out; two is the most that the ABI's functions take.
            trap: Null, or what the call ended by.
        """

        _fields_ = (("values", _RAW_VALUE * 2), ("trap", _address))

    _CALL = ctypes.CFUNCTYPE(_address)(("wasmtime_func_call_unchecked", _library))
    _DEADLINE = ctypes.PYFUNCTYPE(None)(("wasmtime_context_set_epoch_deadline", _library))
    _INSTANTIATE = _native._wasmtime_instance_pre_instantiate  # noqa: SLF001 — the reason for this file
    _INSTANCE: Any = _native.wasmtime_instance_t
    _EXPORT = _native._wasmtime_instance_export_get  # noqa: SLF001 — the reason for this file
    _EXTERN: Any = _native.wasmtime_extern_t
    _IS_MEMORY: int = _ffi.WASMTIME_EXTERN_MEMORY.value
    _MEMORY_DATA = _native._wasmtime_memory_data  # noqa: SLF001 — the reason for this file
    _MEMORY_SIZE = _native._wasmtime_memory_data_size  # noqa: SLF001 — the reason for this file
    _wrap = _extern.wrap_extern
    AVAILABLE = all((f.restype, f.argtypes) == (result, arguments) for f, result, arguments in _PROTOTYPES)
except (ImportError, AttributeError):
    AVAILABLE = False


class GuestFunction(Protocol):
    """A function of an instance."""

    def call(self, argument: int = 0, other: int = 0) -> int:
        """Sets the deadline, calls the function, and returns its i32.

        Raises:
            wasmtime.Trap: When the guest traps or is interrupted.
            wasmtime.WasmtimeError: When the call could not be made.
        """


def bind(store: wasmtime.Store, function: wasmtime.Func, deadline: Deadline, scratch: Scratch) -> GuestFunction:
    """The way into `function`.

    Args:
        store: The function's; must outlive what is returned.
        function: Takes up to two i32, returns one i32; checked by the caller.
        deadline: Of each call.
        scratch: Of the store's engine.
    """
    if AVAILABLE:
        return NativeFunction(store, function, deadline, scratch)
    return PublicFunction(store, function, deadline)


class PublicFunction:
    """A function by the binding's public names; arguments as `bind` takes them."""

    def __init__(self, store: wasmtime.Store, function: wasmtime.Func, deadline: Deadline) -> None:
        self._store, self._function, self._deadline = store, function, deadline
        self._count = len(function.type(store).params)

    def call(self, argument: int = 0, other: int = 0) -> int:
        """As `GuestFunction` says."""
        self._store.set_epoch_deadline(self._deadline.ticker.due(self._deadline.ticks))
        result: int = self._function(self._store, *(argument, other)[: self._count])
        return result


class Frame:
    """Memory for one call at a time, with everything that a call needs of it, converted once.

    Attributes:
        values: Address of the values, as an argument.
        trap: Address of the trap, as an argument.
        words: View of the values: a field of a structure costs several times an item of a view.
        traps: View of the trap.
    """

    __slots__ = ("_memory", "trap", "traps", "values", "words")

    def __init__(self) -> None:
        self._memory = _Frame()
        start, trap = ctypes.addressof(self._memory), _Frame.trap.offset
        self.values, self.trap = _address.from_param(start), _address.from_param(start + trap)
        raw = memoryview(self._memory).cast("B")
        self.words, self.traps = raw[: 2 * _RAW_BYTES].cast("i"), raw[trap:].cast("P")


class NativeFunction:
    """A function by the C function below the public one; arguments as `bind` takes them.

    An object with few fields, and frames that whoever calls next finds in the caches: what a step of a guest that was
    not called for a while has to fetch is most of what it costs.
    """

    __slots__ = ("_context", "_function", "_held", "_scratch", "_ticker", "_ticks", "_usual")

    def __init__(self, store: wasmtime.Store, function: wasmtime.Func, deadline: Deadline, scratch: Scratch) -> None:
        self._held = function._func  # noqa: SLF001 — the reason for this file
        self._function = _address.from_param(ctypes.addressof(self._held))
        self._context = _address.from_param(ctypes.cast(store._context(), _address).value)  # noqa: SLF001 — as above
        self._scratch = scratch
        self._ticker, self._ticks = deadline
        self._usual = _epochs(self._ticks)

    def call(self, argument: int = 0, other: int = 0) -> int:
        """As `GuestFunction` says."""
        try:
            frame = self._scratch.pop()
        except IndexError:
            frame = Frame()
        words = frame.words
        words[0] = argument
        words[_SECOND] = other
        ticker = self._ticker
        _DEADLINE(
            self._context,
            self._usual if ticker.clock() < ticker.next_at else _epochs(ticker.due(self._ticks)),
        )
        error = _CALL(self._context, self._function, frame.values, _TWO, frame.trap)
        if error:
            native = ctypes.cast(error, ctypes.POINTER(_ERROR))
            raise wasmtime.WasmtimeError._from_ptr(native)  # noqa: SLF001 — the reason for this file
        if trap := frame.traps[0]:
            taken = ctypes.cast(trap, ctypes.POINTER(_TRAP))
            raise wasmtime.Trap._from_ptr(taken)  # noqa: SLF001 — the reason for this file
        result = words[0]
        self._scratch.append(frame)  # not after an error: what is left in it is nobody's business
        return result


def instantiate(store: wasmtime.Store, prepared: wasmtime.InstancePre) -> wasmtime.Instance:
    """A new instance in `store`.

    Raises:
        wasmtime.Trap: When its start traps.
        wasmtime.WasmtimeError: When it cannot be made.
    """
    if not AVAILABLE:
        return prepared.instantiate(store)
    instance, trap = _INSTANCE(), ctypes.POINTER(_TRAP)()
    error = _INSTANTIATE(prepared.ptr(), store._context(), ctypes.byref(instance), ctypes.byref(trap))  # noqa: SLF001 — the reason for this file
    if error:
        raise wasmtime.WasmtimeError._from_ptr(error)  # noqa: SLF001 — the reason for this file
    if bool(trap):
        raise wasmtime.Trap._from_ptr(trap)  # noqa: SLF001 — the reason for this file
    return wasmtime.Instance._from_raw(instance)  # noqa: SLF001 — the reason for this file


def memory(store: wasmtime.Store, instance: wasmtime.Instance, name: str) -> tuple[int, int]:
    """Address and size in bytes of the memory that an instance exports as `name`.

    Raises:
        KeyError: When there is no such export.
        wasmtime.WasmtimeError: When it is not a memory.
    """
    if AVAILABLE:
        item, context = _look_up(store, instance, name), store._context()  # noqa: SLF001 — the reason for this file
        if item.kind == _IS_MEMORY:
            raw = ctypes.byref(item.of.memory)
            return ctypes.addressof(_MEMORY_DATA(context, raw).contents), _MEMORY_SIZE(context, raw)
    found = export(store, instance, name)
    if not isinstance(found, wasmtime.Memory):
        raise wasmtime.WasmtimeError(f"no memory is exported as {name!r}")
    return ctypes.addressof(found.data_ptr(store).contents), found.data_len(store)


def export(store: wasmtime.Store, instance: wasmtime.Instance, name: str) -> object:
    """The export `name` of an instance: a `Func`, `Memory`, `Global` or `Table`.

    Raises:
        KeyError: When there is none.
    """
    return _wrap(_look_up(store, instance, name)) if AVAILABLE else instance.exports(store)[name]


def _look_up(store: wasmtime.Store, instance: wasmtime.Instance, name: str) -> Any:
    raw = name.encode()
    item = _EXTERN()
    found = _EXPORT(store._context(), ctypes.byref(instance._instance), raw, len(raw), ctypes.byref(item))  # noqa: SLF001 — the reason for this file
    if not found:
        raise KeyError(name)
    return item
