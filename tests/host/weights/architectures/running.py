"""Runs a tiny model on a backend, from its file through its description."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from tiny_models import VOCAB, Case

from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.graph import Graph, describe
from sealhost.kernels.backend import Backend, Model, Tensor
from sealhost.kernels.batch import StepBatch

BLOCKS = 8


def reader(raw: bytes) -> Callable[[int, int], bytes]:
    """What gives a file's bytes from a start to a stop."""
    return lambda start, stop: raw[start:stop]


def described(raw: bytes, context: int | None = None) -> Graph:
    """The description of a file with the tiny models' vocabulary."""
    return describe(GgufFile.parse(raw), vocab=VOCAB, read=reader(raw), context=context)


def built(backend: Backend, raw: bytes, context: int | None = None) -> Model:
    """The model of a file."""
    graph = described(raw, context)
    builder = backend.builder(graph.spec, threads=1)
    for place in graph.places:
        info = place.tensor
        data = np.frombuffer(raw, np.uint8, info.stop - info.start, info.start)
        builder.put(place.role, place.layer, Tensor(info.name, place.format, info.shape, data))
    return builder.finish(kv_blocks=BLOCKS, max_tokens=64, max_sequences=2)


def log_probs(model: Model, case: Case) -> NDArray[np.float64]:
    """Log-probabilities of all ids after each of the case's ends. Shape: (ends, vocab)."""
    logits = np.empty((len(case.ends), VOCAB), np.float32)
    batch = StepBatch.allocate(max_tokens=64, max_sequences=2, max_blocks=BLOCKS)
    start = 0
    for row, end in zip(logits, case.ends, strict=True):
        batch.clear()
        batch.add(case.ids[start:end], start=start, blocks=range(BLOCKS), logits_address=row.ctypes.data)
        model.step(batch)
        start = end
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
