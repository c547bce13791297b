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
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import wasmtime

GuestFunction: TypeAlias = Callable[..., int]

_HOLE = bytes(1 << 16)
"""Zeros that a file in memory need not hold: much of a guest's memory is empty."""

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
    _library: ctypes.CDLL = _native.dll  # type: ignore[attr-defined]  # it is there, though not declared

    class _Frame(ctypes.Structure):
        """What a call reads and writes beside the guest's memory, all in one place.

        Attributes:
            values: Arguments in, result out; two is the most that the ABI's functions take.
            function: What is called.
            trap: Null, or what the call ended by.
        """

        _fields_ = (("values", _RAW_VALUE * 2), ("function", _native.wasmtime_func_t), ("trap", _address))

    _CALL = ctypes.CFUNCTYPE(_address, _address, _address, _address, ctypes.c_size_t, _address)(
        ("wasmtime_func_call_unchecked", _library)
    )
    _DEADLINE = ctypes.PYFUNCTYPE(None, _address, ctypes.c_uint64)(("wasmtime_context_set_epoch_deadline", _library))
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


def bind(store: wasmtime.Store, function: wasmtime.Func, deadline: Callable[[], int]) -> GuestFunction:
    """A callable that sets the deadline, calls `function`, and returns its i32.

    Args:
        store: The function's store; must outlive the callable.
        function: Takes up to two i32, returns one i32; checked by the caller.
        deadline: Epoch ticks that a call which starts now may take.

    Raises (the callable):
        wasmtime.Trap: When the guest traps or is interrupted.
        wasmtime.WasmtimeError: When the call could not be made.
    """
    return _bind_native(store, function, deadline) if AVAILABLE else bind_public(store, function, deadline)


def bind_public(store: wasmtime.Store, function: wasmtime.Func, deadline: Callable[[], int]) -> GuestFunction:
    """The same through the binding's public names."""
    count = len(function.type(store).params)

    def call(argument: int = 0, other: int = 0) -> int:
        store.set_epoch_deadline(deadline())
        result: int = function(store, *(argument, other)[:count])
        return result

    return call


def _bind_native(store: wasmtime.Store, function: wasmtime.Func, deadline: Callable[[], int]) -> GuestFunction:
    context = ctypes.cast(store._context(), _address)  # noqa: SLF001 — the reason for this file
    frame = _Frame(function=function._func)  # noqa: SLF001 — the reason for this file
    start = ctypes.addressof(frame)
    at_values, at_function, at_trap = map(
        _address, (start, start + _Frame.function.offset, start + _Frame.trap.offset)
    )  # converted once: a number is converted by each call
    two = ctypes.c_size_t(2)
    raw = memoryview(frame).cast("B")  # a field of the structure costs several times an item of a view
    words, traps = raw[: 2 * _RAW_BYTES].cast("i"), raw[_Frame.trap.offset :].cast("P")
    second = _RAW_BYTES // words.itemsize

    def call(argument: int = 0, other: int = 0) -> int:
        words[0] = argument
        words[second] = other
        _DEADLINE(context, deadline())
        error = _CALL(context, at_function, at_values, two, at_trap)
        if error:
            native = ctypes.cast(error, ctypes.POINTER(_ERROR))
            raise wasmtime.WasmtimeError._from_ptr(native)  # noqa: SLF001 — the reason for this file
        if traps[0]:
            taken = ctypes.cast(traps[0], ctypes.POINTER(_TRAP))
            traps[0] = 0
            raise wasmtime.Trap._from_ptr(taken)  # noqa: SLF001 — the reason for this file
        return words[0]

    return call


def load(engine: wasmtime.Engine, compiled: bytes, at: int) -> wasmtime.Module:
    """The module whose compiled code is `compiled[at:]`; trusted already (clause 2.2).

    wasmtime maps a file, and takes the image of a module's memory from it, while it copies bytes, and copies the image
    once more for its first instance.

    Raises:
        wasmtime.WasmtimeError: When it was compiled for another engine.
    """
    with suppress(OSError, AttributeError, wasmtime.WasmtimeError):  # no such system, no /proc, or not to be mapped
        return _load_mapped(engine, compiled, at)
    return wasmtime.Module.deserialize(engine, compiled[at:])


def _load_mapped(engine: wasmtime.Engine, compiled: bytes, at: int) -> wasmtime.Module:
    """From a file in memory that nobody can change any more: what was checked is what runs."""
    file = os.memfd_create("sealhost-guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, len(compiled) - at)
        view = memoryview(compiled)
        for start in range(at, len(compiled), len(_HOLE)):
            piece = view[start : start + len(_HOLE)]
            if not compiled.startswith(_HOLE, start) and os.pwrite(file, piece, start - at) < len(piece):
                raise OSError("no memory left for a module")
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        return wasmtime.Module.deserialize_file(engine, f"/proc/self/fd/{file}")
    finally:
        os.close(file)


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
