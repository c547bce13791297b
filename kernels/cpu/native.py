"""Kernels written as emitters: LLVM functions in a module of their own, which numba code calls by name.

Numba compiles a function anew at each level of its callers, so kernels stay outside: its modules only declare them,
they are optimised once, in one module, and meet the callers when the objects are linked. Arguments are int64.

Example:
    library = Library()
    double = library.native("double", lambda k, x: k.b.add(x, x), returns=I64)

    @njit
    def quadruple(x):
        return double(double(x))
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from llvmlite import ir
from numba.core import types as _untyped
from numba.extending import intrinsic

from .emit import F32, I64, Emit, cgutils

if TYPE_CHECKING:
    from collections.abc import Callable

types: Any = _untyped
_NUMBA = {None: types.void, I64: types.int64, F32: types.float32}


class Kernel(NamedTuple):
    """One function to be emitted."""

    symbol: str
    body: Callable[..., Any]
    arity: int
    returns: Any

    @property
    def type(self) -> ir.FunctionType:
        """Its LLVM type."""
        return ir.FunctionType(self.returns or ir.VoidType(), [I64] * self.arity)


class Library:
    """A set of kernels.

    Attributes:
        kernels: What `module` emits, by name.
    """

    def __init__(self) -> None:
        self.kernels: dict[str, Kernel] = {}

    def native(self, name: str, body: Callable[..., Any], *, returns: Any = None) -> Any:
        """Adds a kernel.

        Args:
            name: Tells the kernels of one program apart.
            body: Called with an `Emit` and one i64 value per argument; its result is the function's.
            returns: None, I64 or F32.

        Returns:
            A callable for use inside njit functions.
        """
        arity = len(inspect.signature(body).parameters) - 1
        self.kernels[name] = Kernel(f"sealhost_{name}", body, arity, returns)
        return self.declared(name)

    def declared(self, name: str) -> Any:
        """A callable for a kernel that was added."""
        kernel = self.kernels[name]

        def code(builder: Any, values: list[Any]) -> Any:
            return builder.call(cgutils.get_or_insert_function(builder.module, kernel.type, kernel.symbol), values)

        return _callable(code, kernel.returns)

    def invoke(self, k: Emit, name: str, *values: Any) -> Any:
        """Emits a call of one kernel from another one."""
        kernel = self.kernels[name]
        return k.b.call(cgutils.get_or_insert_function(k.b.module, kernel.type, kernel.symbol), values)

    def module(self, triple: str) -> ir.Module:
        """Emits all kernels."""
        module = ir.Module("sealhost-kernels")
        module.triple = triple
        for kernel in self.kernels.values():
            function = cgutils.get_or_insert_function(module, kernel.type, kernel.symbol)
            function.attributes.add("nounwind")
            function.attributes.add("noinline")
            emit = Emit(ir.IRBuilder(function.append_basic_block("entry")))
            result = kernel.body(emit, *function.args)
            if kernel.returns is None:
                emit.b.ret_void()
            else:
                emit.b.ret(result)
        return module


def inline(body: Callable[..., Any], *, returns: Any = None) -> Any:
    """Wraps an emitter of a few instructions, which are emitted at each call."""
    return _callable(lambda builder, values: body(Emit(builder), *values), returns)


def _callable(code: Callable[[Any, list[Any]], Any], returns: Any) -> Any:
    @intrinsic
    def call(_typing: Any, *args: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, packed: Any) -> Any:
            values = [builder.extract_value(packed[0], index) for index in range(len(args))]
            result = code(builder, values)
            return context.get_dummy_value() if returns is None else result

        return _NUMBA[returns](types.UniTuple(types.int64, len(args))), generate

    return call
