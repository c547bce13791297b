"""Turns an instance that has been prepared into the module that requests start from (README §5).

snapshot = take(instance, module)          # State: memory and globals
wasm = with_state(module, snapshot, exports)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .wasm_rewrite import NUMBER_LAYOUTS, State, global_export

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .instance import Instance
    from .wasm_binary import Module

PAGE_BYTES = 4096
"""Granularity of copy-on-write; a page of zeros needs no place in the image."""


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


def nonzero_runs(memory: NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Longest runs of pages that are not all zero, as (start, stop) in bytes.

    Args:
        memory: Shape: (a multiple of PAGE_BYTES,), uint8.
    """
    used = memory.view(np.uint64).reshape(-1, PAGE_BYTES // 8).any(axis=1)
    edges = np.flatnonzero(np.diff(used, prepend=False, append=False))
    return [(int(a) * PAGE_BYTES, int(b) * PAGE_BYTES) for a, b in edges.reshape(-1, 2)]
