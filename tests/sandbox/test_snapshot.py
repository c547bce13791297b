"""Which memory goes into the image that instances share, and which is written into each of them."""

from __future__ import annotations

import numpy as np
import pytest

from sealhost.sandbox import SamplingParams, Sandbox
from sealhost.sandbox.snapshot import Snapshot, nonzero_runs, split

PAGE, MIB = 4096, 1 << 20


def run(at: int, size: int) -> tuple[int, bytes]:
    return at, bytes(size)


@pytest.mark.parametrize(
    ("pages", "runs"),
    [
        ([0, 0, 0], []),
        ([1, 0, 0], [(0, 1)]),
        ([0, 1, 1], [(1, 3)]),
        ([1, 0, 1], [(0, 1), (2, 3)]),
        ([1, 1, 1], [(0, 3)]),
    ],
)
def test_runs_of_pages_that_are_not_all_zero_are_found(pages, runs):
    memory = np.zeros(3 * PAGE, np.uint8)
    for index, used in enumerate(pages):
        memory[index * PAGE + PAGE - 1] = used
    assert nonzero_runs(memory) == [(a * PAGE, b * PAGE) for a, b in runs]


NEAR, FAR = run(MIB, 3 * MIB), run(60 * MIB, PAGE)
BIG_FAR = run(60 * MIB, 2 * MIB)
STREWN = [run(i * 20 * MIB, PAGE) for i in range(70)]
SPLITS = {
    "nothing": ([], [], []),
    "one run": ([NEAR], [NEAR], []),
    "close together": ([run(MIB - 2 * PAGE, PAGE), NEAR], [run(MIB - 2 * PAGE, PAGE), NEAR], []),
    "a small outlier above": ([NEAR, FAR], [NEAR], [FAR]),
    "a small outlier below": ([run(0, PAGE), BIG_FAR], [BIG_FAR], [run(0, PAGE)]),
    "a small outlier that could be mapped": ([run(0, PAGE), NEAR], [NEAR], [run(0, PAGE)]),
    "outliers on both sides": ([run(0, PAGE), run(30 * MIB, MIB), FAR], [run(30 * MIB, MIB)], [run(0, PAGE), FAR]),
    "a large outlier that cannot be mapped": ([NEAR, BIG_FAR], [NEAR], [BIG_FAR]),
    "a large outlier that can": ([NEAR, run(10 * MIB, MIB)], [NEAR, run(10 * MIB, MIB)], []),
    "a large run below, which an outlier above would put out of reach": (
        [run(0, 8 * PAGE), NEAR, FAR],
        [run(0, 8 * PAGE), NEAR],
        [FAR],
    ),
    "more outliers than are looked at": (STREWN, STREWN, []),
    "half full": ([run(0, 20 * MIB), run(35 * MIB, 5 * MIB)], [run(0, 20 * MIB), run(35 * MIB, 5 * MIB)], []),
}


def test_outliers_are_few_even_when_state_is_strewn():
    strewn = [run(i * MIB, PAGE) for i in range(64)]
    image, patches = split(strewn)
    assert len(image) + len(patches) == 64
    assert image[-1][0] - image[0][0] <= 16 * MIB
    close = [run(i * MIB // 4, PAGE) for i in range(60)]
    assert len(split(close)[1]) == 16  # 64 KiB, and no more


@pytest.mark.parametrize("name", SPLITS)
def test_outliers_stay_out_of_the_image(name):
    runs, image, patches = SPLITS[name]
    found = split(runs)
    assert list(found[0]) == image
    assert list(found[1]) == patches


@pytest.mark.parametrize("patches", [[], [(5, b"abc"), (4096, b"")]])
def test_snapshot_survives_the_cache(patches):
    snapshot = Snapshot(b"layout..", patches)
    found = Snapshot.unpack(snapshot.pack(), 8)
    assert (found.layout, found.patches) == (b"layout..", patches)
    assert found.pack() == snapshot.pack()


def test_outlying_state_is_there_in_every_instance(build_guest, guest_limits, tmp_path):
    text = """(memory (export "memory") 512 512)
    (func (export "init") (result i32) (i32.store8 (i32.const 33000000) (i32.const 40)) (i32.store8 (i32.const 100000) (i32.const 2)) (i32.const 0))
    (func (export "step") (param i32) (result i32)
      (i32.store (i32.const 8320) (i32.const 16)) (i32.store (i32.const 8324) (i32.const 1))
      (i32.store (i32.const 8328) (i32.add (i32.load8_u (i32.const 33000000)) (i32.load8_u (i32.const 100000))))
      (i32.store8 (i32.const 33000000) (i32.const 99)) (i32.const 0))"""
    guest = build_guest("sampler", text, limits=guest_limits(memory_bytes=64 * MIB))
    for _ in range(2):  # the second one comes from the cache
        with Sandbox(cache_directory=tmp_path / "cache") as sandbox:
            sampler = sandbox.load_sampler(guest, 260)
            assert sum(len(data) for _, data in sampler._program.patches) == PAGE
            for _ in range(3):
                with sampler.session(SamplingParams(), []) as session:
                    assert session.step()[0].tokens[0] == 42
