"""Small random models, tensors in every stored format, and helpers to run them."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import gguf
import numpy as np
import pytest

from sealhost.kernels.backend import VECTOR_ROLES, Activation, DecoderSpec, Role, Rope, RopeStyle, Tensor
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.cpu import CpuBackend, Isa, cache, supported
from sealhost.kernels.cpu.compiler import emit_object, target_machine
from sealhost.kernels.cpu.dot import VERSIONS, EmulatedAmx, EmulatedVnni
from sealhost.kernels.cpu.native import Library
from sealhost.kernels.cpu.packing import add_packing
from sealhost.kernels.cpu.products import product_library
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.formats import Format
from sealhost.kernels.kv_type import KvType

sys.path.insert(0, str(Path(__file__).resolve().parent))

from product_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

TINY = DecoderSpec(
    layers=2,
    dim=64,
    heads=4,
    kv_heads=2,
    head_dim=32,
    feed_forward_dim=96,
    vocab=203,
    context=2048,
    norm_epsilon=1e-5,
    rope_base=10000.0,
    rope_dim=32,
    rope_style=RopeStyle.NORM,
    tied_head=True,
)

RICH = replace(
    TINY,
    layers=3,
    rope_style=RopeStyle.NEOX,
    activation=Activation.GELU_TANH,
    embedding_scale=8.0,
    query_scale=0.2,
    attention_cap=3.0,
    logit_cap=9.0,
    qkv_bias=True,
    qk_norm=True,
    post_norms=True,
    ropes=(Rope.plain(1e6, 32), Rope(tuple(0.5**pair for pair in range(16)), 1.2)),
    layer_ropes=(1, 0, 1),
    layer_windows=(40, 0, 270),
)
"""Everything that some architecture has, at once."""


def _tensor(values, fmt, name="w"):
    values = np.ascontiguousarray(values, np.float32)
    if fmt is Format.F32:
        data = values
    elif fmt is Format.F16:
        data = values.astype(np.float16)
    elif fmt in _SCALES_AT:
        data = _random_blocks(values, fmt)
    else:
        data = gguf.quants.quantize(values, gguf.GGMLQuantizationType[fmt.name])
    return Tensor(name, fmt, values.shape, np.frombuffer(data.tobytes(), np.uint8))


_SCALES_AT = {
    Format.Q2_K: (80, 82),
    Format.Q3_K: (108,),
    Format.Q4_K: (0, 2),
    Format.Q5_K: (0, 2),
    Format.Q6_K: (208,),
    Format.IQ4_NL: (0,),
    Format.IQ4_XS: (0,),
}
"""Formats that the `gguf` package can read but not write, and where their float16 scales lie."""


def _random_blocks(values, fmt):
    """Any bytes are weights; only the scales are those that values of this size would have."""
    rng = np.random.default_rng(abs(int(values.sum() * 1e3)) % 2**32)
    blocks = rng.integers(0, 256, (values.size // fmt.block_elements, fmt.block_bytes), dtype=np.uint8)
    spread = float(values.std() or 1) / (127 if fmt is Format.IQ4_NL else 1000)
    for at in _SCALES_AT[fmt]:
        scales = rng.uniform(0.5, 1.5, len(blocks)) * spread * rng.choice([-1, 1], len(blocks))
        blocks[:, at : at + 2] = scales.astype(np.float16)[:, None].view(np.uint8)
    return blocks


def _model_tensors(spec, formats, seed=0):
    """(role, layer, tensor) of a random model; `formats` names the format of each role, or one for all."""
    rng = np.random.default_rng(seed)

    def fmt(role):
        return formats.get(role, Format.Q4_1) if isinstance(formats, dict) else formats

    def matrix(role, shape):
        return _tensor(rng.normal(size=shape) / np.sqrt(shape[1]), fmt(role), str(role))

    yield Role.EMBEDDING, None, _tensor(rng.normal(size=(spec.vocab, spec.dim)), fmt(Role.EMBEDDING), "embedding")
    if not spec.tied_head:
        yield Role.OUTPUT, None, matrix(Role.OUTPUT, (spec.vocab, spec.dim))
    yield Role.OUTPUT_NORM, None, _tensor(rng.uniform(0.5, 1.5, spec.dim), Format.F32)
    for layer in range(spec.layers):
        for role in spec.block_roles:
            shape = spec.shape(role)
            norm = _tensor(rng.uniform(0.5, 1.5, shape), Format.F32) if role in VECTOR_ROLES else matrix(role, shape)
            yield role, layer, norm


@pytest.fixture(scope="session")
def tiny_spec() -> DecoderSpec:
    return TINY


@pytest.fixture(scope="session")
def rich_spec() -> DecoderSpec:
    return RICH


@pytest.fixture(scope="session")
def make_tensor() -> Callable[..., Tensor]:
    return _tensor


@pytest.fixture(scope="session")
def model_tensors():
    return _model_tensors


@pytest.fixture(scope="session")
def respec():
    return lambda **changes: replace(TINY, **changes)


@pytest.fixture(scope="session")
def backends() -> dict[Isa, CpuBackend]:
    """One CPU backend for each instruction set of this machine; the code comes from the cache after the first run."""
    return {isa: CpuBackend(isa=isa) for isa in supported()}


@pytest.fixture(scope="session")
def cpu(backends) -> CpuBackend:
    return next(iter(backends.values()))


@pytest.fixture(scope="session")
def keeping(cpu) -> dict[KvType, CpuBackend]:
    """The fastest CPU backend for each type of KV cache."""
    others = {kv_type: CpuBackend(isa=cpu.isa, kv_type=kv_type) for kv_type in KvType if kv_type is not cpu.kv_type}
    return {cpu.kv_type: cpu} | others


@pytest.fixture
def build():
    """Builds models and closes them at the end."""
    models = []

    def make(
        backend, spec, formats=Format.Q4_1, *, threads=2, seed=0, kv_blocks=64, max_tokens=256, max_sequences=16,
        window_blocks=None,
    ):  # fmt: skip
        builder = backend.builder(spec, threads=threads)
        for role, layer, tensor in _model_tensors(spec, formats, seed):
            builder.put(role, layer, tensor)
        model = builder.finish(
            kv_blocks=kv_blocks, max_tokens=max_tokens, max_sequences=max_sequences, window_blocks=window_blocks
        )
        models.append(model)
        return model

    yield make
    for model in models:
        model.close()


class Runner:
    """Feeds runs of tokens to a model and returns the logits after each run."""

    def __init__(self, model, *, max_tokens=256, max_sequences=16, max_blocks=64):
        self.model = model
        self.batch = StepBatch.allocate(max_tokens=max_tokens, max_sequences=max_sequences, max_blocks=max_blocks)

    def step(self, *runs):
        """Each run: (ids, start, blocks). Shape of the result: (runs, vocab)."""
        logits = np.full((len(runs), self.model.spec.vocab), np.nan, np.float32)
        self.batch.clear()
        for row, (ids, start, blocks) in zip(logits, runs, strict=True):
            self.batch.add(ids, start=start, blocks=blocks, logits_address=row.ctypes.data)
        self.model.step(self.batch)
        return logits


@pytest.fixture(scope="session")
def runner():
    return Runner


@pytest.fixture(scope="session")
def versions(backends, made_once):
    """Each version's kernels one by one, linked from the code that the backends compiled; emulated what they lack."""
    folder, key = cache.cache_directory(), cache.cache_key()
    emulated = {Isa.AVX512VNNI: EmulatedVnni(), Isa.AMX: EmulatedAmx()}
    singles = {}
    for isa in emulated.keys() - backends.keys():  # a minute to compile, of which a processor that has them needs none
        library = product_library(emulated[isa])
        code = made_once(f"emulated-{isa}", lambda library=library: emit_object(library, target_machine()))
        singles[f"emulated {isa}"] = Single(library, code=code)
    for isa in backends:
        code = cache._read(folder / f"{key}-{isa}.o").objects[0]
        singles[isa] = Single(product_library(VERSIONS[isa]), code=code)
    return singles


@pytest.fixture(scope="session")
def packer():
    library = Library()
    add_packing(library)
    return Single(library)


@pytest.fixture
def make_case(packer, make_tensor):
    return partial(Case, packer, make_tensor)
