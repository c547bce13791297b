"""Sampling parameters of one request, checked once so that no NaN or nonsense reaches a sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import SandboxError

_U64 = 1 << 64
_I32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Standard parameters; each one's "off" is its default, except temperature.

    Args:
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: Keep the k likeliest; 0 or less, or the vocabulary's size and more: off.
        top_p: Keep the smallest set with this probability, (0, 1]; 1: off.
        min_p: Keep what has this share of the likeliest one's probability, [0, 1]; 0: off.
        repetition_penalty: > 0; 1: off; sees prompt and generated ids.
        presence_penalty: Once for each id that was generated; 0: off.
        frequency_penalty: For each time that an id was generated; 0: off.
        logit_bias: (id, bias) pairs; -inf forbids an id.
        seed: u64.

    Raises:
        SandboxError: When one is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, ok=self.temperature >= 0, expected="0 or more")
        _require("top_p", self.top_p, ok=0 < self.top_p <= 1, expected="above 0 and at most 1")
        _require("min_p", self.min_p, ok=0 <= self.min_p <= 1, expected="0 to 1")
        _require("repetition_penalty", self.repetition_penalty, ok=self.repetition_penalty > 0, expected="above 0")
        _require("presence_penalty", self.presence_penalty, ok=True, expected="a number")
        _require("frequency_penalty", self.frequency_penalty, ok=True, expected="a number")
        _require("seed", self.seed, ok=0 <= self.seed < _U64, expected="0 to 2^64 - 1")
        for token, bias in self.logit_bias:
            _require("logit_bias", token, ok=token >= 0, expected="ids of 0 or more")
            _require("logit_bias", 0.0 if bias == -math.inf else bias, ok=True, expected="numbers or -inf")

    @property
    def row_top_k(self) -> int:
        """`top_k` as an i32."""
        return max(min(self.top_k, _I32_MAX), 0)


_FLOAT32_MAX = 3.4028234663852886e38
"""What the row's fields can hold."""


def _require(name: str, value: float, *, ok: bool, expected: str) -> None:
    finite = isinstance(value, int) or (math.isfinite(value) and abs(value) <= _FLOAT32_MAX)
    if not (finite and ok):
        raise SandboxError(name, f"expected {expected}, got {value}", "change the request")
