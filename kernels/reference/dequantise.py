"""NumPy twins of the stored formats: bytes to float32, exactly as GGUF's reference does (README clause 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..formats import Format
from ..layouts import CODEBOOK, KINDS, QUANTISED
from .stored import split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..backend import Tensor


def _real(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """float16 bits as a column of float32."""
    return halves.view(np.float16).astype(np.float32)[:, None]


def _quantised(fmt: Format, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Scale * (weight - zero), with the minimum added or (K formats) subtracted, each operation rounded."""
    stored, layout = split(fmt, data), QUANTISED[KINDS[fmt]]
    if layout.codebook:
        weights = np.array(CODEBOOK, np.float32)[stored.weights]
    else:
        weights = stored.weights.astype(np.float32) - np.float32(layout.zero)
    scale = _real(stored.scale)
    offset = None if stored.minimum is None else _real(stored.minimum)
    if stored.fine_scale is not None:
        columns = weights.shape[1] // stored.fine_scale.shape[1]
        scale = np.repeat(scale * stored.fine_scale.astype(np.float32), columns, axis=1)
        if offset is not None and stored.fine_minimum is not None:
            offset = -np.repeat(offset * stored.fine_minimum.astype(np.float32), columns, axis=1)
    values = scale * weights
    return values if offset is None else values + offset


def dequantise(tensor: Tensor) -> NDArray[np.float32]:
    """A stored tensor's values.

    Returns:
        Shape: tensor.shape, float32.
    """
    data = np.ascontiguousarray(tensor.data)
    if tensor.format is Format.F32:
        values = data.view("<f4").astype(np.float32)
    elif tensor.format is Format.F16:
        values = data.view("<f2").astype(np.float32)
    elif tensor.format is Format.BF16:
        values = (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = _quantised(tensor.format, data)
    return values.reshape(tensor.shape)
