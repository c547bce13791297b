"""Layers with a window keep their blocks in a pool of their own; the whole cache is the reference, bit for bit (clause 11.6)."""

from dataclasses import replace

import numpy as np
import pytest

from sealhost.kernels.backend import KV_BLOCK_TOKENS
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.errors import BatchError, KernelError
from sealhost.kernels.kv_type import KvType
from sealhost.kernels.reference import ReferenceBackend

LENGTH = 700
"""Several of the longest window of `rich_spec`, 270."""
BLOCKS = -(-LENGTH // KV_BLOCK_TOKENS)
NOWHERE = 1 << 30
"""What stands in a table where nobody may look."""


class Sliding:
    """One sequence of a model with a pool for windows: takes blocks as it runs and gives old ones to whoever comes."""

    def __init__(self, model, free, *, max_tokens=256):
        self.model, self.free = model, free
        self.window = model.spec.window
        self.batch = StepBatch.allocate(max_tokens=max_tokens, max_sequences=4, max_blocks=64, window=self.window)
        self.batch.window_tables[:] = NOWHERE
        self.held, self.start, self.most = [], 0, 0

    def cover(self, start, end):
        """Holds the blocks that a run of positions `start` to `end` needs, and no others before it."""
        keep = max(0, start + 1 - self.window) // KV_BLOCK_TOKENS
        while self.held and self.start < keep:
            self.free.append(self.held.pop(0))
            self.start += 1
        while (self.start + len(self.held)) * KV_BLOCK_TOKENS < end:
            self.held.append(self.free.pop(0))
        self.most = max(self.most, len(self.held))

    def add(self, ids, start, blocks, row):
        self.cover(start, start + len(ids))
        self.batch.add(
            ids, start=start, blocks=blocks, logits_address=row.ctypes.data, window_blocks=self.held,
            window_start=self.start,
        )  # fmt: skip

    def step(self, ids, start, blocks):
        logits = np.full(self.model.spec.vocab, np.nan, np.float32)
        self.batch.clear()
        self.batch.window_tables[:] = NOWHERE
        self.add(ids, start, blocks, logits)
        self.model.step(self.batch)
        return logits


def needed(spec, chunk, again=0):
    """Blocks with which a sequence gets along whatever its length."""
    return spec.window_blocks(again) + -(-chunk // KV_BLOCK_TOKENS)


@pytest.fixture(scope="module")
def ids(rich_spec):
    return np.random.default_rng(8).integers(0, rich_spec.vocab, LENGTH + 40).tolist()


@pytest.mark.parametrize("chunk", [1, 7, 64, 256])
@pytest.mark.parametrize("kv_type", KvType)
def test_a_context_of_several_windows_gives_the_bits_of_the_whole_cache(
    build, runner, keeping, rich_spec, ids, kv_type, chunk
):
    length = 330 if chunk == 1 else LENGTH
    whole = runner(build(keeping[kv_type], rich_spec))
    count = needed(rich_spec, chunk)
    sliding = Sliding(build(keeping[kv_type], rich_spec, window_blocks=count), list(range(count)))
    blocks = list(range(BLOCKS + 3))
    for start in range(0, length, chunk):
        run = ids[start : min(length, start + chunk)]
        assert np.array_equal(whole.step((run, start, blocks))[0], sliding.step(run, start, blocks))
    for at in range(length, length + 40):
        assert np.array_equal(whole.step(([ids[at]], at, blocks))[0], sliding.step([ids[at]], at, blocks))
    assert sliding.most <= count < BLOCKS


def test_the_reference_gives_old_blocks_back_as_the_kernels_do(build, runner, respec, ids):
    spec = respec(layer_windows=(9, 33))
    backend, count = ReferenceBackend(), needed(spec, 20)
    whole = runner(build(backend, spec))
    sliding = Sliding(build(backend, spec, window_blocks=count), list(range(count)))
    blocks = list(range(10))
    for start in range(0, 140, 20):
        run = ids[start : start + 20]
        assert np.array_equal(whole.step((run, start, blocks))[0], sliding.step(run, start, blocks))


def test_sequences_that_trade_blocks_in_one_step_are_as_alone(build, runner, cpu, rich_spec, ids):
    """One prefills with what another, far ahead, has just given back."""
    count = 2 * needed(rich_spec, 64)
    model = build(cpu, rich_spec, window_blocks=count, kv_blocks=128)
    free = list(range(count))
    first, second = Sliding(model, free), Sliding(model, free)
    whole = runner(build(cpu, rich_spec, kv_blocks=128))
    tables = list(range(64)), list(range(64, 128))
    for start in range(0, 448, 64):
        first.step(ids[start : start + 64], start, tables[0])
        whole.step((ids[start : start + 64], start, tables[0]))
    for turn in range(6):
        at, start = 448 + turn, 64 * turn
        rows = np.full((2, rich_spec.vocab), np.nan, np.float32)
        second.batch = first.batch
        first.batch.clear()
        first.batch.window_tables[:] = NOWHERE
        first.add([ids[at]], at, tables[0], rows[0])
        second.add(ids[start : start + 64], start, tables[1], rows[1])
        model.step(first.batch)
        assert np.array_equal(rows, whole.step(([ids[at]], at, tables[0]), (ids[start : start + 64], start, tables[1])))
    assert set(first.held).isdisjoint(second.held)


def test_a_model_whose_layers_all_have_windows_keeps_nothing_else(build, runner, cpu, rich_spec, ids):
    spec = replace(rich_spec, layer_windows=(40, 40, 40))
    count = needed(spec, 64)
    sliding = Sliding(build(cpu, spec, window_blocks=count), list(range(count)))
    whole, blocks = runner(build(cpu, spec)), list(range(BLOCKS))
    for start in range(0, 640, 64):
        run = ids[start : start + 64]
        assert np.array_equal(whole.step((run, start, blocks))[0], sliding.step(run, start, blocks))


def test_the_cache_is_as_large_as_its_blocks(build, cpu, keeping, rich_spec):
    for kv_type in KvType:
        for kv_blocks, window_blocks in ((64, 64), (64, 7), (3, 64)):
            model = build(keeping[kv_type], rich_spec, kv_blocks=kv_blocks, window_blocks=window_blocks)
            layer = kv_type.layer_bytes(rich_spec)
            assert model.memory_bytes["kv"] == pytest.approx(layer * (kv_blocks + 2 * window_blocks), abs=128)
    assert build(cpu, rich_spec).memory_bytes == build(cpu, rich_spec, window_blocks=64).memory_bytes


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("bad", [-1, 20])
def test_a_block_that_the_pool_of_windows_lacks_is_refused_where_it_would_be_read(build, cpu, rich_spec, backend, bad):
    model = build(cpu if backend == "cpu" else ReferenceBackend(), rich_spec, window_blocks=20)
    logits = np.zeros(rich_spec.vocab, np.float32)
    batch = StepBatch.allocate(max_tokens=8, max_sequences=1, max_blocks=32, window=rich_spec.window)
    for entry, read in ((5, False), (6, True), (23, True), (24, True), (25, False)):
        batch.clear()  # 370 to 385 see 101 to 385: blocks 6 to 24
        batch.add(
            list(range(8)), start=378, blocks=range(32), logits_address=logits.ctypes.data, window_blocks=range(20),
            window_start=6,
        )  # fmt: skip
        batch.window_tables[0, entry] = bad
        if read:
            with pytest.raises(BatchError, match="KV block ids"):
                model.step(batch)
        else:
            model.step(batch)


def test_blocks_that_leave_out_a_part_of_the_window_are_refused():
    batch = StepBatch.allocate(max_tokens=8, max_sequences=2, max_blocks=8, window=20)
    for first, count in ((2, 3), (1, 2), (1, 0)):
        with pytest.raises(BatchError, match="blocks of the 20 positions before 50 and of those to 52, got"):
            batch.add(
                [1, 2], start=50, blocks=range(4), logits_address=None, window_blocks=range(count), window_start=first
            )
    batch.add([1, 2], start=50, blocks=range(4), logits_address=None, window_blocks=[7, 5, 3], window_start=1)
    assert batch.window_tables[0, 1:4].tolist() == [7, 5, 3]
    assert batch.sequence_count == 1


def test_tables_of_different_shapes_are_refused(build, cpu, rich_spec):
    batch = StepBatch.allocate(max_tokens=8, max_sequences=2, max_blocks=8, window=20)
    batch.window_tables = batch.window_tables[:, :4].copy()
    with pytest.raises(BatchError, match="window_tables of"):
        build(cpu, rich_spec).step(batch)


def test_a_pool_for_windows_without_blocks_is_refused(cpu, build, rich_spec, tiny_spec):
    with pytest.raises(KernelError, match="window_blocks=0"):
        build(cpu, rich_spec, window_blocks=0)
    build(cpu, tiny_spec, window_blocks=0)


@pytest.mark.parametrize("window", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("again", [0, 1, 16, 30])
def test_the_blocks_of_a_window_are_enough_wherever_it_begins(respec, window, again):
    most = respec(layer_windows=(0, window)).window_blocks(again)
    spans = [(at // 16) - max(0, at - again + 1 - window) // 16 + 1 for at in range(200)]
    assert max(spans) <= most <= max(spans) + 1
    assert respec().window_blocks(again) == 0
