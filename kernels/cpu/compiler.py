"""Compiles the step with numba to relocatable object code; imported only when the cache has none.

The functions take and return int64 only and use no runtime of numba's (kernelset.OPTIONS), so the object can be linked
later by LLVM alone: a cached start does not import numba.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

import llvmlite.binding as llvm

from .dot import VERSIONS
from .kernelset import SHARED
from .step import build_entry

if TYPE_CHECKING:
    from .dot import Dot
    from .isa import Isa
    from .native import Library


class Compiled(NamedTuple):
    """Object code, and the symbol of `enter(context, thread)` in it."""

    symbol: str
    objects: tuple[bytes, ...]


def compile_step(isa: Isa) -> Compiled:
    """Compiles for the processor that numba targets."""
    return compile_entry(VERSIONS[isa])


def compile_entry(dot: Dot) -> Compiled:
    """Compiles with one version of the dot products."""
    entry = build_entry(dot)
    _satisfy_numba((SHARED, entry.library))
    entry.enter.compile("int64(int64,int64)")
    (result,) = entry.enter.overloads.values()
    machine = result.library.codegen._tm  # noqa: SLF001 — numba offers no public way to its target machine
    flow = machine.emit_object(result.library._final_module)  # noqa: SLF001 — the linked and optimised module
    kernels = [_optimised(library, machine) for library in (SHARED, entry.library)]
    return Compiled(result.fndesc.llvm_func_name, (flow, *kernels))


def _satisfy_numba(libraries: tuple[Library, ...]) -> None:
    """Gives numba's own linker an address for each kernel; that code never runs, so it is the address of `abort`."""
    nowhere = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for library in libraries:
        for kernel in library.kernels:
            llvm.add_symbol(kernel.symbol, nowhere)


def _optimised(library: Library, machine: llvm.TargetMachine) -> bytes:
    module = llvm.parse_assembly(str(library.module(machine.triple)))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False  # kernels unroll by themselves; see matmul._block_sums
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)
