"""Registers that hold 16 x 16 sums: Intel's AMX, and the same in plain vector code for machines without it.

An operation takes 16 columns of signed activations (a register's rows, `depth` bytes each) and 16 rows of signed
weights (in lines of 64 bytes, 16 rows x 4 columns, as an unpacked tile has them) and adds their products to 16 x 16
int32: row c of the sums belongs to activation column c, lane r to the tile's row r.

Example:
    registers = AmxRegisters(k, depth=32)
    registers.configure()
    registers.load(ACTIVATIONS[0], acts, stride)
    registers.load(WEIGHTS[0], lines, k.i64(LINE))
    registers.clear(SUMS[0])
    registers.multiply(SUMS[0], ACTIVATIONS[0], WEIGHTS[0])
    registers.store(SUMS[0], out)
    registers.release()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from llvmlite import ir

from ..layouts import LINE, TILE_ROWS
from .emit import I8, I32, I64, vector

if TYPE_CHECKING:
    from .emit import Emit

SUMS, ACTIVATIONS, WEIGHTS = (0, 1, 2, 3), (4, 5), (6, 7)
"""Numbers of the registers by what they are configured to hold."""
SUMS_BYTES = TILE_ROWS * LINE
"""Bytes of 16 x 16 int32 in memory."""
_CONFIGURATION_BYTES, _WIDTHS_AT, _HEIGHTS_AT = 64, 16, 48
_PALETTE = 1
_FOUR = 4
"""Columns in a line."""


class TileRegisters(Protocol):
    """The registers in one function.

    Args of its constructor: the `Emit` of the function; `depth`, columns of a block that are multiplied at a time, 16
    or 32.
    """

    def __init__(self, k: Emit, depth: int) -> None: ...

    def configure(self) -> None:
        """Makes the registers usable on this thread, until `release`."""

    def release(self) -> None:
        """Leaves them empty, so that the system has nothing of them to save when it switches threads."""

    def load(self, register: int, at: Any, stride: Any) -> None:
        """Fills a register of activations or weights, whose rows (lines) begin `stride` bytes apart."""

    def clear(self, register: int) -> None:
        """Sets sums to zero."""

    def multiply(self, sums: int, activations: int, weights: int) -> None:
        """Adds the products of two registers to the sums."""

    def store(self, register: int, at: Any) -> None:
        """Writes sums: SUMS_BYTES, one row of 16 int32 for each activation column."""


class AmxRegisters:
    """AMX: `tdpbssd`, 16 x 16 x depth products in 16 cycles, whatever the depth."""

    def __init__(self, k: Emit, depth: int) -> None:
        self.k, self._depth = k, depth

    def configure(self) -> None:
        """From a constant, which no compiler takes for a dead store."""
        module, name = self.k.b.module, f"sealhost_tiles_{self._depth}"
        if name not in module.globals:
            whole = ir.GlobalVariable(module, ir.ArrayType(I8, _CONFIGURATION_BYTES), name)
            whole.global_constant, whole.linkage, whole.align = True, "private", _CONFIGURATION_BYTES
            whole.initializer = ir.Constant(whole.value_type, bytearray(configuration(self._depth)))
        self._do("ldtilecfg", self.k.b.bitcast(module.globals[name], I8.as_pointer()))

    def release(self) -> None:
        """One instruction."""
        self._do("tilerelease")

    def load(self, register: int, at: Any, stride: Any) -> None:
        """A row at a time."""
        self._do("tileloadd64", ir.Constant(I8, register), self._pointer(at), stride)

    def clear(self, register: int) -> None:
        """One instruction."""
        self._do("tilezero", ir.Constant(I8, register))

    def multiply(self, sums: int, activations: int, weights: int) -> None:
        """Both signed: the zero point has been taken from the weights."""
        self._do("tdpbssd", *(ir.Constant(I8, register) for register in (sums, activations, weights)))

    def store(self, register: int, at: Any) -> None:
        """A row at a time."""
        self._do("tilestored64", ir.Constant(I8, register), self._pointer(at), self.k.i64(LINE))

    def _do(self, name: str, *args: Any) -> None:
        self.k.call(f"llvm.x86.{name}", ir.VoidType(), *args)

    def _pointer(self, at: Any) -> Any:
        return self.k.b.inttoptr(at, I8.as_pointer())


def configuration(depth: int) -> bytes:
    """The 64 bytes of `ldtilecfg`: palette 1, then each register's bytes a row (uint16) and its rows (uint8)."""
    shapes = dict.fromkeys(SUMS, (LINE, TILE_ROWS))
    shapes |= dict.fromkeys(ACTIVATIONS, (depth, TILE_ROWS))
    shapes |= dict.fromkeys(WEIGHTS, (LINE, depth // _FOUR))
    whole = bytearray(_CONFIGURATION_BYTES)
    whole[0] = _PALETTE
    for register, (width, height) in shapes.items():
        whole[_WIDTHS_AT + 2 * register : _WIDTHS_AT + 2 * register + 2] = width.to_bytes(2, "little")
        whole[_HEIGHTS_AT + register] = height
    return bytes(whole)


class EmulatedRegisters:
    """The same registers on the function's stack, with arithmetic that every machine has: for tests."""

    def __init__(self, k: Emit, depth: int) -> None:
        self.k, self._depth = k, depth
        self._shelf = k.shelf((len(SUMS) + len(ACTIVATIONS) + len(WEIGHTS)) * SUMS_BYTES)

    def configure(self) -> None:
        """Nothing to do."""

    def release(self) -> None:
        """Nothing to do."""

    def load(self, register: int, at: Any, stride: Any) -> None:
        """Copies rows."""
        rows, kind = (self._depth // _FOUR, LINE) if register in WEIGHTS else (TILE_ROWS, self._depth)
        self._copy(at, stride, self._place(register), rows, vector(I8, kind))

    def clear(self, register: int) -> None:
        """Writes zeros."""
        with self.k.loop(self.k.i64(TILE_ROWS)) as row:
            zeros = self.k.all(vector(I32, TILE_ROWS), 0)
            self.k.store(self.k.at(self._place(register), self.k.times(row, LINE)), zeros)

    def multiply(self, sums: int, activations: int, weights: int) -> None:
        """Byte by byte."""
        k, words = self.k, vector(I32, TILE_ROWS)
        with k.loop(k.i64(TILE_ROWS)) as column:
            at = k.at(self._place(sums), k.times(column, LINE))
            total = k.var(k.load(at, words))
            with k.loop(k.i64(self._depth // _FOUR)) as line:
                row = k.load(k.at(self._place(weights), k.times(line, LINE)), words)
                for byte in range(_FOUR):
                    left = k.all(words, 24 - 8 * byte)
                    weight = k.b.ashr(k.b.shl(row, left), k.all(words, 24))
                    here = k.at(self._place(activations), k.times(column, LINE), k.times(line, _FOUR), byte)
                    activation = k.splat(k.b.sext(k.load(here, I8), I32), TILE_ROWS)
                    k.set(total, k.b.add(k.get(total), k.b.mul(weight, activation)))
            k.store(at, k.get(total))

    def store(self, register: int, at: Any) -> None:
        """Copies the sums."""
        self._copy(self._place(register), self.k.i64(LINE), at, TILE_ROWS, vector(I32, TILE_ROWS))

    def _place(self, register: int) -> Any:
        return self.k.at(self._shelf, register * SUMS_BYTES)

    def _copy(self, source: Any, stride: Any, to: Any, rows: int, kind: Any) -> None:
        k = self.k
        with k.loop(ir.Constant(I64, rows)) as row:
            k.store(k.at(to, k.times(row, LINE)), k.load(k.at(source, k.b.mul(row, stride)), kind))
