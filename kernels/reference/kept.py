"""NumPy twin of how keys and values are kept: mirrors cpu/kept.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kv_type import KV_SCALE_DIMS, KvType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Real = NDArray[np.floating]

_LIMITS = {KvType.FLOAT16: 65504.0, KvType.FLOAT32: float(np.finfo(np.float32).max), KvType.INT8: 65504.0}
_LARGEST = 127


class Scaled(NamedTuple):
    """Heads as int8.

    Attributes:
        values: Shape: (..., head_dim), int8.
        scales: One for each KV_SCALE_DIMS dimensions. Shape: (..., groups), float16.
    """

    values: NDArray[np.int8]
    scales: NDArray[np.float16]

    def real(self) -> NDArray[np.float32]:
        """The values that they stand for; exact. Shape: (..., head_dim)."""
        width = self.values.shape[-1]
        return self.values * np.repeat(self.scales.astype(np.float32), KV_SCALE_DIMS, axis=-1)[..., :width]


def scaled(x: Real) -> Scaled:
    """Rounds heads to int8.

    Args:
        x: Finite. Shape: (..., head_dim), head_dim a multiple of 16.
    """
    heads, width = x.astype(np.float32), x.shape[-1]
    room = [(0, 0)] * (x.ndim - 1) + [(0, -width % KV_SCALE_DIMS)]
    groups = np.pad(heads, room).reshape(*x.shape[:-1], -1, KV_SCALE_DIMS)
    scales = (np.abs(groups).max(axis=-1) / np.float32(_LARGEST)).astype(np.float16)
    real = scales.astype(np.float32)
    inverse = np.divide(np.float32(1), real, out=np.zeros_like(real), where=real != 0)
    whole = np.clip(np.rint(groups * inverse[..., None]), -_LARGEST, _LARGEST).astype(np.int8)
    return Scaled(whole.reshape(*x.shape[:-1], -1)[..., :width], scales)


def as_kept(x: Real, kv_type: KvType | None) -> Real:
    """What is left of heads that went through a cache of a type; None: all.

    Args:
        x: Shape: (..., head_dim).
        kv_type: The cache's type.
    """
    if kv_type is None:
        return x
    limit = _LIMITS[kv_type]
    finite = np.clip(np.where(np.isnan(x), -limit, x), -limit, limit)
    if kv_type is KvType.INT8:
        return scaled(finite).real()
    return finite.astype(np.float16 if kv_type is KvType.FLOAT16 else np.float32)
