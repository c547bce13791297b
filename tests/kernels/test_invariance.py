"""A sequence's logits are the same bits alone, in any company, and with its prefill cut anywhere."""

import numpy as np
import pytest

from sealhost.kernels.backend import Role
from sealhost.kernels.formats import Format
from sealhost.kernels.kv_type import KvType

LENGTHS = (1, 2, 3, 5, 17, 33, 64, 300)
FORMATS = {Role.EMBEDDING: Format.Q8_0, Role.VALUE: Format.Q4_0, Role.GATE: Format.F16}
K_SHAPE = {"dim": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "rope_dim": 64, "feed_forward_dim": 256}
K_FORMATS = {
    Role.EMBEDDING: Format.Q6_K,
    Role.QUERY: Format.Q4_K,
    Role.KEY: Format.Q5_K,
    Role.VALUE: Format.IQ4_XS,
    Role.ATTENTION_OUTPUT: Format.Q5_0,
    Role.GATE: Format.Q2_K,
    Role.UP: Format.IQ4_NL,
    Role.DOWN: Format.Q3_K,
}


CASES = {
    "simple formats": ("tiny", FORMATS, "float16"),
    "K formats": ("super", K_FORMATS, "float16"),
    "every feature": ("rich", FORMATS, "float16"),
    "simple formats, float32 cache": ("tiny", FORMATS, "float32"),
    "every feature, int8 cache": ("rich", FORMATS, "int8"),
    "heads of 80, int8 cache": ("eighty", FORMATS, "int8"),
    "every feature, float32 cache": ("rich", FORMATS, "float32"),
}
"""Spec, formats, type of the KV cache."""
EIGHTY = {"dim": 160, "heads": 6, "kv_heads": 2, "head_dim": 80, "rope_dim": 32}


@pytest.fixture(params=CASES)
def case(request, tiny_spec, rich_spec, respec):
    """A spec and its formats."""
    specs = {"tiny": tiny_spec, "rich": rich_spec, "super": respec(**K_SHAPE), "eighty": respec(**EIGHTY)}
    name, formats, _ = CASES[request.param]
    return specs[name], formats


@pytest.fixture
def backend(request, keeping):
    """The backend for the case's type of cache."""
    return keeping[KvType(CASES[request.node.callspec.params["case"]][2])]


@pytest.fixture
def run(build, runner, backend, case):
    return runner(build(backend, *case, kv_blocks=256, max_tokens=512), max_tokens=512)


@pytest.fixture(scope="module")
def prompts(tiny_spec):
    rng = np.random.default_rng(4)
    return [rng.integers(0, tiny_spec.vocab, length).tolist() for length in LENGTHS]


def table(index):
    return list(range(30 * index, 30 * index + 30))


def test_together_is_as_alone(run, prompts):
    alone = [run.step((ids, 0, table(0)))[0] for ids in prompts]
    together = run.step(*[(ids, 0, table(index)) for index, ids in enumerate(prompts)])
    assert np.array_equal(np.stack(alone), together)
    backwards = run.step(*[(ids, 0, table(index)) for index, ids in enumerate(reversed(prompts))])
    assert np.array_equal(together[::-1], backwards)


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 16, 31, 79, 100, 145, 255, 256, 257])
def test_prefill_cut_anywhere_is_as_whole(run, prompts, cut):
    ids = prompts[-1]
    whole = run.step((ids, 0, table(0)))
    for start in range(0, len(ids), cut):
        last = run.step((ids[start : start + cut], start, table(1)))
    assert np.array_equal(whole, last)


def test_decode_in_a_crowd_is_as_alone(run, prompts):
    for index, ids in enumerate(prompts):
        run.step((ids, 0, table(index)))
    crowd = run.step(*[([7], len(ids), table(index)) for index, ids in enumerate(prompts)])
    for index, ids in enumerate(prompts):
        assert np.array_equal(run.step(([7], len(ids), table(index)))[0], crowd[index])


def test_decode_beside_a_prefill_is_as_alone(run, prompts):
    run.step((prompts[-1], 0, table(0)))
    alone = run.step(([9], 300, table(0)))[0]
    mixed = run.step((prompts[5], 0, table(1)), ([9], 300, table(0)), (prompts[6], 0, table(2)))
    assert np.array_equal(mixed[1], alone)


def test_which_blocks_a_sequence_has_does_not_matter(run, prompts):
    ids = prompts[-1]
    first = run.step((ids, 0, list(range(20))))
    scattered = np.random.default_rng(5).permutation(256)[:20].tolist()
    assert np.array_equal(first, run.step((ids, 0, scattered)))


def test_what_a_recycled_block_held_does_not_matter(build, runner, backend, case):
    run = runner(build(backend, *case, kv_blocks=4))
    fresh = run.step(([1, 2, 3], 0, [2]))
    run.step((list(range(60)), 0, [0, 1, 2, 3]))
    assert np.array_equal(fresh, run.step(([1, 2, 3], 0, [2])))


def test_the_number_of_threads_does_not_matter(build, runner, backend, case, prompts):
    results = []
    for threads in (1, 2, 3):
        run = runner(build(backend, *case, threads=threads, kv_blocks=256, max_tokens=512), max_tokens=512)
        run.step((prompts[-1], 0, table(0)))
        results.append(run.step(([9], 300, table(0)), (prompts[4], 0, table(1))))
    assert all(np.array_equal(results[0], other) for other in results)
