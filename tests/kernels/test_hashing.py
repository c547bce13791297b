"""SHA-256 two at a time equals hashlib's, whatever the lengths."""

from __future__ import annotations

import hashlib
import random

import pytest

from sealhost.kernels.cpu import CpuBackend
from sealhost.kernels.cpu.hashing import PairedSha256, sha256_each
from sealhost.kernels.cpu.isa import hashes_two
from sealhost.kernels.cpu.sha256 import round_constants

NUMBERS = random.Random(9)


def digests(buffers: list[bytes]) -> list[bytes]:
    return [hashlib.sha256(buffer).digest() for buffer in buffers]


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [0],
        [64],
        [0, 0],
        [64, 64],
        [128, 64],
        [100, 100],
        [4096, 4096],
        [1 << 20, 1 << 20, 1 << 20],
        [192, 192, 55, 56, 63, 65, 119, 120],
        *([64 * blocks] * 2 for blocks in (2, 3, 5, 8, 13)),
    ],
    ids=str,
)
def test_any_lengths_give_what_hashlib_gives(lengths) -> None:
    buffers = [NUMBERS.randbytes(length) for length in lengths]
    assert CpuBackend().sha256([memoryview(buffer) for buffer in buffers]) == digests(buffers)


def test_buffers_may_begin_anywhere_and_are_left_alone() -> None:
    whole = bytearray(NUMBERS.randbytes(5000))
    views = [memoryview(whole)[1 : 1 + 1984], memoryview(whole)[2007 : 2007 + 1984]]
    before = bytes(whole)
    assert CpuBackend().sha256(views) == digests([bytes(view) for view in views])
    assert whole == before
    for view in views:
        view.release()  # nobody holds them any more


@pytest.mark.skipif(not hashes_two(), reason="this processor has no instructions for SHA-256")
def test_pairs_of_whole_blocks_go_through_the_kernel_and_the_rest_does_not() -> None:
    calls = []
    kernels = CpuBackend()._kernels  # the code lives as long as this
    real = kernels.sha256

    def counted(first, second, blocks, states):
        calls.append(blocks)
        real._hash_two(first, second, blocks, states)

    buffers = [NUMBERS.randbytes(length) for length in (640, 640, 640, 641, 70, 70, 640)]
    assert PairedSha256(counted)([memoryview(buffer) for buffer in buffers]) == digests(buffers)
    assert calls == [10, 1]  # the first two, then the block of padding of both
    assert sha256_each([memoryview(buffer) for buffer in buffers]) == digests(buffers)


def test_the_constants_are_those_of_the_standard() -> None:
    """FIPS 180-4, 4.2.2: how the table begins and ends."""
    constants = round_constants()
    assert len(constants) == 64
    assert constants[:4] == [0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5]
    assert constants[-2:] == [0xBEF9A3F7, 0xC67178F2]
