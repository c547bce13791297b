"""The matrix products of one instruction set behind three names, whatever the matrix's kind and the number of columns.

columns(tile, lines, form, acts, stride, plain, plain_stride, kind, blocks, n, out)
        One tile times n activation columns, to out (float32[n][16]). `form` is a `program.Form`; `lines` is the
        unpacked tile if there is one; float matrices read `plain` (float32 rows) instead of `acts`.
unpack(kind, tile, blocks, lines, n)
        Spreads a tile for products with n columns in all; does nothing for float matrices. With tile registers it goes
        another way from 16 columns on, so of so many no call of `columns` may have fewer.
embed(kind, tile, row, blocks, out)
        One row of a tile as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import DENSE_BYTES, LINE, NARROW, QUANTISED, WIDE, Kind
from .dense import dense_kernel, embed_dense
from .matmul import embed_quantised, tile_kernel, unpack_kernel, unpacked_kernel
from .native import Library
from .program import SQUARE, Form
from .squares import square_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .dot import Dot
    from .emit import Emit

PACKED_COLUMNS = 4
"""Most columns that a packed tile is multiplied with at a time."""
_SQUARE_RECORDS = {Form.UNPACKED: NARROW, Form.WIDE_UNPACKED: WIDE}
_WIDE_PLAIN = {Kind.Q4_1: (2, 1), Kind.Q4_0: (2, 1), Kind.Q8_0: (4, 2, 1)}


def packed_columns(kind: Kind) -> tuple[int, ...]:
    """Columns that a packed tile is multiplied with at a time, most first."""
    if kind in DENSE_BYTES:
        return (PACKED_COLUMNS, 1)
    return tuple(range(PACKED_COLUMNS, 0, -1)) if QUANTISED[kind].plain else (1,)


def wide_columns(kind: Kind) -> tuple[int, ...]:
    """The same for activations of 16 bits."""
    return _WIDE_PLAIN.get(kind, (1,))


def unpacked_columns(dot: Dot, kind: Kind) -> tuple[int, ...]:
    """The same for an unpacked tile; the rest of a plain kind goes to the packed one."""
    return (dot.columns,) if QUANTISED[kind].plain else (dot.columns, dot.columns // 2, 1)


def wide_unpacked_columns(dot: Dot, kind: Kind) -> tuple[int, ...]:
    """The same for activations of 16 bits."""
    if kind is Kind.Q8_0:
        return ()  # as fast from the packed tile
    return (dot.columns // 2,) if QUANTISED[kind].plain else (dot.columns // 2, 1)


def product_library(dot: Dot) -> Library:
    """The kernels of one version."""
    library = Library()
    for kind in QUANTISED:
        for count in packed_columns(kind):
            library.native(_name(kind, Form.PACKED, count), tile_kernel(dot, kind, count))
        for count in wide_columns(kind):
            library.native(_name(kind, Form.WIDE, count), tile_kernel(dot, kind, count, record=WIDE))
        for count in unpacked_columns(dot, kind):
            library.native(_name(kind, Form.UNPACKED, count), unpacked_kernel(dot, kind, count))
        for count in wide_unpacked_columns(dot, kind):
            body = unpacked_kernel(dot, kind, count, record=WIDE)
            library.native(_name(kind, Form.WIDE_UNPACKED, count), body)
        if dot.tile_registers is not None:
            for form, record in _SQUARE_RECORDS.items():
                library.native(square_name(kind, form), square_kernel(dot, kind, record=record))
            library.native(f"unpack_signed_{kind.name}", unpack_kernel(dot, kind, signed=True))
        library.native(f"unpack_{kind.name}", unpack_kernel(dot, kind))
        library.native(f"embed_{kind.name}", embed_quantised(dot, kind))
    for kind in DENSE_BYTES:
        for count in packed_columns(kind):
            library.native(_name(kind, Form.PACKED, count), dense_kernel(kind, count))
        library.native(f"embed_{kind.name}", embed_dense(kind))
    library.native("columns", _columns(library, dot))
    library.native("unpack", _unpack(library, dot))
    library.native("embed", _embed(library))
    return library


def _name(kind: Kind, form: Form, count: int) -> str:
    return f"{form.name.lower()}_{kind.name}_{count}"


def square_name(kind: Kind, form: Form) -> str:
    """The kernel that multiplies an unpacked tile on tile registers."""
    return f"square_{_name(kind, form, SQUARE)}"


def _for_kind(k: Emit, kind: Any, kinds: Iterable[Kind], body: Callable[[Kind], None]) -> None:
    """Runs `body` for the member that the i64 `kind` equals."""
    for member in kinds:
        with k.b.if_then(k.b.icmp_signed("==", kind, k.i64(member))):
            body(member)


def _columns(library: Library, dot: Dot) -> Callable[..., None]:
    def emit(
        k: Emit, tile: Any, lines: Any, form: Any, acts: Any, stride: Any, plain: Any, plain_stride: Any, kind: Any,
        blocks: Any, n: Any, out: Any,
    ) -> None:  # fmt: skip
        def run(plan: list[tuple[int, str]], rows: Any, row_bytes: Any, *spread: Any) -> None:
            """All columns, as many at a time as each kernel of the plan takes."""
            done = k.i64(0)
            for count, name in plan:
                times = k.b.udiv(k.b.sub(n, done), k.i64(count))
                with k.loop(times) as step:
                    column = k.at(done, k.times(step, count))
                    x, to = k.at(rows, k.b.mul(column, row_bytes)), k.at(out, k.times(column, LINE))
                    library.invoke(k, name, tile, *spread, x, row_bytes, blocks, to)
                done = k.at(done, k.times(times, count))

        def quantised(member: Kind) -> None:
            def plan(which: Form, counts: tuple[int, ...]) -> list[tuple[int, str]]:
                return [(count, _name(member, which, count)) for count in counts]

            packed, wide = plan(Form.PACKED, packed_columns(member)), plan(Form.WIDE, wide_columns(member))
            spread = plan(Form.UNPACKED, unpacked_columns(dot, member))
            wide_spread = plan(Form.WIDE_UNPACKED, wide_unpacked_columns(dot, member))
            rest, wide_rest = (packed, wide) if QUANTISED[member].plain else ([], [])
            plans = {
                Form.PACKED: packed,
                Form.UNPACKED: [*spread, *rest],
                Form.WIDE: wide,
                Form.WIDE_UNPACKED: [*wide_spread, *wide_rest],
            }
            for which, steps in plans.items():
                with k.b.if_then(k.b.icmp_signed("==", form, k.i64(which))):
                    if dot.tile_registers is None or which not in _SQUARE_RECORDS:
                        run(steps, acts, stride, lines)
                        continue
                    with k.b.if_else(k.b.icmp_signed("<", n, k.i64(SQUARE))) as (few, many):
                        with few:
                            run(steps, acts, stride, lines)
                        with many:
                            library.invoke(k, square_name(member, which), lines, acts, stride, blocks, out, n)

        def dense(member: Kind) -> None:
            steps = [(count, _name(member, Form.PACKED, count)) for count in packed_columns(member)]
            run(steps, plain, plain_stride)

        _for_kind(k, kind, QUANTISED, quantised)
        _for_kind(k, kind, DENSE_BYTES, dense)

    return emit


def _unpack(library: Library, dot: Dot) -> Callable[..., None]:
    def emit(k: Emit, kind: Any, tile: Any, blocks: Any, lines: Any, n: Any) -> None:
        def run(member: Kind) -> None:
            if dot.tile_registers is None:
                library.invoke(k, f"unpack_{member.name}", tile, blocks, lines)
                return
            with k.b.if_else(k.b.icmp_signed("<", n, k.i64(SQUARE))) as (few, many):
                with few:
                    library.invoke(k, f"unpack_{member.name}", tile, blocks, lines)
                with many:
                    library.invoke(k, f"unpack_signed_{member.name}", tile, blocks, lines)

        _for_kind(k, kind, QUANTISED, run)

    return emit


def _embed(library: Library) -> Callable[..., None]:
    def emit(k: Emit, kind: Any, tile: Any, row: Any, blocks: Any, out: Any) -> None:
        _for_kind(
            k, kind, tuple(Kind), lambda member: library.invoke(k, f"embed_{member.name}", tile, row, blocks, out)
        )

    return emit
