"""What is refused, and that nothing was read or written by then."""

from dataclasses import replace

import numpy as np
import pytest

from sealhost.kernels.backend import Role, Rope, Tensor
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.errors import BatchError, FormatError, KernelError
from sealhost.kernels.formats import Format
from sealhost.kernels.reference import ReferenceBackend

BAD_BATCHES = [
    ("token id below 0", lambda b: b.tokens.__setitem__(1, -1), "token ids of 0 to 203"),
    ("token id past the vocabulary", lambda b: b.tokens.__setitem__(1, 203), "token ids of 0 to 203"),
    ("position below 0", lambda b: b.positions.__setitem__(slice(0, 3), [-3, -2, -1]), "positions"),
    ("position past the cache", lambda b: b.positions.__setitem__(slice(0, 3), [1023, 1024, 1025]), "positions"),
    ("position past the table", lambda b: b.positions.__setitem__(slice(0, 3), [126, 127, 128]), "positions"),
    ("positions with a gap", lambda b: b.positions.__setitem__(2, 3), "consecutive"),
    ("sequences out of order", lambda b: b.sequences.__setitem__(slice(0, 3), [1, 1, 1]), "sequences"),
    ("sequence without tokens", lambda b: setattr(b, "sequence_count", 2), "sequences"),
    ("block id below 0", lambda b: b.block_tables.__setitem__((0, 0), -1), "KV block ids of 0 to 64"),
    ("block id past the pool", lambda b: b.block_tables.__setitem__((0, 0), 64), "KV block ids of 0 to 64"),
    ("logits of a token that is not there", lambda b: b.logits_tokens.__setitem__(0, 3), "logits"),
    ("logits of a negative token", lambda b: b.logits_tokens.__setitem__(0, -1), "logits"),
    ("logits to address 0", lambda b: b.logits_addresses.__setitem__(0, 0), "address"),
    ("too many tokens", lambda b: setattr(b, "token_count", 33), "at most 32 tokens"),
    ("negative count", lambda b: setattr(b, "token_count", -1), "at most 32 tokens"),
    ("too many sequences", lambda b: setattr(b, "sequence_count", 5), "at most 4 sequences"),
    ("too many logits", lambda b: setattr(b, "logits_count", 5), "at most 4 logits"),
    (
        "tokens of another type",
        lambda b: setattr(b, "tokens", b.tokens.astype(np.int64)),
        "tokens as a contiguous int32",
    ),
    ("tokens with gaps", lambda b: setattr(b, "tokens", np.zeros(128, np.int32)[::2]), "tokens as a contiguous int32"),
    ("a flat block table", lambda b: setattr(b, "block_tables", b.block_tables[0]), "block_tables"),
]


@pytest.fixture
def model(build, cpu, tiny_spec):
    return build(cpu, tiny_spec, max_tokens=32, max_sequences=4)


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in BAD_BATCHES], ids=[row[0] for row in BAD_BATCHES])
def test_a_bad_batch_is_refused_and_writes_nothing(model, tiny_spec, change, text):
    logits = np.full(tiny_spec.vocab, 7, np.float32)
    batch = StepBatch.allocate(max_tokens=64, max_sequences=8, max_blocks=8)
    batch.add([1, 2, 3], start=0, blocks=[5], logits_address=logits.ctypes.data)
    change(batch)
    with pytest.raises(BatchError, match=text):
        model.step(batch)
    assert (logits == 7).all()
    good = StepBatch.allocate(max_tokens=64, max_sequences=8, max_blocks=8)
    good.add([1, 2, 3], start=0, blocks=[5], logits_address=logits.ctypes.data)
    model.step(good)
    assert np.isfinite(logits).all()
    assert not (logits == 7).all()


def test_an_empty_batch_does_nothing(model):
    model.step(StepBatch.allocate(max_tokens=1, max_sequences=1, max_blocks=1))


BAD_SPECS = [
    ({"dim": 48}, "dim to be a multiple of 32"),
    ({"feed_forward_dim": 100}, "feed_forward_dim to be a multiple of 32"),
    ({"heads": 3, "kv_heads": 1, "head_dim": 16, "rope_dim": 16}, "heads . head_dim to be a multiple of 32"),
    ({"head_dim": 40, "rope_dim": 32}, "head_dim to be a multiple of 16"),
    ({"rope_dim": 24}, "rope_dim to be a multiple of 16"),
    ({"rope_dim": 48}, "rope_dim of at most head_dim 32"),
    ({"kv_heads": 3}, "heads to be a multiple of 3"),
    ({"layers": 0}, "positive sizes"),
    ({"vocab": -1}, "positive sizes"),
    ({"layers": 5000}, "4096 layers"),
    ({"norm_epsilon": float("nan")}, "norm_epsilon"),
    ({"rope_base": 0.0}, "rope_base"),
    ({"embedding_scale": 0.0}, "embedding_scale to be positive"),
    ({"query_scale": float("inf")}, "query_scale to be positive and finite"),
    ({"attention_cap": -1.0}, "attention_cap to be finite and at least 0"),
    ({"logit_cap": float("nan")}, "logit_cap"),
    ({"ropes": (Rope((1.0,) * 15),)}, "ropes of 16 finite frequencies, got 15"),
    ({"ropes": (Rope((1.0,) * 15 + (float("nan"),)),)}, "ropes of 16 finite frequencies"),
    ({"layer_ropes": (0, 1)}, "layer_ropes to name a table for each of 2 layers"),
    ({"layer_ropes": (0,)}, "layer_ropes"),
    ({"layer_windows": (1,)}, "layer_windows"),
    ({"layer_windows": (-1, 0)}, "layer_windows of 0 or more"),
]


@pytest.mark.parametrize(("changes", "text"), BAD_SPECS, ids=[text for _, text in BAD_SPECS])
def test_a_shape_that_cannot_run_is_refused_by_name(cpu, respec, changes, text):
    with pytest.raises(FormatError, match=text):
        cpu.builder(respec(**changes), threads=1)


@pytest.mark.parametrize("threads", [0, -1, 1000])
def test_thread_counts_out_of_range_are_refused(cpu, tiny_spec, threads):
    with pytest.raises(KernelError, match="threads"):
        cpu.builder(tiny_spec, threads=threads)


@pytest.fixture(params=["cpu", "reference"])
def builder(request, cpu, tiny_spec):
    backend = cpu if request.param == "cpu" else ReferenceBackend()
    return backend.builder(tiny_spec, threads=1)


def test_a_tensor_of_another_shape_is_refused(builder, make_tensor):
    with pytest.raises(FormatError, match="shape"):
        builder.put(Role.QUERY, 0, make_tensor(np.zeros((64, 64)), Format.Q4_1))


def test_a_place_is_filled_once(builder, make_tensor, tiny_spec):
    tensor = make_tensor(np.zeros((128, 64)), Format.Q4_1)
    builder.put(Role.QUERY, 0, tensor)
    with pytest.raises(KernelError, match="one tensor"):
        builder.put(Role.QUERY, 0, tensor)


def test_missing_tensors_are_named(builder):
    with pytest.raises(KernelError, match="missing"):
        builder.finish(kv_blocks=1, max_tokens=1, max_sequences=1)


def test_bytes_that_are_too_few_are_refused(cpu, tiny_spec, make_tensor):
    tensor = make_tensor(np.zeros((128, 64)), Format.Q4_1)
    for data in (tensor.data[:-1], tensor.data[:0], tensor.data.view(np.int8)):
        with pytest.raises(FormatError, match="bytes"):
            cpu.builder(tiny_spec, threads=1).put(Role.QUERY, 0, replace(tensor, data=data))
    norm = Tensor("norm", Format.F32, (64,), np.zeros(255, np.uint8))
    with pytest.raises(FormatError, match="bytes"):
        cpu.builder(tiny_spec, threads=1).put(Role.OUTPUT_NORM, None, norm)


def test_a_norm_in_a_quantised_format_is_refused(cpu, tiny_spec, make_tensor):
    with pytest.raises(FormatError, match="F32 or F16"):
        cpu.builder(tiny_spec, threads=1).put(Role.OUTPUT_NORM, None, make_tensor(np.zeros((1, 64)), Format.Q8_0))


@pytest.mark.parametrize(
    ("role", "layer"), [(Role.QUERY, None), (Role.QUERY, 2), (Role.QUERY, -1), (Role.EMBEDDING, 0)]
)
def test_a_layer_that_does_not_exist_is_refused(cpu, tiny_spec, make_tensor, role, layer):
    with pytest.raises(KernelError, match="layer"):
        cpu.builder(tiny_spec, threads=1).put(role, layer, make_tensor(np.zeros((128, 64)), Format.Q4_1))


def test_a_second_head_beside_a_tied_one_is_refused(cpu, tiny_spec, make_tensor):
    with pytest.raises(KernelError, match="no output in this model"):
        cpu.builder(tiny_spec, threads=1).put(Role.OUTPUT, None, make_tensor(np.zeros((203, 64)), Format.Q4_1))


def test_a_cache_larger_than_memory_is_refused_in_words(cpu, tiny_spec, model_tensors):
    builder = cpu.builder(tiny_spec, threads=1)
    for role, layer, tensor in model_tensors(tiny_spec, Format.Q4_1):
        builder.put(role, layer, tensor)
    with pytest.raises(KernelError, match="bytes of memory"):
        builder.finish(kv_blocks=1 << 50, max_tokens=1, max_sequences=1)


@pytest.mark.parametrize("room", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_room_for_nothing_is_refused(cpu, tiny_spec, model_tensors, room):
    builder = cpu.builder(tiny_spec, threads=1)
    for role, layer, tensor in model_tensors(tiny_spec, Format.Q4_1):
        builder.put(role, layer, tensor)
    with pytest.raises(KernelError, match="at least 1"):
        builder.finish(kv_blocks=room[0], max_tokens=room[1], max_sequences=room[2])


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.tokens.__setitem__(1, 203),
        lambda b: b.positions.__setitem__(0, -1),
        lambda b: b.block_tables.__setitem__((0, 0), 64),
        lambda b: b.logits_tokens.__setitem__(0, 3),
        lambda b: b.logits_addresses.__setitem__(0, 0),
        lambda b: setattr(b, "token_count", 33),
    ],
)
def test_the_reference_refuses_the_same(build, tiny_spec, change):
    model = build(ReferenceBackend(), tiny_spec, max_tokens=32, max_sequences=4)
    batch = StepBatch.allocate(max_tokens=64, max_sequences=8, max_blocks=8)
    batch.add([1, 2, 3], start=0, blocks=[5], logits_address=1)
    change(batch)
    with pytest.raises(BatchError):
        model.step(batch)


def test_a_tensor_for_a_place_that_the_model_lacks_is_refused(builder, make_tensor, tiny_spec):
    for role in (Role.QUERY_BIAS, Role.KEY_NORM, Role.POST_ATTENTION_NORM):
        with pytest.raises(KernelError, match=f"expected no {role} in this model"):
            builder.put(role, 0, make_tensor(np.zeros(tiny_spec.shape(role)), Format.F32))
