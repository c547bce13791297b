"""Whole models on the CPU against the NumPy backend."""

import numpy as np
import pytest

from sealhost.kernels.backend import Role, RopeStyle
from sealhost.kernels.formats import Format
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


def test_a_long_context_follows_the_reference(build, runner, cpu, tiny_spec):
    spec, blocks = tiny_spec, list(range(40))
    ids = np.random.default_rng(2).integers(0, spec.vocab, 600).tolist()
    results = []
    for backend in (cpu, ReferenceBackend(quantise=True, dtype=np.float32)):
        run = runner(build(backend, spec, max_tokens=600), max_tokens=600)
        run.step((ids, 0, blocks))
        results.append(run.step(([5], 600, blocks)))
    assert np.abs(results[0] - results[1]).max() <= 2e-2 * np.abs(results[1]).max()


def test_all_instruction_sets_give_the_same_bits(build, runner, backends, tiny_spec):
    results = []
    for backend in backends.values():
        run = runner(build(backend, tiny_spec, MIXED))
        results.append(np.concatenate([run.step((list(range(30)), 0, [0, 1, 2])), run.step(([4], 30, [0, 1, 2]))]))
    assert all(np.array_equal(results[0], other) for other in results)


def test_logits_go_to_any_address_and_nothing_beside_them_changes(build, runner, cpu, tiny_spec):
    run = runner(build(cpu, tiny_spec))
    expected = run.step(([1, 2, 3], 0, [0]))[0]
    room = np.full(4 * (tiny_spec.vocab + 40), 0xA5, np.uint8)
    for offset in (64, 65, 67):  # no alignment is assumed
        room[:] = 0xA5
        run.batch.clear()
        run.batch.add([1, 2, 3], start=0, blocks=[0], logits_address=room.ctypes.data + offset)
        run.model.step(run.batch)
        end = offset + 4 * tiny_spec.vocab
        assert np.array_equal(room[offset:end].view(np.uint8), expected.view(np.uint8))
        assert (room[:offset] == 0xA5).all()
        assert (room[end:] == 0xA5).all()


def test_a_step_without_wanted_logits_only_fills_the_cache(build, runner, cpu, tiny_spec):
    run = runner(build(cpu, tiny_spec))
    expected = run.step(([1, 2, 3], 0, [0]))
    run.batch.clear()
    run.batch.add([1, 2], start=0, blocks=[5], logits_address=None)
    run.model.step(run.batch)
    assert np.array_equal(run.step(([3], 2, [5])), expected)


def test_memory_is_told_truly(build, cpu, tiny_spec):
    held = build(cpu, tiny_spec, kv_blocks=64).memory_bytes
    assert held["kv"] == 64 * 16 * 2 * 2 * tiny_spec.layers * tiny_spec.kv_heads * tiny_spec.head_dim
    assert held["weights"] > 0
    assert held["scratch"] > 0


def test_weights_take_what_is_stored_and_little_more(build, cpu, respec, model_tensors):
    spec = respec(layers=4, dim=256, feed_forward_dim=512, vocab=4096)
    stored = sum(tensor.data.nbytes for _, _, tensor in model_tensors(spec, Format.Q4_1))
    assert build(cpu, spec).memory_bytes["weights"] < 1.02 * stored + 4096
