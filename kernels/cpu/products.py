"""The matrix products of one instruction set behind three names, whatever the matrix's kind and the number of columns.

columns(tile, lines, form, acts, stride, plain, plain_stride, kind, blocks, n, out)
        One tile times n activation columns, to out (float32[n][16]). `form` is a `program.Form`; `lines` is the
        unpacked tile if there is one; float matrices read `plain` (float32 rows) instead of `acts`.
unpack(kind, tile, blocks, lines)
        Spreads a tile; does nothing for float matrices.
embed(kind, tile, row, blocks, out)
        One row of a tile as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import LINE, WIDE, Kind
from .dense import DENSE, dense_kernel
from .elementwise import embed_kernel
from .matmul import QUANTISED, tile_kernel, unpack_kernel
from .native import Library
from .program import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dot import Dot
    from .emit import Emit

WIDE_COLUMNS = {Kind.Q4_1: (2, 1), Kind.Q4_0: (2, 1), Kind.Q8_0: (4, 2, 1)}
"""Columns of 16-bit activations that a packed tile is multiplied with at a time, most first."""
PACKED_COLUMNS = 4
"""Most columns that a packed tile is multiplied with at a time."""


def product_library(dot: Dot) -> Library:
    """The kernels of one version."""
    library = Library()
    for kind in QUANTISED:
        for count in range(1, PACKED_COLUMNS + 1):
            library.native(_packed(kind, count), tile_kernel(dot, kind, count, unpacked=False))
        for count in WIDE_COLUMNS[kind]:
            library.native(_wide(kind, count), tile_kernel(dot, kind, count, unpacked=False, record=WIDE))
        if kind is not Kind.Q8_0:
            body = tile_kernel(dot, kind, dot.columns // 2, unpacked=True, record=WIDE)
            library.native(_wide_unpacked(kind), body)
        library.native(_unpacked(kind), tile_kernel(dot, kind, dot.columns, unpacked=True))
        library.native(f"unpack_{kind.name}", unpack_kernel(dot, kind))
    for kind in DENSE:
        for count in (1, PACKED_COLUMNS):
            library.native(_packed(kind, count), dense_kernel(kind, count))
    for kind in Kind:
        library.native(f"embed_{kind.name}", embed_kernel(kind))
    library.native("columns", _columns(library, dot))
    library.native("unpack", _unpack(library))
    library.native("embed", _embed(library))
    return library


def _packed(kind: Kind, count: int) -> str:
    return f"packed_{kind.name}_{count}"


def _wide(kind: Kind, count: int) -> str:
    return f"wide_{kind.name}_{count}"


def _wide_unpacked(kind: Kind) -> str:
    return f"wide_unpacked_{kind.name}"


def _unpacked(kind: Kind) -> str:
    return f"unpacked_{kind.name}"


def _for_kind(k: Emit, kind: Any, kinds: tuple[Kind, ...], body: Callable[[Kind], None]) -> None:
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
            packed = [(count, _packed(member, count)) for count in range(PACKED_COLUMNS, 0, -1)]
            wide = [(count, _wide(member, count)) for count in WIDE_COLUMNS[member]]
            spread = [] if member is Kind.Q8_0 else [(dot.columns // 2, _wide_unpacked(member))]
            plans = {
                Form.PACKED: packed,
                Form.UNPACKED: [(dot.columns, _unpacked(member)), *packed],
                Form.WIDE: wide,
                Form.WIDE_UNPACKED: [*spread, *wide],
            }
            for which, plan in plans.items():
                with k.b.if_then(k.b.icmp_signed("==", form, k.i64(which))):
                    run(plan, acts, stride, lines)

        def dense(member: Kind) -> None:
            run([(count, _packed(member, count)) for count in (PACKED_COLUMNS, 1)], plain, plain_stride)

        _for_kind(k, kind, QUANTISED, quantised)
        _for_kind(k, kind, DENSE, dense)

    return emit


def _unpack(library: Library) -> Callable[..., None]:
    def emit(k: Emit, kind: Any, tile: Any, blocks: Any, lines: Any) -> None:
        _for_kind(k, kind, QUANTISED, lambda member: library.invoke(k, f"unpack_{member.name}", tile, blocks, lines))

    return emit


def _embed(library: Library) -> Callable[..., None]:
    def emit(k: Emit, kind: Any, tile: Any, row: Any, blocks: Any, out: Any) -> None:
        _for_kind(
            k, kind, tuple(Kind), lambda member: library.invoke(k, f"embed_{member.name}", tile, row, blocks, out)
        )

    return emit
