"""The kernels that only some architectures need, each against its NumPy twin."""

import numpy as np
import pytest

from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.kernelset import SHARED
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.layouts import NARROW
from sealhost.kernels.reference import ops


@pytest.fixture(scope="module")
def kernels():
    return Single(SHARED)


def test_gelu_times_up_follows_the_twin(kernels):
    tiles = np.random.default_rng(8).normal(scale=3, size=(4, 16)).astype(np.float32)
    tiles[0, :6] = 0.0, 1e-3, -30.0, 30.0, -1e4, 1e4
    area, plain = Arena().take(2 * NARROW.size), np.zeros(64, np.float32)
    kernels["geglu_quantise"](address(tiles), 64, address(area), address(plain), 1)
    exact = ops.gelu_tanh(tiles[:2].reshape(-1).astype(np.float64)) * tiles[2:].reshape(-1)
    assert np.allclose(plain[32:], exact, rtol=1e-5, atol=1e-6)
    assert not plain[:32].any()


@pytest.mark.parametrize("cap", [0.5, 30.0, 50.0])
def test_a_soft_cap_follows_the_twin(kernels, cap):
    tile = np.random.default_rng(9).normal(scale=2 * cap, size=16).astype(np.float32)
    tile[:5] = 0.0, 1e-4, -1e9, 1e9, np.inf
    exact = ops.soft_cap(tile.astype(np.float64), cap)
    limit = np.array([cap], np.float32)
    kernels["cap_tile"](address(tile), address(limit))
    assert np.allclose(tile, exact, rtol=0, atol=2e-7 * cap + 1e-9)


def test_what_is_no_number_stays_none_under_a_soft_cap(kernels):
    tile = np.full(16, np.nan, np.float32)
    kernels["cap_tile"](address(tile), address(np.array([30.0], np.float32)))
    assert np.isnan(tile).all()


@pytest.mark.parametrize("width", [16, 48, 64, 128, 256])
def test_a_heads_norm_follows_the_twin_also_in_place(kernels, width):
    rng = np.random.default_rng(12)
    x, weight = rng.normal(size=(2, width)).astype(np.float32)
    epsilon, out = np.array([1e-6], np.float32), np.empty(width, np.float32)
    exact = ops.rms_norm(x.astype(np.float64), weight.astype(np.float64), 1e-6)
    kernels["norm_head"](address(x), address(weight), address(out), width, address(epsilon))
    assert np.allclose(out, exact, rtol=1e-5, atol=1e-6)
    kernels["norm_head"](address(x), address(weight), address(x), width, address(epsilon))
    assert np.array_equal(x, out)


def test_a_post_norm_is_added_to_the_residual(kernels):
    rng = np.random.default_rng(13)
    x, y, weight = rng.normal(size=(3, 96)).astype(np.float32)
    exact = x + ops.rms_norm(y.astype(np.float64), weight.astype(np.float64), 1e-5)
    kernels["settle"](address(x), address(y), address(weight), 3, address(np.array([1e-5], np.float32)))
    assert np.allclose(x, exact, rtol=1e-5, atol=1e-6)


def test_an_embedding_is_scaled_whole(kernels):
    x = np.arange(64, dtype=np.float32)
    kernels["scale_row"](address(x), 2, address(np.array([2.5], np.float32)))
    assert np.array_equal(x, np.arange(64, dtype=np.float32) * 2.5)
