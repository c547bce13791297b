"""A thin layer over llvmlite's IR builder, so that a kernel reads like the arithmetic it does.

Rules
* Addresses are plain i64 values; every load and store states its type.
* Float arithmetic is exactly what is written: no fast-math flag, and `fma` only where a kernel says so (clause 4.2).
* Vectors may be wider than the machine's; LLVM splits them.

Example:
    k = Emit(builder)
    x = k.load(address, vector(F32, 8))
    k.store(address, k.fma(x, k.splat(k.f32(2.0), 8), x))
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils as _untyped

if TYPE_CHECKING:
    from collections.abc import Iterator

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32 = ir.HalfType(), ir.FloatType()


cgutils: Any = _untyped
"""numba's helpers carry no types."""


def vector(element: Any, lanes: int) -> ir.VectorType:
    """The LLVM type <lanes x element>."""
    return ir.VectorType(element, lanes)


def _suffix(kind: Any) -> str:
    """How an overloaded LLVM intrinsic spells this type, e.g. v8f32."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_suffix(kind.element)}"
    return {F16: "f16", F32: "f32"}.get(kind) or f"i{kind.width}"


class Emit:
    """Writes instructions at the end of a block.

    Attributes:
        b: The llvmlite builder, for the instructions that need no help.
    """

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder

    # constants

    def i64(self, value: int) -> ir.Constant:
        """A 64-bit integer."""
        return ir.Constant(I64, value)

    def i32(self, value: int) -> ir.Constant:
        """A 32-bit integer."""
        return ir.Constant(I32, value)

    def f32(self, value: float) -> ir.Constant:
        """A float32."""
        return ir.Constant(F32, value)

    def all(self, kind: Any, value: float) -> ir.Constant:
        """A constant of a scalar type, or of a vector type in each lane."""
        if not isinstance(kind, ir.VectorType):
            return ir.Constant(kind, value)
        return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)

    def const_lanes(self, kind: ir.VectorType, values: list[int]) -> ir.Constant:
        """A vector with these constants."""
        return ir.Constant(kind, [ir.Constant(kind.element, value) for value in values])

    # memory

    def at(self, base: Any, *offsets: Any) -> Any:
        """An address plus byte offsets (ints or i64 values)."""
        for offset in offsets:
            base = self.b.add(base, self.i64(offset) if isinstance(offset, int) else offset)
        return base

    def times(self, value: Any, factor: int) -> Any:
        """An i64 value times a constant."""
        return self.b.mul(value, self.i64(factor))

    def load(self, address: Any, kind: Any, align: int = 1) -> Any:
        """Reads one value of this type."""
        return self.b.load(self.b.inttoptr(address, kind.as_pointer()), align=align, typ=kind)

    def store(self, address: Any, value: Any, align: int = 1) -> None:
        """Writes one value."""
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer()), align=align)

    def prefetch(self, address: Any, near: int = 3, *, write: bool = False) -> None:
        """Asks for a cache line that will be read soon; `near` is 3 for the first level of cache, 2 for the second."""
        pointer = self.b.inttoptr(address, I8.as_pointer())
        self.call("llvm.prefetch.p0", ir.VoidType(), pointer, self.i32(int(write)), self.i32(near), self.i32(1))

    # arithmetic

    def call(self, name: str, result: Any, *args: Any) -> Any:
        """Calls an LLVM intrinsic or an external function by its full name."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self.b.call(cgutils.get_or_insert_function(self.b.module, kind, name), args)

    def math(self, name: str, *args: Any) -> Any:
        """Calls `llvm.NAME` overloaded on its first argument's type, which is also the result's."""
        return self.call(f"llvm.{name}.{_suffix(args[0].type)}", args[0].type, *args)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """Computes x * y + z with one rounding."""
        return self.math("fma", x, y, z)

    def abs(self, x: Any) -> Any:
        """Absolute value."""
        return self.math("fabs", x)

    def larger(self, x: Any, y: Any) -> Any:
        """The larger of two floats; y where x is NaN (x86 `maxps`)."""
        return self.b.select(self.b.fcmp_ordered(">", x, y), x, y)

    def smaller(self, x: Any, y: Any) -> Any:
        """The smaller of two floats; y where x is NaN (x86 `minps`)."""
        return self.b.select(self.b.fcmp_ordered("<", x, y), x, y)

    def greatest_int(self, x: Any, y: Any) -> Any:
        """The larger of two signed integers."""
        return self.math("smax", x, y)

    # lanes

    def splat(self, value: Any, lanes: int) -> Any:
        """A scalar in each lane."""
        kind = vector(value.type, lanes)
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), value, self.i32(0))
        return self.b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), self.all(vector(I32, lanes), 0))

    def shuffle(self, x: Any, y: Any, lanes: list[int]) -> Any:
        """Lanes picked from the two vectors put end to end."""
        mask = ir.Constant(vector(I32, len(lanes)), [self.i32(lane) for lane in lanes])
        return self.b.shuffle_vector(x, y, mask)

    def lane(self, x: Any, index: int) -> Any:
        """One lane as a scalar."""
        return self.b.extract_element(x, self.i32(index))

    def fold(self, x: Any, combine: Any) -> Any:
        """Reduces a vector by halves: lane i with lane i + n/2, always in this order (clause 4.1)."""
        lanes = x.type.count
        while lanes > 1:
            lanes //= 2
            low = self.shuffle(x, x, list(range(lanes)))
            x = combine(low, self.shuffle(x, x, list(range(lanes, 2 * lanes))))
        return self.lane(x, 0)

    # control

    def var(self, initial: Any) -> ir.AllocaInstr:
        """A local variable, which LLVM turns into a register."""
        slot = cgutils.alloca_once(self.b, initial.type)
        self.b.store(initial, slot)
        return slot

    def in_registers(self, slots: list[ir.AllocaInstr]) -> None:
        """Has these variables, all vectors, in registers here: nothing that makes or uses them is moved past it.

        For x86. It makes no instruction. LLVM's scheduler else mixes the lines of straight-line code, and spills.
        """
        values = [self.get(slot) for slot in slots]
        kinds, one = [value.type for value in values], len(values) == 1
        constraints = ",".join(["=x"] * len(values) + [str(index) for index in range(len(values))])
        function = ir.FunctionType(kinds[0] if one else ir.LiteralStructType(kinds), kinds)
        packed = self.b.asm(function, "", constraints, values, side_effect=True)
        for index, slot in enumerate(slots):
            self.set(slot, packed if one else self.b.extract_value(packed, index))

    def shelf(self, size: int) -> Any:
        """The address of `size` bytes of this function's own, which hold anything.

        (numba's `alloca_once` would have zeros written there, one by one while LLVM looks at it.)
        """
        with self.b.goto_entry_block():
            return self.b.ptrtoint(self.b.alloca(ir.ArrayType(I8, size)), I64)

    def aligned(self, address: Any, multiple: int) -> Any:
        """The first multiple of a power of two at or above an address."""
        return self.b.and_(self.at(address, multiple - 1), self.i64(-multiple))

    def get(self, slot: ir.AllocaInstr) -> Any:
        """A variable's value."""
        return self.b.load(slot)

    def set(self, slot: ir.AllocaInstr, value: Any) -> None:
        """Assigns a variable."""
        self.b.store(value, slot)

    @contextmanager
    def loop(self, count: Any) -> Iterator[Any]:
        """Runs the body for an i64 index from 0 below `count`; a constant 1 makes no loop."""
        if isinstance(count, ir.Constant) and count.constant == 1:
            yield self.i64(0)
            return
        with cgutils.for_range(self.b, count, intp=I64) as around:
            yield around.index
