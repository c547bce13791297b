"""Atomics, pause and sleep, from which step.py builds its barrier and its share-and-steal task counters (clause 6)."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from .emit import I32, I64
from .sync import EVERYONE, FUTEX, HAS_FUTEX, NAP_MICROSECONDS, WAIT_PRIVATE, WAKE_PRIVATE

if TYPE_CHECKING:
    from .emit import Emit


def _pointer(k: Emit, address: Any, kind: Any) -> Any:
    return k.b.inttoptr(address, kind.as_pointer())


def atomic_load(k: Emit, address: Any) -> Any:
    """Reads an int32 as int64."""
    return k.b.sext(k.b.load_atomic(_pointer(k, address, I32), "seq_cst", 4, typ=I32), I64)


def atomic_add(k: Emit, address: Any, amount: Any) -> Any:
    """Adds to an int32 (acquire and release); returns what it held, as int64."""
    old = k.b.atomic_rmw("add", _pointer(k, address, I32), k.b.trunc(amount, I32), "seq_cst")
    return k.b.sext(old, I64)


def atomic_take(k: Emit, address: Any) -> Any:
    """Adds one to an int64 counter; returns what it held."""
    return k.b.atomic_rmw("add", _pointer(k, address, I64), k.i64(1), "monotonic")


def atomic_store(k: Emit, address: Any, value: Any) -> None:
    """Writes an int32; all int32 operations here share one order."""
    k.b.store_atomic(k.b.trunc(value, I32), _pointer(k, address, I32), "seq_cst", 4)


def store_i64(k: Emit, address: Any, value: Any) -> None:
    """Writes an int64."""
    k.store(address, value, align=8)


def prefetch(k: Emit, address: Any) -> None:
    """Asks for a cache line of the second level."""
    k.prefetch(address, near=2)


def prefetch_own(k: Emit, address: Any) -> None:
    """Asks for a cache line that will be written: other cores give up their copies meanwhile."""
    k.prefetch(address, write=True)


def pause(k: Emit) -> None:
    """Tells the core that this is a spin loop."""
    if platform.machine() == "x86_64":
        k.call("llvm.x86.sse2.pause", _void())
    elif platform.machine() == "aarch64":
        k.call("llvm.aarch64.hint", _void(), k.i32(1))


def _void() -> Any:
    return ir.VoidType()


def sleep_on(k: Emit, address: Any, expected: Any) -> None:
    """Sleeps until woken while the int32 there holds `expected`; may return early. Elsewhere than Linux: naps."""
    if HAS_FUTEX:
        _syscall(k, address, WAIT_PRIVATE, expected)
    else:
        k.call("usleep", I32, k.i32(NAP_MICROSECONDS))


def wake_all(k: Emit, address: Any) -> None:
    """Wakes every thread that sleeps on this address."""
    if HAS_FUTEX:
        _syscall(k, address, WAKE_PRIVATE, k.i64(EVERYONE))


def _syscall(k: Emit, address: Any, operation: int, value: Any) -> None:
    """Calls libc's variadic `syscall`; the libc symbol is found in the process."""
    kind = ir.FunctionType(I64, [I64], var_arg=True)
    function = k.b.module.globals.get("syscall") or ir.Function(k.b.module, kind, "syscall")
    number = k.i64(FUTEX[platform.machine()])
    k.b.call(function, [number, address, k.i64(operation), value, k.i64(0), k.i64(0), k.i64(0)])
