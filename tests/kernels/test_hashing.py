"""SHA-256 of several messages at a time equals hashlib's, whatever the lengths."""

from __future__ import annotations

import hashlib
import random

import pytest

from sealhost.kernels.cpu import compiler, isa, loader
from sealhost.kernels.cpu.isa import hash_widths
from sealhost.kernels.cpu.loader import LoadedSha256
from sealhost.kernels.cpu.sha256 import round_constants

NUMBERS = random.Random(9)
HASH_WIDTHS = hash_widths()


def digests(buffers: list[bytes]) -> list[bytes]:
    return [hashlib.sha256(buffer).digest() for buffer in buffers]


@pytest.fixture(params=["this machine's", (16,), (8,), (2,), (16, 8)], ids=str)
def sha256(request, monkeypatch, cpu, made_once):
    """The ways of this machine together, and each with hashlib for the rest: any machine can run lanes."""
    widths = request.param
    if widths == "this machine's":
        return cpu.sha256
    if widths == (2,) and 2 not in HASH_WIDTHS:
        pytest.skip("this processor has no instructions for SHA-256")
    for module in (compiler, loader):
        monkeypatch.setattr(module, "hash_widths", lambda: widths)
    return LoadedSha256(made_once(f"sha256 {widths}", compiler.compile_hashing))


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
        *([128] * count for count in range(9, 19)),
        [640] * 37,
        [64] * 12 + [128] * 16 + [1000] * 11 + [0] * 16 + [192] * 15 + [100],
        [1 << 20] * 16,
    ],
    ids=lambda lengths: str(lengths) if len(lengths) < 9 else f"{len(lengths)} of {lengths[0]} to {lengths[-1]}",
)
def test_any_lengths_give_what_hashlib_gives(sha256, lengths) -> None:
    buffers = [NUMBERS.randbytes(length) for length in lengths]
    assert sha256([memoryview(buffer) for buffer in buffers]) == digests(buffers)


@pytest.mark.parametrize("count", [2, 16])
def test_buffers_may_begin_anywhere_and_are_left_alone(sha256, count) -> None:
    whole = bytearray(NUMBERS.randbytes(count * 2007))
    views = [memoryview(whole)[2007 * index + index : 2007 * index + index + 1984] for index in range(count)]
    before = bytes(whole)
    assert sha256(views) == digests([bytes(view) for view in views])
    assert whole == before
    for view in views:
        view.release()  # nobody holds them any more


def test_a_backend_offers_the_widest_way_of_its_machine(cpu) -> None:
    assert cpu.sha256.width == next(iter(HASH_WIDTHS), 1)
    buffers = [NUMBERS.randbytes(128) for _ in range(21)]
    assert cpu.sha256([memoryview(buffer) for buffer in buffers]) == digests(buffers)


@pytest.mark.parametrize(
    ("features", "widths"),
    [
        ("avx512f avx512bw avx2 sha ssse3 sse4.1", (16, 2)),  # Zen 4, Ice Lake
        ("avx512f avx512bw avx2 ssse3 sse4.1", (16, 8)),  # Skylake's servers
        ("avx2 sha ssse3 sse4.1", (2,)),  # Zen to Zen 3, Alder Lake
        ("avx2 ssse3 sse4.1", (8,)),  # Haswell to Comet Lake
        ("ssse3 sse4.1", ()),
        ("neon sha2", ()),
    ],
)
def test_a_processor_gets_the_ways_that_are_faster_there(monkeypatch, features, widths) -> None:
    monkeypatch.setattr(isa.llvm, "get_host_cpu_features", lambda: dict.fromkeys(features.split(), True))
    assert hash_widths() == widths


def test_a_machine_without_instructions_for_it_has_hashlib(monkeypatch) -> None:
    for module in (compiler, loader):
        monkeypatch.setattr(module, "hash_widths", lambda: ())
    sha256 = LoadedSha256(compiler.compile_hashing())
    assert sha256.width == 1
    assert sha256([memoryview(b"one"), memoryview(b"two")]) == digests([b"one", b"two"])


class Counted:
    """A kernel, and a note of how many blocks it was asked for."""

    def __init__(self, kernel) -> None:
        self.kernel, self.blocks = kernel, []

    def __call__(self, *arguments: int) -> None:
        self.blocks.append(arguments[-2])
        self.kernel(*arguments)


@pytest.mark.skipif(2 not in HASH_WIDTHS, reason="this processor has no instructions for SHA-256")
def test_pairs_of_whole_blocks_go_through_the_kernel_and_the_rest_does_not(monkeypatch, cpu) -> None:
    pairs = cpu.sha256._hash if cpu.sha256.width == 2 else cpu.sha256._hash._others
    counted = Counted(pairs._hash_two)
    monkeypatch.setattr(pairs, "_hash_two", counted)
    buffers = [NUMBERS.randbytes(length) for length in (640, 640, 640, 641, 70, 70, 640)]
    assert pairs([memoryview(buffer) for buffer in buffers]) == digests(buffers)
    assert counted.blocks == [10, 1]  # the first two, then the block of padding of both


@pytest.mark.skipif(16 not in HASH_WIDTHS, reason="this processor has no AVX-512")
@pytest.mark.parametrize(("count", "calls"), [(9, 0), (10, 1), (16, 1), (25, 1), (26, 2), (32, 2)])
def test_enough_messages_of_whole_blocks_go_through_the_lanes(monkeypatch, cpu, count, calls) -> None:
    lanes = cpu.sha256._hash
    counted = Counted(lanes._hash_lanes)
    monkeypatch.setattr(lanes, "_hash_lanes", counted)
    buffers = [NUMBERS.randbytes(640) for _ in range(count)] + [NUMBERS.randbytes(641) for _ in range(16)]
    assert lanes([memoryview(buffer) for buffer in buffers]) == digests(buffers)
    assert counted.blocks == [10, 1] * calls


def test_the_constants_are_those_of_the_standard() -> None:
    """FIPS 180-4, 4.2.2: how the table begins and ends."""
    constants = round_constants()
    assert len(constants) == 64
    assert constants[:4] == [0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5]
    assert constants[-2:] == [0xBEF9A3F7, 0xC67178F2]
