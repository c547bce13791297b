"""How far sealhost and llama.cpp are from exact arithmetic on one file: mean Kullback-Leibler divergence.

    python tests/bench/exactness.py MODEL.gguf [--tokens 2048] [--prompts GOLDENS.json] [--kv-type TYPE]... [--json OUT]

The text is this project's own prose (the rooms' READMEs), as many tokens as asked for in one context, and the prompts of a
file in tests/goldens. At every position the reference distribution is that of the dequantised weights in float64; the
figure is the mean over positions of sum p log(p / q), in nats. llama.cpp runs with its defaults but for a context that
fits. The reference takes half a minute for 2,048 tokens of a small model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp
import numpy as np
from worker_llamacpp import LlamaCpp

from sealhost.host.weights import graph
from sealhost.host.weights.gguf import GgufFile
from sealhost.host.weights.vocabulary import vocabulary
from sealhost.kernels.backend import KV_BLOCK_TOKENS, Tensor
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.cpu import CpuBackend, default_threads
from sealhost.kernels.kv_type import KvType
from sealhost.kernels.reference import ReferenceBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealhost.kernels.backend import Backend

    Logits = np.ndarray[tuple[int, int], np.dtype[np.float32]]

REPOSITORY = Path(__file__).resolve().parents[2]
PROSE = ("README.md", "SECURITY.md", "kernels/README.md", "signing/README.md", "host/README.md", "sandbox/README.md")
PIECE = 128
"""Positions whose logits are in memory at a time."""
CONTEXT = 4096


class Sealhost:
    """A file on one of sealhost's backends; a row of logits for every position."""

    def __init__(self, path: Path, backend: Backend) -> None:
        raw = np.fromfile(path, np.uint8)
        file = GgufFile.parse(raw.data)
        described = graph.describe(
            file, vocab=len(vocabulary(file).texts), read=lambda start, stop: raw[start:stop].tobytes(), context=CONTEXT
        )
        builder = backend.builder(described.spec, threads=default_threads())
        for place in described.places:
            info = place.tensor
            tensor = Tensor(info.name, place.format, info.shape, raw[info.start : info.stop])
            builder.put(place.role, place.layer, tensor)
        blocks = CONTEXT // KV_BLOCK_TOKENS
        self.vocab = described.spec.vocab
        self._model = builder.finish(kv_blocks=blocks, max_tokens=PIECE, max_sequences=PIECE)
        self._batch = StepBatch.allocate(max_tokens=PIECE, max_sequences=PIECE, max_blocks=blocks)
        self._blocks = list(range(blocks))

    def logits(self, ids: list[int], start: int) -> Logits:
        """Logits after each of these ids, which stand at positions from `start` on."""
        rows = np.zeros((len(ids), self.vocab), np.float32)
        batch = self._batch
        batch.clear()
        batch.add(ids, start=start, blocks=self._blocks, logits_address=None)
        batch.logits_tokens[: len(ids)] = range(len(ids))
        batch.logits_addresses[: len(ids)] = [row.ctypes.data for row in rows]
        batch.logits_count = len(ids)
        self._model.step(batch)
        return rows


class Peer(LlamaCpp):
    """The same of llama.cpp."""

    def ids_of(self, text: str, count: int) -> list[int]:
        """The text's first ids, with what the vocabulary puts in front."""
        raw, words = text.encode(), llama_cpp.llama_model_get_vocab(self.model)
        ids = (llama_cpp.llama_token * len(raw))()
        found = llama_cpp.llama_tokenize(words, raw, len(raw), ids, len(raw), True, False)
        return ids[: min(found, count)]

    def logits(self, ids: list[int], start: int) -> Logits:
        """Logits after each of these ids."""
        if start == 0:
            self._clear()
        batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for index, token in enumerate(ids):
            batch.token[index], batch.pos[index], batch.n_seq_id[index] = token, start + index, 1
            batch.seq_id[index][0], batch.logits[index] = 0, True
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        flat = llama_cpp.llama_get_logits(self.context)
        rows = np.ctypeslib.as_array(flat, shape=(len(ids), self.vocab)).copy()
        llama_cpp.llama_batch_free(batch)
        return rows


def log_softmax(logits: Logits) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """In float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def divergences(
    exact: Callable[[list[int], int], Logits], others: list[Callable[[list[int], int], Logits]], ids: list[int]
) -> Iterator[np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """KL(exact, other) in nats. Shape of each item: (others, positions)."""
    for start in range(0, len(ids), PIECE):
        piece = ids[start : start + PIECE]
        p = log_softmax(exact(piece, start))
        weights = np.exp(p)
        yield np.stack([(weights * (p - log_softmax(other(piece, start)))).sum(axis=1) for other in others])


def main() -> None:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--tokens", type=int, default=2048, help=f"at most {CONTEXT}, and what llama.cpp's context holds"
    )
    parser.add_argument("--prompts", type=Path, help="a file of tests/goldens of the same model")
    parser.add_argument("--kv-type", type=KvType, choices=list(KvType), action="append", help="several times: each")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    peer = Peer(str(options.model), default_threads())
    prose = "\n".join((REPOSITORY / name).read_text(encoding="utf-8") for name in PROSE)
    texts = {"prose": [peer.ids_of(prose, min(options.tokens, 2048))]}
    if options.prompts:
        recorded = json.loads(options.prompts.read_text(encoding="utf-8"))
        texts["prompts"] = [prompt["token_ids"] for prompt in recorded]
    types = options.kv_type or [KvType.FLOAT16]
    exact = Sealhost(options.model, ReferenceBackend())
    others = [Sealhost(options.model, CpuBackend(kv_type=kv_type)).logits for kv_type in types]
    results = {}
    for name, runs in texts.items():
        pieces = [piece for ids in runs for piece in divergences(exact.logits, [*others, peer.logits], ids)]
        each = np.concatenate(pieces, axis=1)
        means, errors = each.mean(axis=1), each.std(axis=1) / np.sqrt(each.shape[1])
        results[name] = {"positions": each.shape[1], "llamacpp": means[-1]} | dict(zip(types, means, strict=False))
        print(
            f"{options.model.name}, {name}, {each.shape[1]} positions: mean KL to exact arithmetic, nats (standard error): "
            + ", ".join(
                f"{who} {mean:.6f} ({error:.6f})"
                for who, mean, error in zip([*types, "llama.cpp"], means, errors, strict=True)
            ),
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
