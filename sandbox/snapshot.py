"""Turns an instance that has been prepared into the module that requests start from (README §5).

    state = take(instance, module)             # State: memory and globals
    image, patches = split(state.memory)       # what goes into the module, what is written into each instance
    wasm = with_state(module, State(image, state.globals), exports)

The patches and the layout make a `Snapshot`, which the cache keeps as the head of an entry, before the compiled module.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from .wasm_rewrite import NUMBER_LAYOUTS, State, global_export

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .instance import Instance
    from .wasm_binary import Module

PAGE_BYTES = 4096
"""Granularity of copy-on-write; a page of zeros needs no place in the image."""

MAX_SPARSE_IMAGE_BYTES = 16 << 20
"""wasmtime maps an image copy-on-write when it spans no more than this, or is at least half full (wasmtime-environ,
`try_static_init`). Otherwise it copies every byte into every instance: milliseconds instead of microseconds."""

CHEAP_PATCH_BYTES = 64 << 10
"""Writing this much into each instance takes about 50 µs: a page fault for each page, and a lone one costs double."""

MAX_OUTLIERS = 64
"""Runs that an image may leave out."""

DEAR_GAP = 32
"""Bytes of zeros that the image would carry for each byte of a run: they are hashed and copied at each load."""

Runs: TypeAlias = Sequence[tuple[int, bytes]]
"""Pieces of memory: (offset, bytes), ascending, apart."""

_COUNT = struct.Struct("<I")
_PATCH = struct.Struct("<II")


class Snapshot(NamedTuple):
    """What instances start from besides the pre-initialised module.

    Args:
        layout: The struct that the guest published, checked.
        patches: Memory that is written into each instance.
    """

    layout: bytes
    patches: Runs

    def pack(self) -> bytes:
        """One blob."""
        table = [_PATCH.pack(at, len(run)) for at, run in self.patches]
        return b"".join((self.layout, _COUNT.pack(len(table)), *table, *(run for _, run in self.patches)))

    @classmethod
    def unpack(cls, blob: bytes, layout_bytes: int) -> Snapshot:
        """Reads what `pack` wrote; the caller has checked that it is authentic."""
        (count,) = _COUNT.unpack_from(blob, layout_bytes)
        at = layout_bytes + _COUNT.size
        table = [_PATCH.unpack_from(blob, at + i * _PATCH.size) for i in range(count)]
        at += count * _PATCH.size
        patches = []
        for offset, size in table:
            patches.append((offset, blob[at : at + size]))
            at += size
        return cls(blob[:layout_bytes], patches)


def take(instance: Instance, module: Module) -> State:
    """Copies what an instance has become.

    Args:
        instance: Of the module that `with_global_exports(module)` makes.
        module: The original.
    """
    values = {
        index: instance.global_bytes(global_export(index), NUMBER_LAYOUTS[declared.type])
        for index, declared in enumerate(module.globals)
        if declared.mutable
    }
    memory = instance.memory.view
    return State([(a, memory[a:b].tobytes()) for a, b in nonzero_runs(memory)], values)


def split(runs: Runs) -> tuple[Runs, Runs]:
    """Parts memory into an image that wasmtime maps copy-on-write, and the few outlying runs (clause 5.5).

    Of the images that it would map, one that leaves out no more than is cheap, and of those the one that costs the
    least: what is left out is written into each instance, and zeros between what is kept are carried by each load.
    Where none can be mapped, all of it stays in the module.

    Returns:
        The image, and the patches.
    """
    most = min(len(runs) - 1, MAX_OUTLIERS)
    windows = [(first, len(runs) - last) for first in range(most + 1) for last in range(most + 1 - first)]
    sums = [0, *accumulate(len(run) for _, run in runs)]

    def held(window: tuple[int, int]) -> int:
        return sums[window[1]] - sums[window[0]]

    def is_mappable(window: tuple[int, int]) -> bool:
        span = _span(runs, window)
        return span <= MAX_SPARSE_IMAGE_BYTES or span < 2 * held(window)

    def cost(window: tuple[int, int]) -> tuple[int, int]:
        patched, zeros = sums[-1] - held(window), _span(runs, window) - held(window)
        return max(patched - CHEAP_PATCH_BYTES, 0), DEAR_GAP * patched + zeros

    first, last = min(filter(is_mappable, windows), key=cost, default=(0, len(runs)))
    return runs[first:last], [*runs[:first], *runs[last:]]


def _span(runs: Runs, window: tuple[int, int]) -> int:
    """Bytes from the first run of a window to the end of its last one."""
    first, last = window
    return runs[last - 1][0] + len(runs[last - 1][1]) - runs[first][0]


def nonzero_runs(memory: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Longest runs of pages that are not all zero, as (start, stop) in bytes.

    Args:
        memory: Shape: (a multiple of PAGE_BYTES,), uint8.
    """
    used = memory.view(np.uint64).reshape(-1, PAGE_BYTES // 8).any(axis=1)
    edges = np.flatnonzero(np.diff(used, prepend=False, append=False))
    return [(int(a) * PAGE_BYTES, int(b) * PAGE_BYTES) for a, b in edges.reshape(-1, 2)]
