"""Calls one emitted kernel at a time, for tests and benchmarks; a step never goes this way."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from .compiler import optimise, target_machine
from .native import Library

if TYPE_CHECKING:
    from collections.abc import Callable


class Single:
    """A library's kernels as Python functions of ints.

    Args:
        library: Kernels; those named in `repeat` also get a version that runs n times in compiled code.
        repeat: Names.
        code: The library's object code, where it was compiled before; without `repeat` then.
    """

    def __init__(self, library: Library, repeat: tuple[str, ...] = (), *, code: bytes | None = None) -> None:
        whole = Library()
        whole.kernels.update(library.kernels)
        for name in repeat:
            whole.kernels[f"{name}:repeat"] = whole.kernels[name]._replace(
                symbol=f"repeat_{name}", body=_repeated(whole, name), arity=whole.kernels[name].arity + 2
            )
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = target_machine()
        self._jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_current_process()
        builder.add_object_img(bytes(machine.emit_object(optimise(whole, machine))) if code is None else code)
        for kernel in whole.kernels.values():
            builder.export_symbol(kernel.symbol)
        self._linked = builder.link(self._jit, "sealhost-single")
        self._kernels = whole.kernels

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The kernel `name`; `name:repeat` takes a count and a number of bytes first.

        The repeated version adds that many bytes to its first argument each time round.
        """
        kernel = self._kernels[name]
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * kernel.arity)
        return prototype(self._linked[kernel.symbol])


def _repeated(library: Library, name: str) -> Callable[..., None]:
    def emit(k: Any, count: Any, advance: Any, first: Any, *rest: Any) -> None:
        with k.loop(count) as index:
            library.invoke(k, name, k.at(first, k.b.mul(index, advance)), *rest)

    return emit
