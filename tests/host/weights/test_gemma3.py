"""Gemma 3 270M from its own file: what its description says, and answers at least as exact as llama.cpp's."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.graph import describe
from sealhost.kernels.backend import Activation, Tensor
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.cpu import CpuBackend
from sealhost.kernels.formats import Format
from sealhost.kernels.kv_type import KvType

pytestmark = pytest.mark.model

VOCAB = 262_144
BLOCKS = 8
CLEAR = 0.3
"""Difference of log-probabilities from which the likeliest token must be the same."""


@pytest.fixture(scope="module")
def raw(gemma3_gguf):
    return np.memmap(gemma3_gguf, np.uint8, "r")


@pytest.fixture(scope="module")
def graph(raw):
    return describe(GgufFile.parse(raw.data), vocab=VOCAB)


def test_the_file_says_what_gemma_3_is(graph):
    spec = graph.spec
    assert (spec.layers, spec.dim, spec.heads, spec.kv_heads, spec.head_dim) == (18, 640, 4, 1, 256)
    assert spec.layer_windows == (512, 512, 512, 512, 512, 0) * 3
    assert spec.layer_ropes == (1, 1, 1, 1, 1, 0) * 3
    assert [table.frequencies[64] for table in spec.ropes] == pytest.approx([1e6**-0.5, 1e4**-0.5])
    assert (spec.activation, spec.score_scale, spec.tied_head) == (Activation.GELU_TANH, 1 / 16, True)
    assert spec.embedding_scale == pytest.approx(640**0.5)
    assert spec.qk_norm
    assert spec.post_norms
    assert {place.format for place in graph.places} == {Format.F32, Format.Q4_K, Format.Q5_0, Format.Q6_K, Format.Q8_0}


@pytest.fixture(scope="module")
def builder(raw, graph):
    """Makes a builder that has all tensors."""

    def make():
        made = CpuBackend().builder(graph.spec, threads=2)
        for place in graph.places:
            info = place.tensor
            data = raw[info.start : info.stop]
            made.put(place.role, place.layer, Tensor(info.name, place.format, info.shape, data))
        return made

    return make


@pytest.fixture(scope="module")
def step(builder):
    logits, batch = np.empty(VOCAB, np.float32), StepBatch.allocate(max_tokens=64, max_sequences=1, max_blocks=BLOCKS)

    def run(ids, start=0):
        batch.clear()
        batch.add(ids, start=start, blocks=range(BLOCKS), logits_address=logits.ctypes.data)
        model.step(batch)
        shifted = logits.astype(np.float64) - logits.max()
        return shifted - np.log(np.exp(shifted).sum())

    with closing(builder().finish(kv_blocks=BLOCKS, max_tokens=64, max_sequences=1)) as model:
        yield run


def test_log_probabilities_are_at_least_as_exact_as_llamacpps(step, gemma3_goldens):
    mine, theirs = [], []
    for golden in gemma3_goldens:
        found = step(golden["token_ids"])
        exact, peer = dict(golden["exact_top20_logprobs"]), dict(golden["llamacpp_top10_logprobs"])
        common = [token for token in exact if token in peer]
        mine.append(np.mean([abs(found[token] - exact[token]) for token in common]))
        theirs.append(np.mean([abs(peer[token] - exact[token]) for token in common]))
    assert np.mean(mine) <= np.mean(theirs)


def test_greedy_text_goes_the_way_of_llamacpps(step, gemma3_goldens):
    """Where it leaves that way, the two tokens were close: neither is wrong."""
    for golden in gemma3_goldens:
        ids = list(golden["token_ids"])
        found = step(ids)
        for token in golden["llamacpp_greedy_ids"]:
            assert found.max() - found[token] < 3 * CLEAR
            found = step([token], len(ids))
            ids.append(token)


def test_two_windows_and_a_half_have_the_bits_of_a_cache_that_keeps_everything(builder, graph):
    """The pool for windows holds 512 positions and a chunk; its blocks go round."""
    ids, chunk, window = [(7 + 7919 * n) % VOCAB for n in range(1300)], 256, graph.spec.window
    blocks, around = range(-(-len(ids) // 16)), graph.spec.window_blocks(0) + chunk // 16
    rows = np.zeros((2, VOCAB), np.float32)
    whole = StepBatch.allocate(max_tokens=chunk, max_sequences=1, max_blocks=len(blocks))
    sliding = StepBatch.allocate(max_tokens=chunk, max_sequences=1, max_blocks=len(blocks), window=window)
    room = {"kv_blocks": len(blocks), "max_tokens": chunk, "max_sequences": 1}
    with (
        closing(builder().finish(**room)) as keeps,
        closing(builder().finish(**room, window_blocks=around)) as slides,
    ):
        for start in [*range(0, 1280, chunk), *range(1280, 1300)]:
            run = ids[start : start + (chunk if start < 1280 else 1)]
            first, last = max(0, start + 1 - window) // 16, (start + len(run) - 1) // 16
            whole.clear()
            whole.add(run, start=start, blocks=blocks, logits_address=rows[0].ctypes.data)
            keeps.step(whole)
            sliding.clear()
            sliding.add(
                run, start=start, blocks=blocks, logits_address=rows[1].ctypes.data,
                window_blocks=[block % around for block in range(first, last + 1)], window_start=first,
            )  # fmt: skip
            slides.step(sliding)
            assert np.array_equal(*rows)
        saved = keeps.memory_bytes["kv"] - slides.memory_bytes["kv"]
        assert saved == graph.spec.windowed_layers * (len(blocks) - around) * KvType.FLOAT16.layer_bytes(graph.spec)
