"""How keys and values are kept in the KV cache, and what that takes.

Example:
    KvType.INT8.head_bytes(64)  # 1088: 16 positions of 64 bytes, and a float16 for each position and 32 dimensions
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from .backend import KV_BLOCK_TOKENS

if TYPE_CHECKING:
    from .backend import DecoderSpec

KV_SCALE_DIMS = 32
"""Dimensions of a head that share a scale: an outlier spoils those alone. The last ones may be 16."""
_SCALE_BYTES = 2


class KvType(StrEnum):
    """What one element of a stored key or value is."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    INT8 = "int8"
    """With a float16 scale for each position, head and KV_SCALE_DIMS dimensions: value = scale * integer."""

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, without its share of a scale."""
        return {KvType.FLOAT16: 2, KvType.FLOAT32: 4, KvType.INT8: 1}[self]

    def head_bytes(self, head_dim: int) -> int:
        """Bytes of one KV block's keys of one head, and of its values."""
        scales = -(-head_dim // KV_SCALE_DIMS) * _SCALE_BYTES if self is KvType.INT8 else 0
        return KV_BLOCK_TOKENS * (head_dim * self.element_bytes + scales)

    def layer_bytes(self, spec: DecoderSpec) -> int:
        """Bytes of one KV block in one layer, keys and values."""
        return 2 * spec.kv_heads * self.head_bytes(spec.head_dim)
