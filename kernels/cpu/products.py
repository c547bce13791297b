"""The matrix products of one instruction set behind three names, whatever the matrix's kind and the number of columns.

columns(tile, lines, is_unpacked, acts, stride, plain, plain_stride, kind, blocks, n, out)
        One tile times n activation columns, to out (float32[n][16]). `lines` is the unpacked tile if there is one;
        float matrices read `plain` (float32 rows) instead of `acts`.
unpack(kind, tile, blocks, lines)
        Spreads a tile; does nothing for float matrices.
embed(kind, tile, row, blocks, out)
        One row of a tile as float32.
"""

# ruff: noqa: PLR0917 — a kernel takes machine words by position

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..layouts import LINE, Kind
from .dense import DENSE, dense_kernel
from .elementwise import embed_kernel
from .matmul import QUANTISED, tile_kernel, unpack_kernel
from .native import Library

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dot import Dot
    from .emit import Emit

PACKED_COLUMNS = 4
"""Most columns that a packed tile is multiplied with at a time."""


def product_library(dot: Dot) -> Library:
    """The kernels of one version."""
    library = Library()
    for kind in QUANTISED:
        for count in range(1, PACKED_COLUMNS + 1):
            library.native(_packed(kind, count), tile_kernel(dot, kind, count, unpacked=False))
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


def _unpacked(kind: Kind) -> str:
    return f"unpacked_{kind.name}"


def _for_kind(k: Emit, kind: Any, kinds: tuple[Kind, ...], body: Callable[[Kind], None]) -> None:
    """Runs `body` for the member that the i64 `kind` equals."""
    for member in kinds:
        with k.b.if_then(k.b.icmp_signed("==", kind, k.i64(member))):
            body(member)


def _columns(library: Library, dot: Dot) -> Callable[..., None]:
    def emit(
        k: Emit, tile: Any, lines: Any, is_unpacked: Any, acts: Any, stride: Any, plain: Any, plain_stride: Any,
        kind: Any, blocks: Any, n: Any, out: Any,
    ) -> None:  # fmt: skip
        spread = k.b.icmp_signed("!=", is_unpacked, k.i64(0))
        whole = k.b.select(spread, k.b.udiv(n, k.i64(dot.columns)), k.i64(0))

        def quantised(member: Kind) -> None:
            def at(column: Any) -> tuple[Any, Any]:
                return k.at(acts, k.b.mul(column, stride)), k.at(out, k.times(column, LINE))

            with k.loop(whole) as step:
                x, to = at(k.times(step, dot.columns))
                library.invoke(k, _unpacked(member), tile, lines, x, stride, blocks, to)
            done = k.times(whole, dot.columns)
            fours = k.b.udiv(k.b.sub(n, done), k.i64(PACKED_COLUMNS))
            with k.loop(fours) as step:
                x, to = at(k.at(done, k.times(step, PACKED_COLUMNS)))
                library.invoke(k, _packed(member, PACKED_COLUMNS), tile, lines, x, stride, blocks, to)
            done = k.at(done, k.times(fours, PACKED_COLUMNS))
            for count in range(1, PACKED_COLUMNS):
                with k.b.if_then(k.b.icmp_signed("==", k.b.sub(n, done), k.i64(count))):
                    x, to = at(done)
                    library.invoke(k, _packed(member, count), tile, lines, x, stride, blocks, to)

        def dense(member: Kind) -> None:
            fours = k.b.udiv(n, k.i64(PACKED_COLUMNS))
            done = k.times(fours, PACKED_COLUMNS)
            for count, times, start in ((PACKED_COLUMNS, fours, k.i64(0)), (1, k.b.sub(n, done), done)):
                with k.loop(times) as step:
                    column = k.at(start, k.times(step, count))
                    x, to = k.at(plain, k.b.mul(column, plain_stride)), k.at(out, k.times(column, LINE))
                    library.invoke(k, _packed(member, count), tile, x, plain_stride, blocks, to)

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
