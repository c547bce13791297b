"""The emitted kernels of one instruction set, as callables for numba code.

Numba needs a plain function behind each name that it compiles against, so this file turns the emitters into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numba import njit

from ..layouts import LINE, Kind
from . import attention, barrier, elementwise
from .dense import DENSE, dense_kernel
from .elementwise import embed_kernel
from .emit import I64
from .matmul import QUANTISED, tile_kernel, unpack_kernel
from .native import Library, inline

if TYPE_CHECKING:
    from .dot import Dot

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # a division by zero must not raise in compiled code: no exceptions, no Python objects
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Numba options of every function: nothing of Python is left in the object code."""


@dataclass(frozen=True, slots=True)
class Products:
    """Matrix products of one version.

    Attributes:
        columns: (tile, lines, unpacked, acts, stride, plain, plain_stride, kind, blocks, n, out).
        unpack: (kind, tile, blocks, lines).
        embed: (kind, tile, row, blocks, out).
        library: The kernels behind them.
    """

    library: Library

    columns: Any
    unpack: Any
    embed: Any


def function(body: Any) -> Any:
    """Compiles a function with our options."""
    return njit(**OPTIONS)(body)


SHARED = Library()
"""Kernels that no instruction set changes."""

load = inline(elementwise.load_i64, returns=I64)
load32 = inline(elementwise.load_i32, returns=I64)
store = inline(barrier.store_i64)
store32 = inline(elementwise.store_i32)
atomic_load = inline(barrier.atomic_load, returns=I64)
atomic_store = inline(barrier.atomic_store)
atomic_add = inline(barrier.atomic_add, returns=I64)
atomic_take = inline(barrier.atomic_take, returns=I64)
pause = inline(barrier.pause)
sleep_on = inline(barrier.sleep_on)
wake_all = inline(barrier.wake_all)

norm_quantise = SHARED.native("norm_quantise", elementwise.norm_quantise)
norm_quantise_wide = SHARED.native("norm_quantise_wide", elementwise.norm_quantise_wide)
put_pair = SHARED.native("put_pair", elementwise.put_pair)
quantise = SHARED.native("quantise", elementwise.quantise)
swiglu_quantise = SHARED.native("swiglu_quantise", elementwise.swiglu_quantise)
rope = SHARED.native("rope", elementwise.rope)
add_rows = SHARED.native("add_rows", elementwise.add_rows)
put_rows = SHARED.native("put_rows", elementwise.put_rows)
merge = SHARED.native("merge", attention.merge)
start_state = SHARED.native("start_state", attention.start_state)
finish_state = SHARED.native("finish_state", attention.finish_state)
store_kv = SHARED.native("store_kv", attention.store_kv)

attend1, attend2, attend3, attend4, attend6 = (
    SHARED.native(f"attend{queries}", attention.attend_kernel(queries)) for queries in (1, 2, 3, 4, 6)
)


def products(dot: Dot) -> Products:
    """Builds the matrix products of one dot-product version."""
    library = Library()
    wide = dot.columns
    packed = _by_kind({c: {kind: tile_kernel(dot, kind, c, unpacked=False) for kind in QUANTISED} for c in range(1, 5)}, "packed", library)
    unpacked = _by_kind({wide: {kind: tile_kernel(dot, kind, wide, unpacked=True) for kind in QUANTISED}}, "unpacked", library)[wide]
    packed1, packed2, packed3, packed4 = (packed[c] for c in range(1, 5))
    (f16_1, f32_1), (f16_4, f32_4) = ([library.native(f"{kind.name}_{c}", dense_kernel(kind, c)) for kind in DENSE] for c in (1, 4))
    f16 = int(Kind.F16)

    @function
    def dense(tile, acts, stride, kind, blocks, n, out):
        done = 0
        while done < n:
            at, to = acts + done * stride, out + done * LINE
            if n - done >= 4:
                if kind == f16:
                    f16_4(tile, at, stride, blocks, to)
                else:
                    f32_4(tile, at, stride, blocks, to)
                done += 4
            else:
                if kind == f16:
                    f16_1(tile, at, stride, blocks, to)
                else:
                    f32_1(tile, at, stride, blocks, to)
                done += 1

    @function
    def columns(tile, lines, is_unpacked, acts, stride, plain, plain_stride, kind, blocks, n, out):
        if kind >= f16:
            dense(tile, plain, plain_stride, kind, blocks, n, out)
            return
        done = 0
        if is_unpacked:
            while n - done >= wide:
                unpacked(kind, tile, lines, acts + done * stride, stride, blocks, out + done * LINE)
                done += wide
        while done < n:
            at, to, left = acts + done * stride, out + done * LINE, n - done
            if left >= 4:
                packed4(kind, tile, 0, at, stride, blocks, to)
                done += 4
            elif left == 3:
                packed3(kind, tile, 0, at, stride, blocks, to)
                done += 3
            elif left == 2:
                packed2(kind, tile, 0, at, stride, blocks, to)
                done += 2
            else:
                packed1(kind, tile, 0, at, stride, blocks, to)
                done += 1

    return Products(library, columns=columns, unpack=_unpack(dot, library), embed=_embed(library))


def _by_kind(emitters: dict[int, dict[Kind, Any]], name: str, library: Library) -> dict[int, Any]:
    """One function per column count that picks the kernel of the kind."""
    return {c: _pick({kind: library.native(f"{name}_{kind.name}_{c}", body) for kind, body in kinds.items()}) for c, kinds in emitters.items()}


def _pick(kernels: dict[Kind, Any]) -> Any:
    q4_1, q4_0, q8_0 = (kernels[kind] for kind in QUANTISED)
    first, second = (int(kind) for kind in QUANTISED[:2])

    @function
    def pick(kind, tile, lines, acts, stride, blocks, out):
        if kind == first:
            q4_1(tile, lines, acts, stride, blocks, out)
        elif kind == second:
            q4_0(tile, lines, acts, stride, blocks, out)
        else:
            q8_0(tile, lines, acts, stride, blocks, out)

    return pick


def _unpack(dot: Dot, library: Library) -> Any:
    q4_1, q4_0, q8_0 = (library.native(f"unpack_{kind.name}", unpack_kernel(dot, kind)) for kind in QUANTISED)
    first, second, third = (int(kind) for kind in QUANTISED)

    @function
    def unpack(kind, tile, blocks, out):
        if kind == first:
            q4_1(tile, blocks, out)
        elif kind == second:
            q4_0(tile, blocks, out)
        elif kind == third:
            q8_0(tile, blocks, out)

    return unpack


def _embed(library: Library) -> Any:
    q4_1, q4_0, q8_0, f16, f32 = (library.native(f"embed_{kind.name}", embed_kernel(kind)) for kind in (*QUANTISED, *DENSE))
    first, second, third, fourth = (int(kind) for kind in (*QUANTISED, Kind.F16))

    @function
    def embed(kind, tile, row, blocks, out):
        if kind == first:
            q4_1(tile, row, blocks, out)
        elif kind == second:
            q4_0(tile, row, blocks, out)
        elif kind == third:
            q8_0(tile, row, blocks, out)
        elif kind == fourth:
            f16(tile, row, blocks, out)
        else:
            f32(tile, row, blocks, out)

    return embed
