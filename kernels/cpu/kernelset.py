"""The emitted kernels as callables for numba code.

Those in SHARED are the same everywhere. The products (products.py) come in one version for each instruction set under
the same names, and so do those that read or write the KV cache (attention.py) for each type of it. So the code that
calls them is compiled once and linked with either.
"""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import llvmlite.binding as llvm
from numba import njit, types

from ..kv_type import KvType
from . import attention, barrier, elementwise, features
from .dot import VERSIONS
from .emit import I64
from .isa import Isa
from .native import Library, inline
from .packing import add_packing
from .products import product_library

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # a division by zero must not raise in compiled code: no exceptions, no Python objects
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Numba options of every function: nothing of Python is left in the object code."""


def function(body: Any) -> Any:
    """Compiles a function at once, for int64 arguments only: numba would make another version for each mix of types."""
    arity = len(inspect.signature(body).parameters)
    return njit((types.int64,) * arity, **OPTIONS)(body)


SHARED = Library()
"""Kernels that no instruction set changes."""

load = inline(elementwise.load_i64, returns=I64)
load32 = inline(elementwise.load_i32, returns=I64)
store = inline(barrier.store_i64)
store32 = inline(elementwise.store_i32)
atomic_load = inline(barrier.atomic_load, returns=I64)
atomic_store = inline(barrier.atomic_store)
atomic_add = inline(barrier.atomic_add, returns=I64)
atomic_take = inline(barrier.atomic_take, returns=I64)
pause = inline(barrier.pause)
prefetch = inline(barrier.prefetch)
prefetch_own = inline(barrier.prefetch_own)
sleep_on = inline(barrier.sleep_on)
wake_all = inline(barrier.wake_all)

norm_quantise = SHARED.native("norm_quantise", elementwise.norm_quantise)
norm_quantise_wide = SHARED.native("norm_quantise_wide", elementwise.norm_quantise_wide)
quantise = SHARED.native("quantise", elementwise.quantise)
swiglu_quantise = SHARED.native("swiglu_quantise", elementwise.gate_quantise(elementwise.silu))
geglu_quantise = SHARED.native("geglu_quantise", elementwise.gate_quantise(features.gelu_tanh))
cap_tile = SHARED.native("cap_tile", features.cap_tile)
scale_row = SHARED.native("scale_row", features.scale_row)
settle = SHARED.native("settle", features.settle)
norm_head = SHARED.native("norm_head", features.norm_head)
rope = SHARED.native("rope", elementwise.rope)
add_rows = SHARED.native("add_rows", elementwise.add_rows)
put_rows = SHARED.native("put_rows", elementwise.put_rows)
merge = SHARED.native("merge", attention.merge)
start_state = SHARED.native("start_state", attention.start_state)
finish_state = SHARED.native("finish_state", attention.finish_state)
add_packing(SHARED)

_ATTENTION = attention.attention_library(KvType.FLOAT16, many=False)
"""Any type's: only names and arguments matter to the callers."""
store_kv = _ATTENTION.declared("store_kv")
attend1, attend2, attend3, attend4, attend6 = (
    _ATTENTION.declared(f"attend{queries}") for queries in attention.QUERY_COUNTS
)

_PRODUCTS = product_library(VERSIONS[Isa.PORTABLE])
"""Any version's: only names and arguments matter to the callers."""
columns, unpack, embed = (_PRODUCTS.declared(name) for name in ("columns", "unpack", "embed"))


def _satisfy_numba() -> None:
    """Gives numba's own linker an address for each kernel; that code never runs, so it is the address of `abort`."""
    nowhere = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for library in (SHARED, _ATTENTION, _PRODUCTS):
        for kernel in library.kernels.values():
            llvm.add_symbol(kernel.symbol, nowhere)


_satisfy_numba()
