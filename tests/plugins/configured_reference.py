"""The standard sampler's configured chain in float64 NumPy, written down stage by stage from its sources.

    who = configured(logits, parameters, {"typical_p": 0.9})   # who may be drawn, and with what probability

* The sources stand in plugins/samplers/standard/README.md. Nothing here is fast or clever: every stage sorts anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from plugin_harness import Parameters
from sampler_reference import BOUNDARY, Survivors

ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
"""llama.cpp's."""

LARGEST_PENALTY = float(np.finfo(np.float32).max)


def single(value: float) -> np.float64:
    """What a row's float32 field holds."""
    return np.float64(np.float32(value))


Words = Mapping[int, bytes]
"""What ids spell; ids that are not there spell nothing."""

BREAKERS = ("\n", ":", '"', "*")
"""llama.cpp's, where a request names none."""


def spells(ids: list[int], rest: bytes, words: Words) -> int | None:
    """How many of these ids spell `rest`, whatever the last one spells behind it; None: they do not."""
    for used, token in enumerate(ids):
        word = words.get(token, b"")
        if not word or not (word.startswith(rest) or rest.startswith(word)):
            return None
        rest = rest[len(word) :]
        if not rest:
            return used + 1
    return None


def breaks(token: int, breaker: int | str, words: Words) -> bool:
    """Whether an id breaks by itself."""
    return token == breaker if isinstance(breaker, int) else breaker.encode() in words.get(token, b"")


def unbroken(past: list[int], breakers: Sequence[int | str], words: Words) -> int:
    """How many ids at the end a run may have: those behind the breaker that begins nearest to it."""
    for place in reversed(range(len(past))):
        ends = []
        for breaker in breakers:
            text, word = b"" if isinstance(breaker, int) else breaker.encode(), words.get(past[place], b"")
            if breaks(past[place], breaker, words):
                ends.append(place + 1)
                continue
            for held in range(1, min(len(text), len(word) + 1)):
                used = spells(past[place + 1 :], text[held:], words) if word.endswith(text[:held]) else None
                ends += [] if used is None else [place + 1 + used]
        if ends:
            return len(past) - max(ends)
    return len(past)


def repeats(history: list[int], config: dict[str, Any], words: Words = MappingProxyType({})) -> dict[int, int]:
    """How long a run each id would go on repeating, by comparing at every place."""
    window = config.get("dry_penalty_last_n", -1)
    past = history if window < 0 else history[len(history) - min(window, len(history)) :]
    breakers = config.get("dry_sequence_breakers", BREAKERS)
    most = unbroken(past, breakers, words)
    found: dict[int, int] = {}
    for place in range(len(past) - 1):  # the run ends here, and past[place + 1] followed it
        length = 0
        while length <= min(place, most - 1) and past[place - length] == past[-1 - length]:
            length += 1
        if not any(breaks(past[place + 1], breaker, words) for breaker in breakers):
            found[past[place + 1]] = max(found.get(past[place + 1], 0), length)
    return {token: length for token, length in found.items() if length >= config.get("dry_allowed_length", 2)}


@dataclass
class Chain:
    """What is left: ids, their logits, and the temperature that divides these; 1 before that stage."""

    parameters: Parameters
    config: dict[str, Any]
    ids: np.ndarray
    x: np.ndarray
    mu: float
    words: Words
    divisor: float = 1.0
    near: list[bool] = field(default_factory=list)

    def sort(self) -> None:
        order = np.lexsort((self.ids, -self.x))
        self.ids, self.x = self.ids[order], self.x[order]

    def keep(self, which: np.ndarray) -> None:
        self.ids, self.x = self.ids[which], self.x[which]

    def below(self) -> np.ndarray:
        """How far each lies below the largest, 0 or less, divided by the temperature."""
        return (self.x - self.x.max()) / self.divisor

    def probabilities(self) -> np.ndarray:
        weights = np.exp(self.below())
        return weights / weights.sum()

    def penalties(self) -> None:
        p = self.parameters
        seen = np.isin(self.ids, np.array([*p.prompt, *p.generated], np.int64))
        counts = Counter(p.generated)
        times = np.array([counts[token] for token in self.ids.tolist()])
        rate = single(p.repetition)
        x = self.x / self.divisor
        after = np.where(seen, np.where(x > 0, x / rate, x * rate), x)
        after = after - ((times > 0) * single(p.presence) + times * single(p.frequency))
        self.x = np.where(after == x, self.x, after * self.divisor)

    def dry(self) -> None:
        multiplier, base = self.config.get("dry_multiplier", 0), self.config.get("dry_base", 1.75)
        if multiplier == 0:
            return
        allowed = self.config.get("dry_allowed_length", 2)
        history = [*self.parameters.prompt, *self.parameters.generated]
        for token, length in repeats(history, self.config, self.words).items():
            with np.errstate(over="ignore"):
                penalty = np.minimum(multiplier * np.float64(base) ** (length - allowed), LARGEST_PENALTY)
            self.x = np.where(self.ids == token, self.x - penalty * self.divisor, self.x)

    def top_n_sigma(self) -> None:
        n = self.config.get("top_n_sigma", 0)
        if n > 0:
            least = self.x.max() - n * (self.x - self.x.max()).std()
            other = self.x[self.x < self.x.max()]
            self.near.append(bool((np.abs(other - least) < BOUNDARY * (1 + np.abs(least))).any()))
            self.keep(self.x >= min(least, self.x.max()))

    def top_k(self) -> None:
        if self.parameters.top_k > 0:
            self.keep(np.arange(len(self.x)) < self.parameters.top_k)

    def shortest(self, probabilities: np.ndarray, share: float) -> int:
        """Length of the shortest prefix that holds `share`, at least 1."""
        sums = np.cumsum(probabilities)
        self.near.append(bool(np.abs(sums - share).min() < BOUNDARY))
        return min(int(np.searchsorted(sums, share, side="left")) + 1, len(sums))

    def typ_p(self) -> None:
        share = self.config.get("typical_p", 1)
        if share >= 1:
            return
        surprise = np.log(np.exp(self.below()).sum()) - self.below()
        p = np.exp(-surprise)
        distance = np.abs(surprise - (p * np.where(p > 0, surprise, 0)).sum())
        order = np.lexsort((self.ids, distance))
        kept = self.shortest(p[order], share)
        last = distance[order[kept - 1]]
        rivals = (np.abs(distance - last) < BOUNDARY * (1 + last)) & (self.x != self.x[order[kept - 1]])
        self.near.append(bool(rivals.any()))
        self.keep(np.isin(np.arange(len(self.x)), order[:kept]))

    def top_p(self) -> None:
        if single(self.parameters.top_p) < 1:
            kept = self.shortest(self.probabilities(), single(self.parameters.top_p))
            self.keep(np.arange(len(self.x)) < kept)

    def min_p(self) -> None:
        least = single(self.parameters.min_p)
        if least > 0:
            weights = np.exp(self.below())
            self.near.append(bool((np.abs(weights[weights < 1] / least - 1) < BOUNDARY).any()))
            self.keep((weights >= least) | (np.arange(len(self.x)) == 0))

    def xtc(self) -> None:
        if (self.parameters.second >> 11) * 2.0**-53 >= self.config.get("xtc_probability", 0):
            return
        p, threshold = self.probabilities(), self.config.get("xtc_threshold", 0.1)
        self.near.append(bool((np.abs(p - threshold) < BOUNDARY * (p + threshold)).any()))
        above = int((p >= threshold).sum())
        self.keep(np.arange(len(self.x)) >= above - 1)

    def temperature(self) -> None:
        temperature, spread = single(self.parameters.temperature), self.config.get("dynatemp_range", 0)
        if spread > 0:
            p = self.probabilities()
            terms = p * np.log(np.where(p > 0, p, 1))
            entropy = min(max(-terms.sum() / np.log(len(p)), 0), 1) if len(p) > 1 else 0
            least = max(temperature - spread, 0)
            power = np.float64(entropy) ** self.config.get("dynatemp_exponent", 1)
            temperature = least + (temperature + spread - least) * power
        if temperature == 0:
            self.keep(np.arange(len(self.x)) == 0)
        else:
            self.divisor = float(temperature)

    def mirostat(self) -> None:
        surprise = -np.log2(np.maximum(self.probabilities(), 1e-300))
        self.near.append(bool((np.abs(surprise - self.mu) < BOUNDARY * (1 + abs(self.mu))).any()))
        self.keep((surprise <= self.mu) | (np.arange(len(self.x)) == 0))


def configured(
    logits: np.ndarray, p: Parameters, config: dict[str, Any], mu: float = 0, words: Words = MappingProxyType({})
) -> Survivors | None:
    """Who may be drawn and with what probability; None: nobody.

    Args:
        logits: Of the row.
        p: Of the row; `second` decides whether XTC acts.
        config: Of the request.
        mu: Mirostat's, if it is on.
        words: What the ids spell, for DRY's breakers.
    """
    x = logits.astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        for token, bias in p.bias:
            x[token] += single(bias)
    x = np.where(np.isnan(x), -np.inf, x)
    ids = np.flatnonzero(x > -np.inf)
    if len(ids) == 0:
        return None
    if x.max() == np.inf:
        ids = np.flatnonzero(x == np.inf)
        x[ids] = 0
    chain = Chain(p, config, ids, x[ids], mu, words)
    order = config.get("samplers", ORDER)
    with np.errstate(under="ignore", over="ignore"):
        if p.temperature == 0:
            order = [stage for stage in order if stage in ("penalties", "dry")]
        elif config.get("mirostat"):
            order = [*(stage for stage in order if stage in ("penalties", "dry", "temperature")), "mirostat"]
        chain.sort()
        for stage in order:
            getattr(chain, stage)()
            chain.sort()
        if p.temperature == 0:
            return Survivors(chain.ids[:1], np.ones(1), on_boundary=False)
        return Survivors(chain.ids, np.cumsum(chain.probabilities()), any(chain.near))
