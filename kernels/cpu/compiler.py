"""Compiles the step to relocatable object code; imported only when the cache has none.

The flow (step.py and below) is compiled by numba, once for all instruction sets; kernels are emitted as LLVM IR.
Nothing uses numba's runtime (kernelset.OPTIONS), so LLVM alone links the objects later, and a start from the cache
does not import numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import llvmlite.binding as llvm
from numba.core.registry import cpu_target

from .attention import attention_library
from .dot import VERSIONS
from .isa import hash_widths, wide_registers
from .kernelset import SHARED
from .native import Library
from .objects import Flow, Part
from .products import product_library
from .sha256 import add_pairs
from .sha256_lanes import add_eight, add_sixteen

if TYPE_CHECKING:
    from ..kv_type import KvType
    from .isa import Isa

_ADD_HASHING = {16: add_sixteen, 8: add_eight, 2: add_pairs}


def compile_part(part: Part, isa: Isa, kv_type: KvType) -> Flow:
    """Compiles one part of a step."""
    match part:
        case Part.FLOW:
            return compile_flow()
        case Part.PRODUCTS:
            return Flow("", (compile_products(isa),))
        case Part.ATTENTION:
            return Flow("", (compile_attention(kv_type),))
        case Part.HASHING:
            return Flow("", (compile_hashing(),))


def compile_flow() -> Flow:
    """Compiles what neither the instruction set nor the cache's type changes, for the processor that numba targets."""
    from .step import enter  # noqa: PLC0415 — importing it compiles it

    (result,) = enter.overloads.values()
    machine = target_machine()
    flow = machine.emit_object(result.library._final_module)  # noqa: SLF001 — the linked and optimised module
    return Flow(result.fndesc.llvm_func_name, (flow, emit_object(SHARED, machine)))


def compile_attention(kv_type: KvType) -> bytes:
    """Compiles what reads and writes a KV cache of one type."""
    return emit_object(attention_library(kv_type, many=wide_registers()), target_machine())


def compile_products(isa: Isa) -> bytes:
    """Compiles one version of the matrix products."""
    return emit_object(product_library(VERSIONS[isa]), target_machine())


def compile_hashing() -> bytes:
    """Compiles what hashes several messages at once on this machine."""
    return emit_object(hashing_library(), target_machine())


def hashing_library() -> Library:
    """The kernels for `hash_widths`."""
    library = Library()
    for width in hash_widths():
        _ADD_HASHING[width](library)
    return library


def target_machine() -> llvm.TargetMachine:
    """The processor that numba targets."""
    return cpu_target.target_context.codegen()._tm  # noqa: SLF001 — numba offers no public way to it


def optimise(library: Library, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """A library's optimised module."""
    module = llvm.parse_assembly(str(library.module(machine.triple)))
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False  # kernels unroll by themselves; see matmul._line_sums
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def emit_object(library: Library, machine: llvm.TargetMachine) -> bytes:
    """A library as object code."""
    return bytes(machine.emit_object(optimise(library, machine)))
