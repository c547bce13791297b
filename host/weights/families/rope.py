"""RoPE frequencies from a model file's keys, in float64: linear, YaRN, Llama 3's factors and long-rope.

Sources: ggml's `rope_yarn` and llama.cpp's reading of the keys; "YaRN: Efficient Context Window Extension" (Peng et
al., 2023), section 3.2, for the ramp.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ....kernels.backend import Rope
from ...errors import WeightsError
from .limits import MAX_CONTEXT, MAX_ROPE_BASE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .facts import Facts

MAX_FACTOR = 65536.0
"""Largest stretch of a context: more than any model's longest over its shortest."""

FACTORS = "rope_freqs.weight"
"""Divisors of the frequencies, as converters write Llama 3's scaling."""
SHORT, LONG = "rope_factors_short.weight", "rope_factors_long.weight"
"""Divisors up to the original context, and beyond it (long-rope)."""

_NOT_YARN = {
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_log_multiplier": 0.0,
}
"""Keys of variations on YaRN, at the values at which they vary nothing."""

_FEWEST_TURNS = 1e-3
"""Below YaRN's slow limit of any model; keeps the ramp's ends finite."""


def rope_base(facts: Facts) -> float:
    """Theta."""
    return facts.number("rope.freq_base", above=1, most=MAX_ROPE_BASE, default=10000.0)


def rope(facts: Facts, base: float, dim: int, context: int) -> Rope:
    """The table that the file's keys and factor tensors describe.

    Args:
        facts: The file.
        base: Theta.
        dim: Elements of a head that rotate.
        context: Longest sequence of the model, tokens.

    Raises:
        WeightsError: a key is out of range, or asks for a scaling that is none of these.
    """
    frequencies = np.array(Rope.plain(base, dim).frequencies)
    divisors = _divisors(facts, dim // 2, context)
    if divisors is not None:
        frequencies /= np.array(divisors)
    kind = facts.text("rope.scaling.type", "linear")
    factor = _factor(facts)
    attention = facts.number("rope.scaling.attn_factor", above=0, most=16, default=1.0)
    original = facts.integer("rope.scaling.original_context_length", low=2, high=MAX_CONTEXT, default=context)
    if kind == "linear":
        return Rope(tuple((frequencies / factor).tolist()), attention)
    if kind == "yarn":
        return Rope(_yarn(facts, frequencies, base, original, factor), attention * (0.1 * math.log(factor) + 1))
    if kind not in ("none", "longrope"):
        raise facts.refuse("rope.scaling.type", f"expected none, linear, yarn or longrope, got {kind}: not supported")
    if kind == "longrope" and divisors is None:
        raise WeightsError(LONG, "expected this tensor, it is missing and the file says longrope")
    if factor != 1 and kind == "none":
        raise facts.refuse("rope.scaling.factor", f"expected 1 beside no scaling, got {factor:g}: not supported")
    return Rope(tuple(frequencies.tolist()), attention)


def long_rope_context(facts: Facts, context: int) -> int:
    """The context of a model that may have two sets of factors: the original one when the process wants no more.

    The choice must not depend on a sequence's length, for keys that are in the cache have turned already; so it is
    made once, from what the process allows.
    """
    if not facts.has_tensor(SHORT):
        return context
    original = _original(facts, context)
    return original if facts.context is not None and facts.context <= original else context


def _original(facts: Facts, context: int) -> int:
    return facts.integer("rope.scaling.original_context_length", low=2, high=context, default=context)


def _factor(facts: Facts) -> float:
    """The stretch; 0 and absence say 1. Old files call it `rope.scale_linear`."""
    name = "rope.scaling.factor" if facts.has("rope.scaling.factor") else "rope.scale_linear"
    if facts.has("rope.scaling.factor") and facts.has("rope.scale_linear"):
        raise facts.refuse("rope.scale_linear", "expected one scaling factor, got this one beside rope.scaling.factor")
    if facts.is_zero(name):
        return 1.0
    factor = facts.number(name, above=0, most=MAX_FACTOR, default=1.0)
    if factor < 1:
        raise facts.refuse(name, f"expected at least 1, got {factor:g}: not supported")
    return factor


def _divisors(facts: Facts, pairs: int, context: int) -> tuple[float, ...] | None:
    short, long = facts.vector(SHORT, pairs), facts.vector(LONG, pairs)
    single = facts.vector(FACTORS, pairs)
    if (short is None) != (long is None):
        raise WeightsError(LONG if long is None else SHORT, "expected this tensor beside the other one, it is missing")
    if short is None:
        return single
    if single is not None:
        raise WeightsError(FACTORS, f"expected one set of factors, got this one beside {SHORT}")
    return short if context <= _original(facts, context) else long


def _yarn(
    facts: Facts, frequencies: NDArray[np.float64], base: float, original: int, factor: float
) -> tuple[float, ...]:
    """Pairs that turn often keep their frequency, those that turn less than once are stretched, a ramp lies between."""
    for name, neutral in _NOT_YARN.items():
        if facts.number(name, above=-math.inf, most=math.inf, default=neutral) != neutral:
            raise facts.refuse(name, f"expected {neutral:g}, got another: not supported")
    fast = facts.number("rope.scaling.yarn_beta_fast", above=_FEWEST_TURNS, most=1 << 20, default=32.0)
    slow = facts.number("rope.scaling.yarn_beta_slow", above=_FEWEST_TURNS, most=1 << 20, default=1.0)
    dim = 2 * len(frequencies)

    def pair(turns: float) -> float:
        """The pair that turns so often over the original context."""
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(0, math.floor(pair(fast))), min(dim - 1, math.ceil(pair(slow)))
    ramp = np.clip((np.arange(len(frequencies)) - low) / max(0.001, high - low), 0, 1)
    return tuple((frequencies * (1 - ramp) + frequencies / factor * ramp).tolist())
