"""NumPy twins of the stored formats: bytes to float32, exactly as GGUF's reference does (README clause 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..formats import Format

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..backend import Tensor


def _halves(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _nibbles(bytes_: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Low nibbles are elements 0 to 15, high ones 16 to 31."""
    return np.concatenate([bytes_ & 15, bytes_ >> 4], axis=-1)


def _q4_0(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _halves(blocks[:, :2]) * (_nibbles(blocks[:, 2:]).astype(np.float32) - np.float32(8))


def _q4_1(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _halves(blocks[:, :2]) * _nibbles(blocks[:, 4:]).astype(np.float32) + _halves(blocks[:, 2:4])


def _q8_0(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _halves(blocks[:, :2]) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _f16(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return _halves(blocks)


def _f32(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32)


_DECODERS: dict[Format, Callable[[NDArray[np.uint8]], NDArray[np.float32]]] = {
    Format.F32: _f32,
    Format.F16: _f16,
    Format.Q4_0: _q4_0,
    Format.Q4_1: _q4_1,
    Format.Q8_0: _q8_0,
}


def dequantise(tensor: Tensor) -> NDArray[np.float32]:
    """A stored tensor's values.

    Returns:
        Shape: tensor.shape, float32.
    """
    blocks = np.ascontiguousarray(tensor.data).reshape(-1, tensor.format.block_bytes)
    return _DECODERS[tensor.format](blocks).reshape(tensor.shape)
