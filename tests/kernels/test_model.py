"""Whole models on the CPU against the NumPy backend."""

import numpy as np
import pytest

from sealhost.kernels.backend import Activation, Role, Rope, RopeStyle
from sealhost.kernels.cpu import memory
from sealhost.kernels.errors import BatchError
from sealhost.kernels.formats import Format
from sealhost.kernels.kv_type import KvType
from sealhost.kernels.reference import ReferenceBackend

SHAPES = {
    "plain": {},
    "split halves": {"rope_style": RopeStyle.NEOX},
    "partly rotated": {"head_dim": 64, "rope_dim": 16},
    "own head": {"tied_head": False},
    "one head group": {"heads": 6, "kv_heads": 6, "head_dim": 16, "rope_dim": 16},
    "groups of three": {"heads": 6, "kv_heads": 2, "head_dim": 16, "rope_dim": 16},
    "groups of seven": {"heads": 14, "kv_heads": 2, "head_dim": 16, "rope_dim": 16},
    "wide heads": {"heads": 2, "kv_heads": 1, "head_dim": 128, "rope_dim": 128},
    "more heads than width": {"heads": 8, "kv_heads": 2, "head_dim": 48, "rope_dim": 48},
    "no tile multiple": {"vocab": 1, "feed_forward_dim": 32, "dim": 32},
}
TABLE = Rope(tuple(0.6**pair for pair in range(16)), 1.3)
FEATURES = {
    "gelu": {"activation": Activation.GELU_TANH},
    "scaled embedding": {"embedding_scale": 8.0},
    "scaled queries": {"query_scale": 0.3},
    "capped scores": {"attention_cap": 1.0},
    "capped logits": {"logit_cap": 2.0},
    "biases": {"qkv_bias": True},
    "biases of adjacent pairs": {"qkv_bias": True, "rope_style": RopeStyle.NORM},
    "normed heads": {"qk_norm": True},
    "normed heads of adjacent pairs": {"qk_norm": True, "rope_style": RopeStyle.NORM},
    "post-norms": {"post_norms": True},
    "a table": {"ropes": (TABLE,)},
    "a table for each layer": {"ropes": (TABLE, Rope.plain(1e4, 32)), "layer_ropes": (1, 0)},
    "windows": {"layer_windows": (9, 33)},
    "one window": {"layer_windows": (0, 1)},
}
SUPER = {"dim": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "rope_dim": 64, "feed_forward_dim": 512}
"""A shape whose rows the K formats can hold."""
MIXED = {Role.EMBEDDING: Format.Q8_0, Role.VALUE: Format.F16, Role.DOWN: Format.F32, Role.UP: Format.Q4_0}


def compare(build, runner, backend, spec, formats, *, length=40, tolerance=2e-2):
    rng = np.random.default_rng(1)
    ids = rng.integers(0, spec.vocab, length).tolist()
    logits = []
    for each in (backend, ReferenceBackend(quantise=True)):
        run = runner(build(each, spec, formats))
        whole = run.step((ids, 0, [3, 1, 7]))
        logits.append([whole, run.step(([ids[0]], length, [3, 1, 7]))])
    for mine, exact in zip(*logits, strict=True):
        assert np.abs(mine - exact).max() <= tolerance * np.abs(exact).max()


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_follows_the_reference(build, runner, cpu, respec, name):
    compare(build, runner, cpu, respec(**SHAPES[name]), Format.Q4_1)


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_follows_the_reference(build, runner, cpu, respec, name):
    spec = respec(**{"rope_style": RopeStyle.NEOX} | FEATURES[name])
    ids = list(range(50))
    mine, exact, without = (
        runner(build(backend, one, Format.F32)).step((ids, 0, [0, 1, 2, 3]))
        for backend, one in (
            (cpu, spec),
            (ReferenceBackend(cache="float16"), spec),
            (ReferenceBackend(), respec(rope_style=spec.rope_style)),
        )
    )
    assert np.abs(mine - exact).max() <= 1e-3 * np.abs(exact).max()
    assert np.abs(without - exact).max() > 1e-2 * np.abs(exact).max()


HEADS = {"head_dim": 96, "rope_dim": 48, "heads": 6, "kv_heads": 2}
CACHES = {KvType.FLOAT32: 1e-5, KvType.FLOAT16: 1e-3, KvType.INT8: 1e-2}
"""What the kernels' float32 may differ from float64; a number on the edge between two stored ones falls to either."""


@pytest.mark.parametrize("kv_type", CACHES)
@pytest.mark.parametrize("name", ["plain", "heads of 96", "windows", "capped scores"])
def test_every_type_of_cache_follows_the_reference_that_rounds_as_it_does(
    build, runner, keeping, respec, kv_type, name
):
    spec = respec(**HEADS if name == "heads of 96" else FEATURES.get(name, {}))
    ids, blocks = np.random.default_rng(6).integers(0, spec.vocab, 301).tolist(), list(range(19))
    results = []
    for backend in (keeping[kv_type], ReferenceBackend(cache=kv_type), ReferenceBackend()):
        run = runner(build(backend, spec, Format.F32, max_tokens=300), max_tokens=300)
        results.append(np.stack([run.step((ids[:300], 0, blocks)), run.step((ids[300:], 300, blocks))]))
    mine, mirrored, exact = results
    largest = np.abs(exact).max()
    assert np.abs(mine - mirrored).max() <= CACHES[kv_type] * largest
    assert np.abs(mine - exact).max() <= 5 * CACHES[kv_type] * largest


def test_all_features_together_follow_the_reference(build, runner, cpu, rich_spec):
    compare(build, runner, cpu, rich_spec, Format.Q8_0, tolerance=3e-2)


@pytest.mark.parametrize("formats", [*Format, MIXED], ids=[*(fmt.name for fmt in Format), "mixed"])
def test_every_format_follows_the_reference(build, runner, cpu, tiny_spec, respec, formats):
    k_format = isinstance(formats, Format) and formats.block_elements > 32
    compare(build, runner, cpu, respec(**SUPER) if k_format else tiny_spec, formats)


def test_the_mixtures_that_files_have_follow_the_reference(build, runner, cpu, respec):
    formats = {
        Role.EMBEDDING: Format.Q6_K,
        Role.QUERY: Format.Q4_K,
        Role.KEY: Format.Q5_0,
        Role.VALUE: Format.Q6_K,
        Role.ATTENTION_OUTPUT: Format.BF16,
        Role.GATE: Format.Q4_K,
        Role.UP: Format.Q5_1,
        Role.DOWN: Format.IQ4_XS,
    }
    compare(build, runner, cpu, respec(**SUPER), formats)


def test_float_matrices_give_what_float64_gives(build, runner, cpu, tiny_spec):
    ids = list(range(50))
    mine = runner(build(cpu, tiny_spec, Format.F32)).step((ids, 0, [0, 1, 2, 3]))
    exact = runner(build(ReferenceBackend(), tiny_spec, Format.F32)).step((ids, 0, [0, 1, 2, 3]))
    assert np.abs(mine - exact).max() <= 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("name", ["plain", "rich"])
def test_a_long_context_follows_the_reference(build, runner, cpu, tiny_spec, rich_spec, name):
    spec, blocks = {"plain": tiny_spec, "rich": rich_spec}[name], list(range(40))
    ids = np.random.default_rng(2).integers(0, spec.vocab, 600).tolist()
    results = []
    for backend in (cpu, ReferenceBackend(quantise=True, dtype=np.float32)):
        run = runner(build(backend, spec, max_tokens=600), max_tokens=600)
        run.step((ids, 0, blocks))
        results.append(run.step(([5], 600, blocks)))
    assert np.abs(results[0] - results[1]).max() <= 3e-2 * np.abs(results[1]).max()


def test_a_large_rope_table_is_filled_as_far_as_sequences_go(build, runner, cpu, tiny_spec, monkeypatch):
    blocks = list(range(128))
    whole = runner(build(cpu, tiny_spec, kv_blocks=128), max_blocks=128)
    monkeypatch.setattr(memory, "_ROPE_AT_ONCE", 0)
    grown = runner(build(cpu, tiny_spec, kv_blocks=128), max_blocks=128)
    for start in (0, 700, 1022, 1500, 2044):
        run = ([1, 2, 3], start, blocks)
        assert np.array_equal(whole.step(run), grown.step(run))
    with pytest.raises(BatchError):
        grown.step(([1], 2048, list(range(129))))
