"""Norms, quantisation, SwiGLU, RoPE and exp, each against its NumPy twin; and the merging of partitions."""

import numpy as np
import pytest

from sealhost.kernels.backend import Rope, RopeStyle
from sealhost.kernels.cpu import elementwise
from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.emit import Emit
from sealhost.kernels.cpu.kernelset import SHARED
from sealhost.kernels.cpu.native import Library
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.layouts import WIDE, WIDE_LOW, WIDE_STEP, activation_stride
from sealhost.kernels.reference import ops


def _exp(k: Emit, x, out, vectors):
    with k.loop(vectors) as step:
        at = k.times(step, 32)
        k.store(k.at(out, at), elementwise.exp(k, k.load(k.at(x, at), elementwise.REAL)))


@pytest.fixture(scope="module")
def kernels():
    library = Library()
    library.kernels.update(SHARED.kernels)
    library.native("exp", _exp)
    return Single(library)


def records(area, width):
    """A quantised row: (values, scales, weighted, sums)."""
    blocks = area[: width // 32 * 48].reshape(-1, 48)
    floats = blocks[:, 32:40].copy().view(np.float32)
    return blocks[:, :32].copy().view(np.int8), floats[:, 0], floats[:, 1], blocks[:, 40:44].copy().view(np.int32)[:, 0]


def test_exp_is_within_two_parts_in_ten_million(kernels):
    x = np.linspace(-87, 88, 80000, dtype=np.float32)
    out = np.empty_like(x)
    kernels["exp"](address(x), address(out), len(x) // 8)
    exact = np.exp(x.astype(np.float64))
    assert np.abs(out / exact - 1).max() < 2e-7


def test_exp_keeps_its_fixed_points(kernels):
    x = np.array([0.0, -0.0, -np.inf, -88.0, -1e30, 1.0, 89.0, np.inf], np.float32)
    out = np.empty_like(x)
    kernels["exp"](address(x), address(out), 1)
    assert out[:5].tolist() == [1, 1, 0, 0, 0]
    assert out[6] == out[7] >= np.float32(2.0**127)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_quantised_activations_equal_the_twins_exactly(kernels, scale):
    rng = np.random.default_rng(5)
    x = (rng.normal(size=192) * scale).astype(np.float32)
    x[32:64] = 0
    area = Arena().take(activation_stride(192))
    plain = np.empty_like(x)
    kernels["quantise"](address(x), address(area), address(plain), 6)
    values, scales, weighted, sums = records(area, 192)
    twin = ops.quantise_activations(x)
    assert np.array_equal(values, twin.values)
    assert np.array_equal(scales, twin.scales)
    assert np.array_equal(sums, twin.sums)
    assert np.array_equal(weighted, twin.scales * twin.sums.astype(np.float32))
    assert np.array_equal(plain, x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_shows_in_its_blocks_scale(kernels, bad):
    x = np.ones(64, np.float32)
    x[3] = bad
    area = Arena().take(activation_stride(64))
    kernels["quantise"](address(x), address(area), 0, 2)
    _, scales, _, _ = records(area, 64)
    assert not np.isfinite(scales[0])
    assert np.isfinite(scales[1])


def test_rms_norm_then_quantise_follows_the_twin(kernels):
    rng = np.random.default_rng(6)
    x, weight = rng.normal(size=(2, 576)).astype(np.float32)
    epsilon = np.array([1e-5], np.float32)
    area, plain = Arena().take(activation_stride(576)), np.empty(576, np.float32)
    kernels["norm_quantise"](address(x), address(weight), address(area), address(plain), 18, address(epsilon))
    exact = ops.rms_norm(x.astype(np.float64), weight.astype(np.float64), 1e-5)
    assert np.abs(plain - exact).max() < 1e-6 * np.abs(exact).max()
    values, scales, _, _ = records(area, 576)
    assert np.abs(values * scales[:, None] - exact.reshape(-1, 32)).max() <= 0.51 * scales.max()


def test_wide_activations_hold_sixteen_bits_in_both_their_forms(kernels):
    rng = np.random.default_rng(7)
    x = rng.normal(size=576).astype(np.float32)
    weight, epsilon = np.ones(576, np.float32), np.zeros(1, np.float32)
    area = Arena().take(activation_stride(576, WIDE))
    kernels["norm_quantise_wide"](address(x), address(weight), address(area), 0, 18, address(epsilon))
    exact = ops.rms_norm(x.astype(np.float64), 1.0, 0.0).reshape(-1, 32)
    blocks = area[: 18 * WIDE.size].reshape(18, -1)
    high, low = (blocks[:, at : at + 32].view(np.int8).astype(np.int32) for at in (0, WIDE_LOW))
    whole = area[18 * WIDE.size : 18 * (WIDE.size + 64)].view(np.int16).reshape(18, 8, 4)[..., [0, 2, 1, 3]]
    assert np.array_equal(whole.reshape(18, 32), WIDE_STEP * high + low)
    scales, weighted = blocks[:, WIDE.scale : WIDE.sum].copy().view(np.float32).T
    sums = blocks[:, WIDE.sum : WIDE.sum + 4].copy().view(np.int32)[:, 0]
    assert np.array_equal(sums, whole.sum(axis=(1, 2)))
    assert np.array_equal(weighted, scales * sums.astype(np.float32))
    assert (np.abs(whole.reshape(18, 32) * scales[:, None] - exact).max(axis=1) <= 0.51 * scales + 1e-6).all()


def test_swiglu_follows_the_twin(kernels):
    rng = np.random.default_rng(8)
    tiles = (rng.normal(size=(4, 16)) * 4).astype(np.float32)
    area, plain = Arena().take(activation_stride(64)), np.zeros(64, np.float32)
    kernels["swiglu_quantise"](address(tiles), 64, address(area), address(plain), 1)
    exact = ops.silu(tiles[:2].reshape(-1).astype(np.float64)) * tiles[2:].reshape(-1)
    assert np.allclose(plain[32:], exact, rtol=1e-6, atol=1e-9)
    assert not plain[:32].any()
    values, scales, _, _ = records(area, 64)
    assert np.abs(values[1] * scales[1] - exact).max() <= 0.51 * scales[1]


def test_swiglu_of_large_gates_is_the_identity_or_nothing(kernels):
    tiles = np.ones((4, 16), np.float32)
    tiles[0], tiles[1] = 1e30, -1e30
    area, plain = Arena().take(activation_stride(32)), np.zeros(32, np.float32)
    kernels["swiglu_quantise"](address(tiles), 64, address(area), address(plain), 0)
    assert np.allclose(plain[:16], 1e30)
    assert np.abs(plain[16:]).max() <= 1e30 / 2.0**126


@pytest.mark.parametrize(("width", "rotated"), [(64, 64), (64, 32), (128, 128), (32, 16)])
def test_rope_rotates_split_halves_as_the_twin_does(kernels, width, rotated):
    rng = np.random.default_rng(9)
    x = rng.normal(size=width).astype(np.float32)
    angles = 77 * 1e4 ** (-np.arange(0, rotated, 2) / rotated)
    table = np.concatenate([np.cos(angles), np.sin(angles)]).astype(np.float32)
    out, gain = np.empty_like(x), np.array([0.125], np.float32)
    kernels["rope"](address(x), address(table), rotated // 2, address(out), width, address(gain))
    plain, at = Rope.plain(1e4, rotated), np.array([77], np.int32)
    twin = ops.rotate(x.reshape(1, 1, -1).astype(np.float64), at, plain, RopeStyle.NEOX)
    assert np.allclose(out, twin[0, 0] * 0.125, atol=1e-6)


def test_merging_an_empty_partition_changes_no_bit(kernels):
    rng = np.random.default_rng(11)
    state = rng.normal(size=16 + 64).astype(np.float32)
    empty = np.zeros(16 + 64, np.float32)
    empty[0] = -1e30
    before = state.copy()
    kernels["merge"](address(state), address(empty), 64)
    assert np.array_equal(state[16:], before[16:])
    assert np.array_equal(state[:2], before[:2])
