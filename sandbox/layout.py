"""What a guest publishes of its memory, read once and checked before use (README §6).

    layout = SamplerLayout.parse(raw, at, memory_bytes)
    layout.check_tier(tier)
    layout.logits  # offset of the first slot's logits

Raises `LayoutError`, which the caller turns into a refusal with the plugin's name.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from . import abi

if TYPE_CHECKING:
    from .tier import Tier


class LayoutError(Exception):
    """A layout that does not hold; the text is "expected X, got Y"."""


class _Area(NamedTuple):
    name: str
    start: int
    size: int
    alignment: int


def _check_header(name: str, at: int, memory_bytes: int, raw_size: int) -> None:
    """The layout struct itself: clause 6.2."""
    if at == 0 or at % 4 or at + raw_size > memory_bytes:
        raise LayoutError(f"expected {name} at a 4-aligned offset inside {memory_bytes} bytes, got {at:#x}")


def _check_version(size: int, expected: int, minor: int) -> None:
    if size < expected:
        raise LayoutError(f"expected a layout of at least {expected} bytes, got size {size}")
    if minor > abi.ABI_MINOR:
        raise LayoutError(f"expected ABI minor at most {abi.ABI_MINOR}, got {minor}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise LayoutError(f"expected {name} within {low}..{high}, got {value}")


def _check_areas(areas: list[_Area], memory_bytes: int) -> None:
    """Clause 6.1: aligned, inside, apart. An area of no bytes may lie anywhere: nothing touches it."""
    for area in (area for area in areas if area.size):
        if area.start % area.alignment:
            raise LayoutError(f"expected {area.name} aligned to {area.alignment}, got {area.start:#x}")
        if area.start == 0 or area.start + area.size > memory_bytes:
            end = area.start + area.size
            problem = f"expected {area.name} inside {memory_bytes} bytes and not at 0, got {area.start:#x}..{end:#x}"
            raise LayoutError(problem)
    ordered = sorted((a for a in areas if a.size), key=lambda a: a.start)
    for left, right in pairwise(ordered):
        if left.start + left.size > right.start:
            raise LayoutError(f"expected areas apart, got {left.name} and {right.name} that overlap")


@dataclass(frozen=True, slots=True)
class SamplerLayout:
    """struct sealhost_sampler_layout; offsets and sizes in bytes."""

    size: int
    minor: int
    max_rows: int
    vocab_capacity: int
    logits: int
    logits_stride: int
    rows: int
    results: int
    history: int
    history_capacity: int
    bias: int
    bias_capacity: int
    config: int
    config_capacity: int
    error: int
    error_capacity: int
    candidates: int
    candidate_capacity: int
    answer: int
    answer_capacity: int
    log: int
    max_backtrack: int

    @classmethod
    def parse(cls, raw: bytes, at: int, memory_bytes: int, words: tuple[int, int] = (0, 0)) -> SamplerLayout:
        """Reads and checks a layout.

        Args:
            raw: The struct's bytes, copied out of guest memory.
            at: Where they stood.
            memory_bytes: Size of the guest's memory.
            words: Offset and size of the vocabulary that the guest was given.

        Raises:
            LayoutError: When it does not hold.
        """
        layout = cls(*abi.SAMPLER_LAYOUT.unpack(raw))
        layout._check(at, memory_bytes, _Area("vocabulary", *words, 8))
        return layout

    @staticmethod
    def check_offset(at: int, memory_bytes: int) -> None:
        """Clause 6.2, before anything is read."""
        _check_header("the sampler's layout", at, memory_bytes, abi.SAMPLER_LAYOUT.size)

    def pack(self) -> bytes:
        """The struct's bytes, for the cache."""
        return abi.SAMPLER_LAYOUT.pack(*astuple(self))

    def _check(self, at: int, memory_bytes: int, words: _Area) -> None:
        _check_version(self.size, abi.SAMPLER_LAYOUT.size, self.minor)
        _check_range("max_rows", self.max_rows, 1, abi.MAX_ROWS)
        _check_range("vocab_capacity", self.vocab_capacity, 1, abi.MAX_VOCABULARY)
        _check_range("history_capacity", self.history_capacity, 1, memory_bytes // 4)
        _check_range("config_capacity", self.config_capacity, 0, abi.MAX_CONFIG_BYTES)
        _check_range("error_capacity", self.error_capacity, abi.MIN_ERROR_BYTES, abi.MAX_ERROR_BYTES)
        _check_range("answer_capacity", self.answer_capacity, 0, abi.MAX_ANSWER_BYTES)
        _check_range("max_backtrack", self.max_backtrack, 0, abi.MAX_BACKTRACK)
        if self.answer_capacity % 4:
            raise LayoutError(f"expected answer_capacity in whole words of 4 bytes, got {self.answer_capacity}")
        if self.logits_stride % abi.LOGITS_ALIGNMENT:
            raise LayoutError(f"expected logits_stride in whole pages of 4096 bytes, got {self.logits_stride}")
        _check_areas(
            [
                _Area("layout", at, self.size, 4),
                _Area("logits", self.logits, self.max_rows * self.logits_stride, abi.LOGITS_ALIGNMENT),
                _Area("rows", self.rows, self.max_rows * abi.ROW.size, 8),
                _Area("results", self.results, self.max_rows * abi.RESULT.size, 8),
                _Area("history", self.history, self.max_rows * self.history_capacity * 4, 4),
                _Area("bias", self.bias, self.bias_capacity * abi.BIAS.size, 4),
                _Area("config", self.config, self.config_capacity, 1),
                _Area("error", self.error, self.error_capacity, 1),
                _Area("candidates", self.candidates, self.max_rows * self.candidate_capacity * abi.CANDIDATE.size, 4),
                _Area("answer", self.answer, self.max_rows * self.answer_capacity, 4),
                _Area("log", self.log, abi.LOG_SIZE if self.log else 0, 4),
                words,
            ],
            memory_bytes,
        )

    def check_tier(self, tier: Tier) -> None:
        """The areas that a tier has, and no others: clause 6.3.

        Raises:
            LayoutError: When one is missing, too small, or there for nothing.
        """
        if tier.name == "full" and self.vocab_capacity > self.logits_stride // 4:
            problem = f"expected logits_stride to hold vocab_capacity {self.vocab_capacity}, got {self.logits_stride}"
            raise LayoutError(problem)
        if tier.name != "full" and (self.logits or self.logits_stride):
            raise LayoutError(f"expected no logits area in tier {tier}, got one: it was written for tier full")
        if self.candidate_capacity < tier.candidates:
            problem = f"expected room for {tier.candidates} candidates in tier {tier}, got {self.candidate_capacity}"
            raise LayoutError(problem)
        if not tier.candidates and (self.candidates or self.candidate_capacity):
            raise LayoutError(f"expected no candidates in tier {tier}, got an area at {self.candidates:#x}")
        if tier.name == "mask" and self.answer_capacity < mask_bytes(self.vocab_capacity):
            least = mask_bytes(self.vocab_capacity)
            raise LayoutError(f"expected answer_capacity of at least {least} in tier mask, got {self.answer_capacity}")


def mask_bytes(ids: int) -> int:
    """Bytes of a mask over this many ids."""
    return (ids + 31) // 32 * 4


@dataclass(frozen=True, slots=True)
class TokenizerLayout:
    """struct sealhost_tokenizer_layout; offsets and sizes in bytes."""

    size: int
    minor: int
    input: int
    input_capacity: int
    output: int
    output_capacity: int
    error: int
    error_capacity: int

    @classmethod
    def parse(cls, raw: bytes, at: int, memory_bytes: int) -> TokenizerLayout:
        """Reads and checks a layout; arguments and errors as for the sampler's."""
        layout = cls(*abi.TOKENIZER_LAYOUT.unpack(raw))
        layout._check(at, memory_bytes)
        return layout

    @staticmethod
    def check_offset(at: int, memory_bytes: int) -> None:
        """Clause 6.2, before anything is read."""
        _check_header("the tokenizer's layout", at, memory_bytes, abi.TOKENIZER_LAYOUT.size)

    def pack(self) -> bytes:
        """The struct's bytes, for the cache."""
        return abi.TOKENIZER_LAYOUT.pack(*astuple(self))

    def _check(self, at: int, memory_bytes: int) -> None:
        _check_version(self.size, abi.TOKENIZER_LAYOUT.size, self.minor)
        _check_range("input_capacity", self.input_capacity, abi.MIN_AREA_BYTES, memory_bytes)
        _check_range("output_capacity", self.output_capacity, abi.MIN_AREA_BYTES, memory_bytes)
        _check_range("error_capacity", self.error_capacity, abi.MIN_ERROR_BYTES, abi.MAX_ERROR_BYTES)
        _check_areas(
            [
                _Area("layout", at, self.size, 4),
                _Area("input", self.input, self.input_capacity, 8),
                _Area("output", self.output, self.output_capacity, 8),
                _Area("error", self.error, self.error_capacity, 1),
            ],
            memory_bytes,
        )
