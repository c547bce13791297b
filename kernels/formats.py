"""Quantised tensor formats: how many elements and bytes one block holds.

Sizes and ids are those of GGUF (`ggml_type`); the byte layout of each format is described in kernels/README.md.
"""

from __future__ import annotations

from enum import Enum


class Format(Enum):
    """A tensor format: (GGUF type id, elements per block, bytes per block)."""

    F32 = (0, 1, 4)
    F16 = (1, 1, 2)
    Q4_0 = (2, 32, 18)
    Q4_1 = (3, 32, 20)
    Q8_0 = (8, 32, 34)

    def __init__(self, type_id: int, block_elements: int, block_bytes: int) -> None:
        self.type_id = type_id
        self.block_elements = block_elements
        self.block_bytes = block_bytes

    def row_bytes(self, elements: int) -> int:
        """Bytes of one row of this many elements, a multiple of `block_elements`."""
        return elements // self.block_elements * self.block_bytes
