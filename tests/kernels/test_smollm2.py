"""The real model, under each type of KV cache: at least as close to exact arithmetic as llama.cpp is with float16, and
stable under batching."""

import gguf
import numpy as np
import pytest

from sealhost.kernels.backend import DecoderSpec, Role, RopeStyle, Tensor
from sealhost.kernels.formats import Format
from sealhost.kernels.kv_type import KvType

pytestmark = pytest.mark.model

ROLES = {
    "attn_norm": Role.ATTENTION_NORM,
    "attn_q": Role.QUERY,
    "attn_k": Role.KEY,
    "attn_v": Role.VALUE,
    "attn_output": Role.ATTENTION_OUTPUT,
    "ffn_norm": Role.FEED_FORWARD_NORM,
    "ffn_gate": Role.GATE,
    "ffn_up": Role.UP,
    "ffn_down": Role.DOWN,
    "token_embd": Role.EMBEDDING,
    "output_norm": Role.OUTPUT_NORM,
}
SPEC = DecoderSpec(
    layers=30,
    dim=576,
    heads=9,
    kv_heads=3,
    head_dim=64,
    feed_forward_dim=1536,
    vocab=49152,
    context=8192,
    norm_epsilon=1e-5,
    rope_base=100000.0,
    rope_dim=64,
    rope_style=RopeStyle.NORM,
    tied_head=True,
)
CLEAR = 0.3
"""Difference of log-probabilities from which the likeliest token must be the same."""


@pytest.fixture(scope="module", params=KvType)
def smollm2(request, keeping, smollm2_gguf):
    builder = keeping[request.param].builder(SPEC, threads=2)
    formats = {fmt.type_id: fmt for fmt in Format}
    for stored in gguf.GGUFReader(smollm2_gguf).tensors:
        parts = stored.name.split(".")
        role, layer = (ROLES[parts[2]], int(parts[1])) if parts[0] == "blk" else (ROLES[parts[0]], None)
        shape = tuple(int(size) for size in reversed(stored.shape))
        data = np.frombuffer(stored.data.tobytes(), np.uint8)
        builder.put(role, layer, Tensor(stored.name, formats[int(stored.tensor_type)], shape, data))
    model = builder.finish(kv_blocks=128, max_tokens=512, max_sequences=16)
    yield model
    model.close()


@pytest.fixture(scope="module")
def run(smollm2, runner):
    return runner(smollm2, max_tokens=512)


def log_softmax(logits):
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def test_log_probabilities_are_at_least_as_exact_as_llamacpps(run, smollm2_goldens):
    mine, theirs = [], []
    for golden in smollm2_goldens:
        found = log_softmax(run.step((golden["token_ids"], 0, list(range(8))))[0])
        exact, peer = dict(golden["exact_top20_logprobs"]), dict(golden["llamacpp_top10_logprobs"])
        common = [token for token in exact if token in peer]
        mine.append(np.mean([abs(found[token] - exact[token]) for token in common]))
        theirs.append(np.mean([abs(peer[token] - exact[token]) for token in common]))
    assert np.mean(mine) <= np.mean(theirs)


def test_the_likeliest_token_is_the_exact_one_wherever_it_is_clear(run, smollm2_goldens):
    clear = 0
    for golden in smollm2_goldens:
        (first, best), (_, second) = golden["exact_top20_logprobs"][:2]
        if best - second > CLEAR:
            clear += 1
            assert run.step((golden["token_ids"], 0, list(range(8))))[0].argmax() == first
    assert clear >= 3


def test_greedy_text_goes_the_way_of_llamacpps(run, smollm2_goldens):
    """Where it leaves that way, the two tokens were close: neither is wrong."""
    for golden in smollm2_goldens:
        ids, blocks = list(golden["token_ids"]), list(range(8))
        logits = run.step((ids, 0, blocks))[0]
        for token in golden["llamacpp_greedy_ids"]:
            probabilities = log_softmax(logits)
            assert probabilities.max() - probabilities[token] < 3 * CLEAR
            logits = run.step(([token], len(ids), blocks))[0]
            ids.append(token)


def test_eight_streams_together_are_each_as_alone(run, smollm2_goldens):
    prompts = [golden["token_ids"] for golden in smollm2_goldens] + [[1, 2, 3], [4]]
    tables = [list(range(4 * index, 4 * index + 4)) for index in range(len(prompts))]

    def greedy(group):
        logits = run.step(*[(prompts[index], 0, tables[index]) for index in group])
        lengths, out = [len(prompts[index]) for index in group], []
        for step in range(12):
            out.append(logits.argmax(axis=1))
            rows = zip(out[-1], lengths, group, strict=True)
            logits = run.step(*[([int(token)], length + step, tables[index]) for token, length, index in rows])
        return np.stack(out, axis=1), logits

    together, last = greedy(range(len(prompts)))
    for index in range(len(prompts)):
        alone, logits = greedy([index])
        assert np.array_equal(alone[0], together[index])
        assert np.array_equal(logits[0], last[index])


def test_prefill_in_pieces_is_as_whole(run):
    ids = np.random.default_rng(6).integers(0, SPEC.vocab, 400).tolist()
    whole = run.step((ids, 0, list(range(25))))
    for start in range(0, 400, 93):
        last = run.step((ids[start : start + 93], start, list(range(40, 65))))
    assert np.array_equal(whole, last)
