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
    Q5_0 = (6, 32, 22)
    Q5_1 = (7, 32, 24)
    Q8_0 = (8, 32, 34)
    Q2_K = (10, 256, 84)
    Q3_K = (11, 256, 110)
    Q4_K = (12, 256, 144)
    Q5_K = (13, 256, 176)
    Q6_K = (14, 256, 210)
    IQ4_NL = (20, 32, 18)
    IQ4_XS = (23, 256, 136)
    BF16 = (30, 1, 2)

    def __init__(self, type_id: int, block_elements: int, block_bytes: int) -> None:
        self.type_id = type_id
        self.block_elements = block_elements
        self.block_bytes = block_bytes

    def row_bytes(self, elements: int) -> int:
        """Bytes of one row of this many elements, a multiple of `block_elements`."""
        return elements // self.block_elements * self.block_bytes
