"""NumPy twins of the kernels, in the precision of their inputs; each names the kernel that it mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backend import KV_BLOCK_TOKENS, RopeStyle
from ..layouts import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Real = NDArray[np.floating]

_LARGEST = 127


class Quantised(NamedTuple):
    """Activations in blocks of 32.

    Attributes:
        values: Shape: (..., blocks, 32), int8.
        scales: Shape: (..., blocks), float32.
        sums: Sum of each block's values. Shape: (..., blocks), int32.
    """

    values: NDArray[np.int8]
    scales: NDArray[np.float32]
    sums: NDArray[np.int32]

    def real(self) -> NDArray[np.float64]:
        """The values that they stand for. Shape: (..., blocks * 32)."""
        product = self.values.astype(np.float64) * self.scales[..., None]
        return product.reshape(*product.shape[:-2], -1)


def quantise_activations(x: Real) -> Quantised:
    """Symmetric int8 with one scale per 32 elements: mirrors cpu/elementwise.py `quantise`."""
    blocks = x.astype(np.float32).reshape(*x.shape[:-1], -1, BLOCK)
    peak = np.abs(blocks).max(axis=-1)
    inverse = np.divide(np.float32(_LARGEST), peak, out=np.zeros_like(peak), where=peak != 0)
    values = np.rint(blocks * inverse[..., None]).astype(np.int8)
    return Quantised(values, peak / np.float32(_LARGEST), values.sum(axis=-1, dtype=np.int32))


def rms_norm(x: Real, weight: Real, epsilon: float) -> Real:
    """X / sqrt(mean(x^2) + epsilon) * weight over the last axis."""
    scaled: Real = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight
    return scaled


def rope(x: Real, positions: NDArray[np.int32], base: float, width: int, style: RopeStyle) -> Real:
    """Rotates the first `width` elements of each head.

    Args:
        x: Shape: (tokens, heads, head_dim).
        positions: Shape: (tokens,), int32.
        base: Theta.
        width: Elements that rotate; even.
        style: Which elements make a pair.
    """
    angles = positions[:, None].astype(np.float64) * base ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles)[:, None].astype(x.dtype), np.sin(angles)[:, None].astype(x.dtype)
    out = x.copy()
    if style is RopeStyle.NORM:
        first, second = np.arange(0, width, 2), np.arange(1, width, 2)
    else:
        first, second = np.arange(width // 2), np.arange(width // 2, width)
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def silu(x: Real) -> Real:
    """X / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        gated: Real = x / (1 + np.exp(-x))
    return gated


def swiglu(gate: Real, up: Real) -> Real:
    """silu(gate) * up."""
    return silu(gate) * up


def paged_attention(
    queries: Real, keys: Real, values: Real, positions: NDArray[np.int32], blocks: NDArray[np.int32]
) -> Real:
    """Causal attention of one sequence's tokens over its paged cache, query heads in groups that share a KV head.

    Args:
        queries: Shape: (tokens, heads, head_dim).
        keys: Shape: (pool blocks, 16, kv_heads, head_dim).
        values: As keys.
        positions: Shape: (tokens,), int32.
        blocks: The sequence's table. Shape: (table,), int32.
    """
    tokens, heads, width = queries.shape
    count = int(positions.max()) + 1
    table = blocks[: -(-count // KV_BLOCK_TOKENS)]
    kv_heads = keys.shape[2]
    k = keys[table].reshape(-1, kv_heads, width)[:count].astype(queries.dtype)
    v = values[table].reshape(-1, kv_heads, width)[:count].astype(queries.dtype)
    grouped = queries.reshape(tokens, kv_heads, heads // kv_heads, width) / np.sqrt(width)
    scores = np.einsum("tkgd,skd->tkgs", grouped, k)
    hidden = np.arange(count)[None, :] > positions[:, None]
    scores = np.where(hidden[:, None, None, :], -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    attended: Real = np.einsum("tkgs,skd->tkgd", weights, v).reshape(tokens, heads, width)
    return attended
