"""The one place that touches the binding's private side: calls, look-ups and loads without its checks and copies.

The public `InstanceExports` wraps every export of an instance (64 µs for six); `export` looks up one.
The public `Func.__call__` asks for the function's type and boxes each value: 25 to 60 µs. The C function below it takes
raw 16-byte values. Types are not checked there, so only functions whose exact type has been checked may be bound
(clause 4.5): up to two i32 in, one i32 out.

When a release of the binding lacks one of the names, the public way is taken, and everything else stays as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import wasmtime

GuestFunction: TypeAlias = Callable[..., int]

try:
    from wasmtime import _bindings as _native
    from wasmtime import _extern

    _CALL = _native._wasmtime_func_call_unchecked  # noqa: SLF001 — the reason for this file
    _DEADLINE = _native._wasmtime_context_set_epoch_deadline  # noqa: SLF001 — the reason for this file
    _RAW_VALUE: Any = _native.wasmtime_val_raw_t
    _TRAP = _native.wasm_trap_t
    _EXPORT = _native._wasmtime_instance_export_get  # noqa: SLF001 — the reason for this file
    _EXTERN: Any = _native.wasmtime_extern_t
    _DESERIALIZE = _native._wasmtime_module_deserialize  # noqa: SLF001 — the reason for this file
    _MODULE: Any = _native.wasmtime_module_t
    _wrap = _extern.wrap_extern
    AVAILABLE = True
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

    def call(*arguments: int) -> int:
        store.set_epoch_deadline(deadline())
        result: int = function(store, *arguments)
        return result

    return call


def _bind_native(store: wasmtime.Store, function: wasmtime.Func, deadline: Callable[[], int]) -> GuestFunction:
    context = store._context()  # noqa: SLF001 — the reason for this file
    raw_function = function._func  # noqa: SLF001 — the reason for this file
    reference = ctypes.byref(raw_function)
    values = (_RAW_VALUE * 2)()  # arguments in, result out; two is the most that the ABI's functions take
    first, second = values[0], values[1]
    trap = ctypes.POINTER(_TRAP)()
    trap_reference = ctypes.byref(trap)

    def call(argument: int = 0, other: int = 0) -> int:
        first.i32 = argument
        second.i32 = other
        _DEADLINE(context, deadline())
        error = _CALL(context, reference, values, 2, trap_reference)
        if error:
            raise wasmtime.WasmtimeError._from_ptr(error)  # noqa: SLF001 — the reason for this file
        if trap:  # type: ignore[truthy-bool]  # a ctypes pointer is false when null
            taken = ctypes.cast(trap, ctypes.POINTER(_TRAP))
            ctypes.memset(trap_reference, 0, ctypes.sizeof(ctypes.c_void_p))
            raise wasmtime.Trap._from_ptr(taken)  # noqa: SLF001 — the reason for this file
        result: int = first.i32
        return result

    return call


def load(engine: wasmtime.Engine, compiled: bytes, at: int) -> wasmtime.Module:
    """The module whose compiled code is `compiled[at:]`; trusted already (clause 2.2).

    The public call copies megabytes into a ctypes array first.

    Raises:
        wasmtime.WasmtimeError: When it was compiled for another engine.
    """
    if not AVAILABLE:
        return wasmtime.Module.deserialize(engine, compiled[at:])
    module = ctypes.POINTER(_MODULE)()
    start = ctypes.cast(ctypes.c_char_p(compiled), ctypes.c_void_p).value or 0
    code = ctypes.cast(start + at, ctypes.POINTER(ctypes.c_uint8))
    error = _DESERIALIZE(engine.ptr(), code, len(compiled) - at, ctypes.byref(module))
    if error:
        raise wasmtime.WasmtimeError._from_ptr(error)  # noqa: SLF001 — the reason for this file
    return wasmtime.Module._from_ptr(module)  # noqa: SLF001 — the reason for this file


def export(store: wasmtime.Store, instance: wasmtime.Instance, name: str) -> object:
    """The export `name` of an instance: a `Func`, `Memory`, `Global` or `Table`.

    Raises:
        KeyError: When there is none.
    """
    if not AVAILABLE:
        return instance.exports(store)[name]
    raw = name.encode()
    item = _EXTERN()
    found = _EXPORT(store._context(), ctypes.byref(instance._instance), raw, len(raw), ctypes.byref(item))  # noqa: SLF001 — the reason for this file
    if not found:
        raise KeyError(name)
    return _wrap(item)
