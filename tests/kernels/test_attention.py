"""Keys and values of every type: how they are kept, and attention over them, against the NumPy twins."""

import numpy as np
import pytest

from sealhost.kernels.backend import KV_BLOCK_TOKENS
from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.attention import QUERY_COUNTS, attention_library
from sealhost.kernels.cpu.cache import _read, cache_directory, cache_key, load_kernels
from sealhost.kernels.cpu.isa import wide_registers
from sealhost.kernels.cpu.program import SCORES_BYTES
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.kv_type import KV_SCALE_DIMS, KvType
from sealhost.kernels.reference import ops
from sealhost.kernels.reference.kept import as_kept, scaled

BLOCKS = 12
ELEMENTS = {KvType.FLOAT16: np.float16, KvType.FLOAT32: np.float32, KvType.INT8: np.int8}


@pytest.fixture(scope="module")
def made(cpu):
    """Kernels by type and whether they are made for many registers; those of this machine from the cache on disk."""
    folder, key, kernels = cache_directory(), cache_key(), {}
    for kv_type in KvType:
        load_kernels(cpu.isa, kv_type)
        code = _read(folder / f"{key}-kv-{kv_type}.o").objects[0]
        for many in (False, True):
            library = attention_library(kv_type, many=many)
            kernels[kv_type, many] = Single(library, code=code if many == wide_registers() else None)
    return kernels


@pytest.fixture(scope="module", params=[False, True], ids=["16 registers", "32 registers"])
def kernels(request, made):
    """Kernels by type."""
    return {kv_type: made[kv_type, request.param] for kv_type in KvType}


class Cache:
    """Blocks of one KV head, as the kernels lay them out."""

    def __init__(self, kv_type, width, blocks=BLOCKS):
        self.kv_type, self.width = kv_type, width
        self.block_bytes = kv_type.head_bytes(width)
        self.keys, self.values = (Arena().take(blocks * self.block_bytes).reshape(blocks, -1) for _ in range(2))

    def _parts(self, area):
        """Elements and scales of all blocks; the scales as [block][group][position]."""
        size = KV_BLOCK_TOKENS * self.width * self.kv_type.element_bytes
        scales = area[:, size:].copy().view(np.float16)
        return area[:, :size].copy().view(ELEMENTS[self.kv_type]), scales.reshape(len(area), -1, KV_BLOCK_TOKENS)

    def _real(self, area, elements):
        """Shape: (blocks, 16 positions, head_dim)."""
        if self.kv_type is not KvType.INT8:
            return elements.astype(np.float32)
        scales = self._parts(area)[1].astype(np.float32).transpose(0, 2, 1)
        return elements * np.repeat(scales, KV_SCALE_DIMS, axis=2)[..., : self.width]

    def all_keys(self):
        elements = self._parts(self.keys)[0].reshape(-1, self.width, KV_BLOCK_TOKENS).transpose(0, 2, 1)
        return self._real(self.keys, elements)

    def all_values(self):
        return self._real(self.values, self._parts(self.values)[0].reshape(-1, KV_BLOCK_TOKENS, self.width))

    def put(self, kernels, block, slot, key, value):
        kernels["store_kv"](
            address(key), address(value), address(self.keys[block]), address(self.values[block]), slot, self.width
        )

    def fill(self, kernels, rng):
        """Random heads everywhere."""
        for block in range(len(self.keys)):
            for slot in range(KV_BLOCK_TOKENS):
                self.put(kernels, block, slot, *rng.normal(size=(2, self.width)).astype(np.float32))


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("width", [16, 48, 64, 80, 96, 128, 256])
def test_what_is_kept_equals_the_twins_exactly(kernels, kv_type, width):
    rng = np.random.default_rng(width)
    cache = Cache(kv_type, width, 2)
    key, value = (rng.normal(size=(2, width)) * np.exp(3 * rng.normal(size=(2, width)))).astype(np.float32)
    key[:KV_SCALE_DIMS] = 0
    cache.put(kernels[kv_type], 1, 5, key, value)
    assert np.array_equal(cache.all_keys()[1, 5], as_kept(key, kv_type))
    assert np.array_equal(cache.all_values()[1, 5], as_kept(value, kv_type))
    others = [one != (1, 5) for one in np.ndindex(2, KV_BLOCK_TOKENS)]
    assert not cache.all_keys().reshape(-1, width)[others].any()
    assert not cache.all_values().reshape(-1, width)[others].any()


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38, -1e9])
def test_what_is_kept_is_finite_whatever_came(kernels, kv_type, bad):
    cache = Cache(kv_type, 64, 1)
    key = np.ones(64, np.float32)
    key[7] = bad
    cache.put(kernels[kv_type], 0, 3, key, key)
    for area in (cache.all_keys(), cache.all_values()):
        assert np.isfinite(area).all()
        assert np.array_equal(area[0, 3, KV_SCALE_DIMS:], as_kept(np.ones(32), kv_type))
        assert np.array_equal(area[0, 3], as_kept(key, kv_type))


def test_an_integer_is_at_most_half_a_step_off_and_an_outlier_spoils_its_own_group_alone():
    x = np.random.default_rng(4).normal(size=(100, 96)).astype(np.float32)
    x[:, 40] = 50
    kept = scaled(x)
    error = np.abs(kept.real() - x).reshape(100, 3, 32).max(axis=2)
    assert (error <= 0.5 * kept.scales.astype(np.float64) * (1 + 127 * 2**-10)).all()
    assert error[:, [0, 2]].max() < 0.02 < error[:, 1].min()


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("width", [16, 64, 80, 96, 128, 256])
def test_one_partition_of_attention_follows_the_twin(kernels, kv_type, width):
    rng = np.random.default_rng(10)
    cache = Cache(kv_type, width)
    cache.fill(kernels[kv_type], rng)
    for queries in QUERY_COUNTS:
        q = (3 * rng.normal(size=(queries, width)) / np.sqrt(width)).astype(np.float32)
        for blocks, window, cap in ((9, 0, 0.0), (1, 0, 0.0), (6, 50, 0.0), (11, 0, 0.7), (9, 20, 1.5)):
            table = rng.permutation(BLOCKS)[:blocks].astype(np.int32)
            seen = rng.integers(1, blocks * 16 + 1, queries).astype(np.int32)
            seen[-1] = blocks * 16
            found = attended(kernels[kv_type], cache, q, seen, table, window, cap)
            for query, count in enumerate(seen):
                exact = ops.paged_attention(
                    q[query].astype(np.float64).reshape(1, 1, -1), cache.all_keys()[:, :, None].astype(np.float64),
                    cache.all_values()[:, :, None].astype(np.float64), np.array([count - 1]), table,
                    ops.Sight(1.0, cap, window),
                )[0, 0]  # fmt: skip
                assert np.allclose(found[query, 2:] / found[query, 1], exact, atol=4e-6), (queries, blocks, window, cap)


def attended(kernels, cache, q, seen, table, window=0, cap=0.0):
    """Partials without their padding. Shape: (queries, 2 + head_dim), float32."""
    low, limit = np.maximum(0, seen - window if window else 0 * seen).astype(np.int32), np.array([cap], np.float32)
    scores, partial = np.empty(len(q) * SCORES_BYTES, np.uint8), np.empty((len(q), 16 + cache.width), np.float32)
    kernels[f"attend{len(q)}"](
        address(q), address(seen), address(low) if window or cap else 0, address(limit) if cap else 0, address(table),
        len(table), address(cache.keys), address(cache.values), cache.block_bytes, cache.width, address(scores),
        address(partial), partial.strides[0],
    )  # fmt: skip
    return np.delete(partial, range(2, 16), axis=1)


@pytest.mark.parametrize("kv_type", KvType)
@pytest.mark.parametrize("width", [64, 80, 96, 256])
def test_a_query_gets_the_same_bits_whoever_shares_its_call_and_however_many_registers_there_are(made, kv_type, width):
    q = np.random.default_rng(11).normal(size=(6, width)).astype(np.float32)
    seen, table = np.array([80, 3, 77, 16, 80, 50], np.int32), np.arange(5, dtype=np.int32)
    together = None
    for many in (False, True):
        kernels, cache = made[kv_type, many], Cache(kv_type, width, 5)
        cache.fill(kernels, np.random.default_rng(12))
        for count in reversed(QUERY_COUNTS):
            for first in range(0, 6 // count * count, count):
                mine = slice(first, first + count)
                part = attended(kernels, cache, q[mine], seen[mine], table)
                together = part if together is None else together
                assert np.array_equal(part, together[mine]), (many, count, first)
