"""Layouts by the thousand: either a clear refusal, or every area lies inside the memory and apart from the others."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

from sealhost.sandbox.abi import BIAS, CANDIDATE, LOG_SIZE, RESULT, ROW
from sealhost.sandbox.layout import LayoutError, SamplerLayout, TokenizerLayout

MEMORY = 131072


def apart_and_inside(areas: list[tuple[int, int]]) -> bool:
    used = sorted((start, start + size) for start, size in areas if size)
    return all(end <= MEMORY for _, end in used) and all(a[1] <= b[0] for a, b in pairwise(used))


def bent(random: np.random.Generator, good: list[int]) -> list[int]:
    """A good layout with up to three fields that are random, extreme, or near their old value."""
    values = list(good)
    for index in random.integers(0, len(values), random.integers(1, 4)):
        near = int(values[index]) + int(random.choice([-4096, -8, -4, -1, 1, 4, 8, 4096]))
        extreme = int(random.choice([0, 1, MEMORY, MEMORY - 4, 2**31, 2**32 - 1, 2**32 - 4096]))
        chosen = random.choice([near, extreme, int(random.integers(0, 2**32)), int(random.integers(0, MEMORY))])
        values[index] = int(chosen) % 2**32
    return values


def test_sampler_layouts_that_pass_are_safe():
    random = np.random.default_rng(5)
    good = [88, 0, 1, 512, 4096, 4096, 8192, 8320, 8448, 64, 8704, 8, 9216, 128, 10240, 128, 0, 0, 12288, 64, 16384, 4]
    passed = 0
    for _ in range(5_000):
        try:
            layout = SamplerLayout.parse(struct.pack("<22I", *bent(random, good)), 64, MEMORY)
        except LayoutError:
            continue
        passed += 1
        rows = layout.max_rows
        assert layout.logits % 4096 == layout.logits_stride % 4096 == 0
        assert apart_and_inside(
            [
                (64, layout.size), (layout.logits, rows * layout.logits_stride), (layout.rows, rows * ROW.size),
                (layout.results, rows * RESULT.size), (layout.history, rows * layout.history_capacity * 4),
                (layout.bias, layout.bias_capacity * BIAS.size), (layout.config, layout.config_capacity),
                (layout.error, layout.error_capacity), (layout.answer, rows * layout.answer_capacity),
                (layout.candidates, rows * layout.candidate_capacity * CANDIDATE.size),
                (layout.log, LOG_SIZE if layout.log else 0),
            ]
        )  # fmt: skip
    assert 30 < passed < 4_000


def test_tokenizer_layouts_that_pass_are_safe():
    random = np.random.default_rng(6)
    good = [32, 0, 8192, 4096, 12288, 8192, 24576, 256]
    passed = 0
    for _ in range(5_000):
        try:
            layout = TokenizerLayout.parse(struct.pack("<8I", *bent(random, good)), 64, MEMORY)
        except LayoutError:
            continue
        passed += 1
        assert layout.input % 8 == layout.output % 8 == 0
        assert apart_and_inside(
            [
                (64, layout.size), (layout.input, layout.input_capacity), (layout.output, layout.output_capacity),
                (layout.error, layout.error_capacity),
            ]
        )  # fmt: skip
    assert 30 < passed < 4_000
