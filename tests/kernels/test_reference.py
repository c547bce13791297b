"""The reference's own arithmetic, against formulas written another way."""

import math

import numpy as np
import pytest

from sealhost.kernels.backend import DecoderSpec, Role, Rope, RopeStyle
from sealhost.kernels.reference import ops
from sealhost.kernels.reference.ops import Sight


def attention(queries, keys, values, **sight):
    """One head's attention over positions 0 to n - 1, by loops."""
    n = len(queries)
    scale, cap, window = sight.get("scale", 1.0), sight.get("cap", 0.0), sight.get("window", 0)
    out = np.zeros_like(queries)
    for at in range(n):
        first = max(0, at - window + 1) if window else 0
        scores = np.array([queries[at] @ keys[seen] * scale for seen in range(first, at + 1)])
        scores = cap * np.tanh(scores / cap) if cap else scores
        weights = np.exp(scores) / np.exp(scores).sum()
        out[at] = weights @ values[first : at + 1]
    return out


@pytest.mark.parametrize(
    "sight",
    [{}, {"scale": 0.3}, {"cap": 0.7}, {"window": 1}, {"window": 5}, {"window": 99}, {"cap": 0.5, "window": 17}],
)
def test_attention_looks_as_far_and_as_sharply_as_it_is_told(sight):
    rng = np.random.default_rng(3)
    queries, keys, values = rng.standard_normal((3, 40, 16))
    pages = np.array([2, 0, 1], np.int32)
    paged = np.zeros((2, 3, 16, 1, 16))
    for at in range(40):
        paged[:, pages[at // 16], at % 16, 0] = keys[at], values[at]
    positions = np.arange(40, dtype=np.int32)
    found = ops.paged_attention(
        queries[:, None], *paged, positions, pages, Sight(**{"scale": 1.0} | sight)
    )[:, 0]  # fmt: skip
    assert np.allclose(found, attention(queries, keys, values, **sight), atol=1e-12)


def test_gelu_is_close_to_the_exact_one_and_meets_its_limits():
    x = np.linspace(-6, 6, 101)
    exact = x / 2 * (1 + np.array([math.erf(one / math.sqrt(2)) for one in x]))
    assert np.abs(ops.gelu_tanh(x) - exact).max() < 1e-3
    assert np.array_equal(ops.gelu_tanh(np.array([-1e3, 0.0, 1e3])), [0.0, 0.0, 1e3])


def test_a_soft_cap_keeps_small_values_and_bounds_large_ones():
    x = np.array([-1e6, -1.0, 0.0, 0.01, 1e6])
    capped = ops.soft_cap(x, 30.0)
    assert np.abs(capped).max() == 30
    assert capped[3] == pytest.approx(0.01, rel=1e-6)
    assert ops.soft_cap(x, 0.0) is x


@pytest.mark.parametrize("style", RopeStyle)
def test_a_table_turns_pairs_by_its_frequencies_and_scales_them_by_its_factor(style):
    table = Rope((0.5, 0.25, 2.0), factor=1.5)
    x = np.random.default_rng(4).standard_normal((1, 1, 8))
    turned = ops.rotate(x, np.array([3], np.int32), table, style)[0, 0]
    pairs = [(0, 1), (2, 3), (4, 5)] if style is RopeStyle.NORM else [(0, 3), (1, 4), (2, 5)]
    for (first, second), frequency in zip(pairs, table.frequencies, strict=True):
        expected = 1.5 * complex(*x[0, 0, [first, second]]) * np.exp(3j * frequency)
        assert complex(turned[first], turned[second]) == pytest.approx(expected)
    assert np.array_equal(turned[6:], x[0, 0, 6:])


def test_a_spec_names_the_places_that_a_model_has(tiny_spec, respec):
    optional = {"qkv_bias": 3, "qk_norm": 2, "post_norms": 2}
    plain = tiny_spec.block_roles
    for name, places in optional.items():
        assert len(respec(**{name: True}).block_roles) == len(plain) + places
    everything = respec(**dict.fromkeys(optional, True), tied_head=False)
    assert {*everything.global_roles, *everything.block_roles} == set(Role)
    assert all(min(everything.shape(role)) > 0 for role in Role)


def test_a_spec_without_tables_has_the_plain_one(tiny_spec: DecoderSpec):
    (table,) = tiny_spec.rope_tables
    assert np.allclose(table.frequencies, 10000.0 ** (-np.arange(16) / 16))
    assert (tiny_spec.rope_of(1), tiny_spec.window_of(1)) == (0, 0)
