"""The loader: order, release of bytes, and nothing left open when something fails."""

from __future__ import annotations

import mmap
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealhost.host.config import EngineConfig
from sealhost.host.errors import HostError, UsageError, WeightsError
from sealhost.host.weights.kv_size import KvSize
from sealhost.host.weights.loader import load
from sealhost.kernels.backend import DecoderSpec, RopeStyle
from sealhost.kernels.errors import FormatError
from sealhost.kernels.kv_type import KvType
from sealhost.kernels.sha256 import EachSha256
from sealhost.sandbox import OperatorLimits
from sealhost.signing import Code, SealError

STRING, ARRAY, U32 = 8, 9, 4


class RecordingBackend:
    """A backend that keeps a copy of what it is given, and fails where it is told to."""

    name = "recording"

    def __init__(self, fail_at: str = "", error: Exception | None = None) -> None:
        self.fail_at = fail_at
        self.error = error
        self.put_names: list[str] = []
        self.data: dict[str, bytes] = {}
        self.closed = 0
        self.finished: dict[str, int] = {}
        self.memory_bytes = {"weights": 1}
        self.kv_type = KvType.FLOAT16

    sha256 = EachSha256()

    def builder(self, spec, *, threads):
        if self.fail_at == "builder":
            raise self.error or FormatError("expected another width")
        self.spec, self.threads = spec, threads
        return self

    def put(self, _role, _layer, tensor):
        if tensor.name == self.fail_at:
            raise self.error or FormatError("expected another shape")
        assert not tensor.data.flags.writeable
        self.put_names.append(tensor.name)
        self.data[tensor.name] = tensor.data.tobytes()

    def finish(self, **limits):
        if self.fail_at == "finish":
            raise self.error or FormatError("expected a tensor")
        self.finished = limits
        return self

    def close(self):
        self.closed += 1


class FakePlugins:
    """A sandbox whose loading can fail."""

    limits = OperatorLimits()

    def __init__(self, fail: bool = False) -> None:
        self.fail = fail

    def load_tokenizer(self, plugin, vocabulary):
        return SimpleNamespace(name=plugin.name, words=len(vocabulary.texts))

    def load_sampler(self, plugin, vocab_size, _vocabulary):
        if self.fail:
            raise HostError("E_PLUGIN", plugin.name, "expected a good guest", "use another")
        return SimpleNamespace(name=plugin.name, vocab=vocab_size)


def plugin(name, role):
    return SimpleNamespace(name=name, role=role)


@pytest.fixture(scope="module")
def bundle_of(memory_weights):
    return partial(_bundle, memory_weights)


def _bundle(weights, raw, *, template=None, plugins=None):
    return SimpleNamespace(
        weights=weights(raw),
        template=template,
        plugins=plugins or (plugin("bpe", "tokenizer"), plugin("first", "sampler"), plugin("second", "sampler")),
        manifest=SimpleNamespace(name="tiny", version=1),
        digest="ab" * 32,
    )


@pytest.fixture(scope="module")
def raw(tiny_llama):
    return tiny_llama({"tokenizer.chat_template": (STRING, "from the file")}).build()


def test_every_tensor_is_handed_over_once_in_file_order_with_its_bytes(bundle_of, raw, tiny_llama):
    bundle, backend = bundle_of(raw), RecordingBackend()
    seen = []
    loaded = load(bundle, FakePlugins(), backend, EngineConfig(threads=3), progress=lambda *done: seen.append(done))
    plan = tiny_llama()
    assert backend.put_names == [one.name for one in plan.tensors]
    assert backend.data == {one.name: one.data for one in plan.tensors}
    assert backend.threads == 3
    assert loaded.spec is backend.spec
    assert len(seen) == len(plan.tensors)
    assert seen[-1][0] == seen[-1][1]


def test_bytes_are_released_right_behind_the_reader_and_the_weights_closed(bundle_of, raw):
    bundle = bundle_of(raw)
    load(bundle, FakePlugins(), RecordingBackend(), EngineConfig())
    ranges = bundle.weights.released
    assert ranges[0][0] == 0
    assert all(
        start % mmap.PAGESIZE == 0 and start <= before[1]
        for (start, _), before in zip(ranges[1:], ranges, strict=False)
    )
    assert ranges[-1][1] > len(raw) - mmap.PAGESIZE
    assert (bundle.weights.finished, bundle.weights.closed) == (1, 1)


def test_the_model_is_finished_only_after_the_last_byte_was_verified(bundle_of, raw):
    bundle, backend = bundle_of(raw), RecordingBackend()

    def refuse():
        assert len(backend.put_names) == len(backend.spec.global_roles + backend.spec.block_roles)
        raise SealError(Code.DIGEST, "model.gguf", "expected other bytes", "fetch it again")

    bundle.weights.finish = refuse
    with pytest.raises(SealError, match="E_DIGEST"):
        load(bundle, FakePlugins(), backend, EngineConfig())
    assert not backend.finished
    assert bundle.weights.closed == 1


def test_what_came_in_the_bundle_is_there(bundle_of, raw):
    loaded = load(bundle_of(raw), FakePlugins(), RecordingBackend(), EngineConfig(max_sequences=2))
    assert loaded.tokenizer.words == 8
    assert list(loaded.samplers) == ["first", "second"]
    assert loaded.end_ids == {0, 1}
    assert (loaded.context, loaded.kv_blocks) == (64, 8)
    assert (loaded.name, loaded.digest) == ("tiny", "ab" * 32)
    assert loaded.report.total_s >= loaded.report.parse_s > 0


@pytest.mark.parametrize(
    ("given", "expected"), [("from the bundle", "from the bundle"), (None, "from the file"), ("", "")]
)
def test_the_bundles_template_wins_over_the_files_own(bundle_of, raw, given, expected):
    assert load(bundle_of(raw, template=given), FakePlugins(), RecordingBackend(), EngineConfig()).template == expected


def test_closing_is_passed_on(bundle_of, raw):
    backend = RecordingBackend()
    with load(bundle_of(raw), FakePlugins(), backend, EngineConfig()):
        assert backend.closed == 0
    assert backend.closed == 1


@pytest.mark.parametrize(
    ("backend", "plugins", "error", "words"),
    [
        (
            RecordingBackend("blk.0.ffn_up.weight"),
            FakePlugins(),
            WeightsError,
            "blk.0.ffn_up.weight: expected another shape",
        ),
        (RecordingBackend("builder"), FakePlugins(), WeightsError, "E_GGUF model: expected another width"),
        (RecordingBackend("finish"), FakePlugins(), WeightsError, "expected a tensor"),
        (RecordingBackend("finish", MemoryError()), FakePlugins(), UsageError, "expected memory for model"),
        (
            RecordingBackend("output_norm.weight", OSError(12, "no memory")),
            FakePlugins(),
            UsageError,
            "expected memory",
        ),
        (RecordingBackend(), FakePlugins(fail=True), HostError, "expected a good guest"),
    ],
)
def test_a_failure_anywhere_closes_the_weights_and_the_model(bundle_of, raw, backend, plugins, error, words):
    bundle = bundle_of(raw)
    with pytest.raises(error, match=words):
        load(bundle, plugins, backend, EngineConfig())
    assert bundle.weights.closed == 1
    assert backend.closed == (1 if backend.finished else 0)


@pytest.mark.parametrize(
    "plugins",
    [
        (plugin("only", "sampler"),),
        (plugin("only", "tokenizer"),),
        (plugin("a", "tokenizer"), plugin("b", "tokenizer"), plugin("c", "sampler")),
    ],
)
def test_a_bundle_without_its_plugins_is_refused_before_any_work(bundle_of, raw, plugins):
    backend = RecordingBackend()
    with pytest.raises(HostError, match="E_PLUGIN tiny: expected one tokenizer and at least one sampler"):
        load(bundle_of(raw, plugins=plugins), FakePlugins(), backend, EngineConfig())
    assert backend.put_names == []


def test_an_unknown_architecture_is_named_before_its_tokenizer(bundle_of, tiny_llama):
    changes = {"general.architecture": (STRING, "mamba"), "tokenizer.ggml.model": (STRING, "none")}
    with pytest.raises(WeightsError, match=r"expected one of: .*; got mamba"):
        load(bundle_of(tiny_llama(changes).build()), FakePlugins(), RecordingBackend(), EngineConfig())


def test_a_plugin_bundle_is_no_model(bundle_of):
    bundle = bundle_of(b"x")
    bundle.weights = None
    with pytest.raises(HostError, match="expected a model bundle"):
        load(bundle, FakePlugins(), RecordingBackend(), EngineConfig())


def test_a_bad_second_tensor_loads_nothing(bundle_of, tiny_llama):
    plan = tiny_llama()
    plan.tensors[1].offset = 1 << 30
    backend = RecordingBackend()
    with pytest.raises(WeightsError):
        load(bundle_of(plan.build()), FakePlugins(), backend, EngineConfig())
    assert backend.put_names == []


SPEC = DecoderSpec(2, 64, 4, 2, 16, 64, 100, 1000, 1e-5, 1e4, 16, RopeStyle.NORM, tied_head=True)
BLOCK = SPEC.layers * KvType.FLOAT16.layer_bytes(SPEC)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (EngineConfig(), KvSize(1000, 63 * 32)),
        (EngineConfig(context=100), KvSize(100, 7 * 32)),
        (EngineConfig(context=5000), KvSize(1000, 63 * 32)),
        (EngineConfig(max_sequences=1), KvSize(1000, 63)),
        (EngineConfig(kv_bytes=100 * BLOCK), KvSize(1000, 100)),
        (EngineConfig(kv_bytes=10 * BLOCK), KvSize(160, 10)),
        (EngineConfig(kv_bytes=7 * BLOCK, context=100), KvSize(100, 7)),
    ],
)
def test_the_pool_fits_its_memory_and_always_holds_one_whole_sequence(config, expected):
    assert KvSize.choose(SPEC, config, KvType.FLOAT16, again=64) == expected


@pytest.mark.parametrize(
    "config", [EngineConfig(kv_bytes=7 * BLOCK - 1, context=100), EngineConfig(kv_bytes=BLOCK - 1)]
)
def test_memory_that_does_not_hold_the_wanted_context_is_refused_with_both_numbers(config):
    with pytest.raises(UsageError, match=rf"expected \d+ bytes .* got {config.kv_bytes}"):
        KvSize.choose(SPEC, config, KvType.FLOAT16, again=64)


def test_a_smaller_type_makes_the_pool_larger_in_proportion():
    held = {kind: KvSize.choose(SPEC, EngineConfig(kv_bytes=144 * BLOCK), kind, again=64).blocks for kind in KvType}
    assert held == {KvType.FLOAT16: 144, KvType.FLOAT32: 72, KvType.INT8: 256}  # heads of 16: 18 bytes instead of 32


@settings(max_examples=300, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_file_loads_or_is_refused_and_never_breaks_the_loader(bundle_of, changes, raw):
    damaged = bytearray(raw)
    for position, byte in changes:
        damaged[position % 1600 if position % 2 else position % len(raw)] = byte  # the header is where it matters
    bundle = bundle_of(bytes(damaged))
    with suppress(WeightsError):  # any other error fails this test
        load(bundle, FakePlugins(), RecordingBackend(), EngineConfig())
    assert bundle.weights.closed == 1


def test_every_role_has_its_place_in_the_tiny_model(bundle_of, raw):
    backend = RecordingBackend()
    load(bundle_of(raw), FakePlugins(), backend, EngineConfig())
    assert len(backend.put_names) == len(backend.spec.global_roles + backend.spec.block_roles)
    assert np.frombuffer(backend.data["output_norm.weight"], np.float32).shape == (32,)
