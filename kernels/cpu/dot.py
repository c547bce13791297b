"""The dot-product layer: unsigned 8-bit weights times signed 8-bit activations, for a tile of 16 rows.

One "line" is 64 bytes: for each of 16 rows, 4 consecutive weights. A line is multiplied by 4 activations, which are
broadcast to all rows, and added to 16 integer sums. A version holds a line in `16 // lanes` vectors, and says into
how many planes it splits a weight of 8 bits, and how many lines a running sum takes (clause 5.2). All versions give
equal sums, and so equal logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .emit import I8, I16, I32, vector
from .isa import Isa
from .tile_registers import AmxRegisters, EmulatedRegisters

if TYPE_CHECKING:
    from .emit import Emit
    from .tile_registers import TileRegisters

TILE_ROWS = 16
LINE_BYTES = 64
BLOCK_LINES = 8
"""Lines of a block of 32 columns."""


class Dot(Protocol):
    """One version of the layer.

    Attributes:
        isa: Which.
        lanes: Rows in one vector.
        plane_bits: Most bits of a weight in one plane; weights of more go as two planes, low and high nibbles.
        columns: Most activation columns whose sums stay in registers.
        lines: Lines that a loop over several columns takes at a time.
        in_order: Whether products with several columns stay in the order of the lines (`Emit.in_registers`).
        tile_registers: What multiplies 16 columns at a time (squares.py), if anything does.
    """

    isa: Isa
    lanes: int
    plane_bits: int
    columns: int
    lines: int
    in_order: bool
    tile_registers: type[TileRegisters] | None

    def span(self, bits: int) -> int:
        """Lines of weights of so many bits that a running sum takes before it must be finished."""

    def zero(self, k: Emit) -> Any:
        """An empty running sum for `lanes` rows."""

    def accumulate(self, k: Emit, total: Any, weights: Any, activations: Any) -> Any:
        """Adds 4 products per row.

        Args:
            k: Where to emit.
            total: The running sum.
            weights: <4 * lanes x i8>, unsigned.
            activations: i32 that holds 4 signed bytes.
        """

    def finish(self, k: Emit, total: Any, multiplier: int) -> Any:
        """The running sum times a small constant, as <lanes x i32>."""

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """Replaces each byte, 0 to 15, by an entry of a table of 16 unsigned bytes."""


class _Int32Sums:
    """What versions have in common whose running sums are int32, one a row: they take a whole block."""

    lanes: int
    in_order = False
    tile_registers: type[TileRegisters] | None = None

    def span(self, _bits: int) -> int:
        """A whole block."""
        return BLOCK_LINES

    def zero(self, k: Emit) -> Any:
        """Int32 sums."""
        return k.all(vector(I32, self.lanes), 0)

    def finish(self, k: Emit, total: Any, multiplier: int) -> Any:
        """Nothing is left to add."""
        return total if multiplier == 1 else k.b.mul(total, k.all(total.type, multiplier))


class Vnni(_Int32Sums):
    """VNNI: `vpdpbusd` multiplies and adds 4 pairs to each int32; no saturation (255 * 127 * 4 fits)."""

    isa, lanes, plane_bits, columns, lines = Isa.AVX512VNNI, 16, 8, 8, 8

    def accumulate(self, k: Emit, total: Any, weights: Any, activations: Any) -> Any:
        """One instruction."""
        spread = k.b.bitcast(k.splat(activations, self.lanes), vector(I8, 4 * self.lanes))
        return k.call(f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}", total.type, total, weights, spread)

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """One shuffle in each 128-bit lane."""
        return k.call("llvm.x86.avx512.pshuf.b.512", indices.type, k.const_lanes(indices.type, 4 * table), indices)


class Amx(Vnni):
    """The same, and `tdpbssd` for 16 columns and more."""

    isa, tile_registers = Isa.AMX, AmxRegisters


class AvxVnni(Vnni):
    """The same on 256-bit registers, of which there are 16, for processors without AVX-512."""

    isa, lanes, columns, lines = Isa.AVXVNNI, 8, 4, 2

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """One shuffle in each 128-bit lane."""
        return k.call("llvm.x86.avx2.pshuf.b", indices.type, k.const_lanes(indices.type, 2 * table), indices)


class Avx2:
    """AVX2: `vpmaddubsw` into int16 sums that are widened once per 32 weights, 16 of 5 bits or 8 of 6.

    Bound (clause 5.2): activations are at most 127 in size, and a line adds two products to an int16 lane. So it takes
    8 lines of weights up to 15 (30,480 < 32,767), 4 up to 31 (31,496) or 2 up to 63 (32,004). Eight-bit weights go as
    two planes of nibbles: each line of them would have to be widened by itself, which is as many instructions.
    """

    isa, lanes, plane_bits, columns, lines, in_order = Isa.AVX2, 8, 6, 4, 8, True
    tile_registers: type[TileRegisters] | None = None

    def span(self, bits: int) -> int:
        """As many as int16 holds."""
        return min(BLOCK_LINES, 32_767 // (2 * 127 * ((1 << bits) - 1)))

    def zero(self, k: Emit) -> Any:
        """Int16 sums of pairs."""
        return k.all(vector(I16, 16), 0)

    def accumulate(self, k: Emit, total: Any, weights: Any, activations: Any) -> Any:
        """Two instructions for 32 products."""
        spread = k.b.bitcast(k.splat(activations, 8), vector(I8, 32))
        return k.b.add(total, k.call("llvm.x86.avx2.pmadd.ub.sw", vector(I16, 16), weights, spread))

    def finish(self, k: Emit, total: Any, multiplier: int) -> Any:
        """Adds neighbours and multiplies in one instruction."""
        return k.call("llvm.x86.avx2.pmadd.wd", vector(I32, 8), total, k.all(vector(I16, 16), multiplier))

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """One shuffle in each 128-bit lane."""
        return k.call("llvm.x86.avx2.pshuf.b", indices.type, k.const_lanes(indices.type, 2 * table), indices)

    def accumulate_whole(self, k: Emit, total: Any, weights: Any, even: Any, odd: Any) -> Any:
        """Adds 4 products of unsigned 8-bit weights and 16-bit activations to <8 x i32>.

        `even` and `odd` are i32 that hold activations 0 and 2, and 1 and 3. Bound: 32 * 255 * 32,385 < 2^31.
        """
        pairs = k.b.bitcast(weights, vector(I16, 16))
        low, high = k.b.and_(pairs, k.all(pairs.type, 255)), k.b.lshr(pairs, k.all(pairs.type, 8))
        for weight, activation in ((low, even), (high, odd)):
            spread = k.b.bitcast(k.splat(activation, 8), vector(I16, 16))
            total = k.b.add(total, k.call("llvm.x86.avx2.pmadd.wd", vector(I32, 8), weight, spread))
        return total


class DotProduct(_Int32Sums):
    """aarch64: `sdot` multiplies and adds 4 signed pairs to each int32, so a plane's weights stay below 128."""

    isa, lanes, plane_bits, columns, lines = Isa.DOTPROD, 4, 7, 4, 2

    def accumulate(self, k: Emit, total: Any, weights: Any, activations: Any) -> Any:
        """One instruction."""
        spread = k.b.bitcast(k.splat(activations, 4), vector(I8, 16))
        return k.call("llvm.aarch64.neon.sdot.v4i32.v16i8", total.type, total, weights, spread)

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """One table instruction."""
        return k.call("llvm.aarch64.neon.tbl1.v16i8", indices.type, k.const_lanes(indices.type, table), indices)


class Portable(_Int32Sums):
    """Generic vector IR that every target of LLVM lowers; int32 sums."""

    isa, lanes, plane_bits, columns, lines = Isa.PORTABLE, 8, 8, 4, 1

    def accumulate(self, k: Emit, total: Any, weights: Any, activations: Any) -> Any:
        """Shifts each of the 4 bytes of a row into place and multiplies in int32."""
        words = k.b.bitcast(weights, vector(I32, self.lanes))
        for byte in range(4):
            weight = k.b.and_(k.b.lshr(words, k.all(words.type, 8 * byte)), k.all(words.type, 255))
            activation = k.b.ashr(k.b.shl(activations, k.i32(24 - 8 * byte)), k.i32(24))
            total = k.b.add(total, k.b.mul(weight, k.splat(activation, self.lanes)))
        return total

    def look_up(self, k: Emit, table: list[int], indices: Any) -> Any:
        """A choice for each entry."""
        result = k.all(indices.type, table[0])
        for index, value in enumerate(table[1:], 1):
            is_it = k.b.icmp_unsigned("==", indices, k.all(indices.type, index))
            result = k.b.select(is_it, k.all(indices.type, value), result)
        return result


class EmulatedVnni(Portable):
    """The shape of `Vnni` (16 rows, 8 columns) with `Portable` arithmetic: runs VNNI's kernels anywhere, for tests."""

    lanes, columns, lines = 16, 8, 8


class EmulatedAmx(EmulatedVnni):
    """The shape of `Amx`, likewise."""

    tile_registers = EmulatedRegisters


VERSIONS: dict[Isa, Dot] = {dot.isa: dot for dot in (Amx(), Vnni(), AvxVnni(), Avx2(), DotProduct(), Portable())}
