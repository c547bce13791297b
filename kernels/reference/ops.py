"""NumPy twins of the kernels, in the precision of their inputs; each names the kernel that it mirrors."""

from __future__ import annotations

import math
from collections.abc import Callable  # noqa: TC003 — a variable's type is evaluated
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..backend import KV_BLOCK_TOKENS, Activation, Rope, RopeStyle
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


def rotate(x: Real, positions: NDArray[np.int32], table: Rope, style: RopeStyle) -> Real:
    """Rotates the leading elements of each head, two for each frequency of the table.

    Args:
        x: Shape: (tokens, heads, head_dim).
        positions: Shape: (tokens,), int32.
        table: Frequencies and factor.
        style: Which elements make a pair.
    """
    half = len(table.frequencies)
    angles = positions[:, None].astype(np.float64) * np.array(table.frequencies)
    cos, sin = ((table.factor * turn(angles))[:, None].astype(x.dtype) for turn in (np.cos, np.sin))
    out = x.copy()
    if style is RopeStyle.NORM:
        first, second = np.arange(0, 2 * half, 2), np.arange(1, 2 * half, 2)
    else:
        first, second = np.arange(half), np.arange(half, 2 * half)
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def silu(x: Real) -> Real:
    """X / (1 + exp(-x))."""
    with np.errstate(over="ignore"):
        gated: Real = x / (1 + np.exp(-x))
    return gated


def gelu_tanh(x: Real) -> Real:
    """X / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the approximation that Gemma is trained with."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    gated: Real = x / 2 * (1 + np.tanh(inner))
    return gated


ACTIVATIONS: dict[Activation, Callable[[Real], Real]] = {Activation.SILU: silu, Activation.GELU_TANH: gelu_tanh}


def soft_cap(x: Real, cap: float) -> Real:
    """Cap * tanh(x / cap); x itself when the cap is 0."""
    return cap * np.tanh(x / cap) if cap else x


class Sight(NamedTuple):
    """How a layer's queries look at its keys.

    Attributes:
        scale: Multiplies query times key.
        cap: Soft cap of that, 0: none.
        window: Positions that a query sees, its own included; 0: all before it.
    """

    scale: float
    cap: float = 0.0
    window: int = 0


def paged_attention(
    queries: Real,
    keys: Real,
    values: Real,
    positions: NDArray[np.int32],
    blocks: NDArray[np.int32],
    sight: Sight | None = None,
) -> Real:
    """Causal attention of one sequence's tokens over its paged cache, query heads in groups that share a KV head.

    Args:
        queries: Shape: (tokens, heads, head_dim).
        keys: Shape: (pool blocks, 16, kv_heads, head_dim).
        values: As keys.
        positions: Shape: (tokens,), int32.
        blocks: The sequence's table; entries before the first position's window are not looked at.
            Shape: (table,), int32.
        sight: Scale, soft cap and window; None: 1 / sqrt(head_dim) and neither.
    """
    tokens, heads, width = queries.shape
    sight = sight or Sight(1 / math.sqrt(width))
    count, kv_heads = int(positions.max()) + 1, keys.shape[2]
    table = blocks[: -(-count // KV_BLOCK_TOKENS)].copy()
    oldest = max(0, int(positions.min()) + 1 - (sight.window or count))
    table[: oldest // KV_BLOCK_TOKENS] = table[-1]  # those before a window may be anything (clause 11.6)
    k = keys[table].reshape(-1, kv_heads, width)[:count].astype(queries.dtype)
    v = values[table].reshape(-1, kv_heads, width)[:count].astype(queries.dtype)
    grouped = queries.reshape(tokens, kv_heads, heads // kv_heads, width) * sight.scale
    scores = soft_cap(np.einsum("tkgd,skd->tkgs", grouped, k), sight.cap)
    behind = positions[:, None] - np.arange(count)[None, :]
    hidden = (behind < 0) | (behind >= (sight.window or count))
    scores = np.where(hidden[:, None, None, :], -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    attended: Real = np.einsum("tkgs,skd->tkgd", weights, v).reshape(tokens, heads, width)
    return attended
