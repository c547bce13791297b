"""Measures the CPU kernels against the roofline of the machine, found in the same run.

    python tests/bench/kernels.py [MODEL.gguf] [--threads N] [--isa ISA] [--rounds 5] [--json OUT]

Kernel figures are one thread's own processor time, so that neighbours disturb them least; model figures are wall time.
Without a file the model has SmolLM2-135M's shape and random weights (Q4_1 matrices, Q8_0 embedding).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from roofline import LINES, STREAM_BYTES, peak_of, read

from sealhost.kernels.backend import DecoderSpec, Role, RopeStyle, Tensor
from sealhost.kernels.batch import StepBatch
from sealhost.kernels.cpu import CpuBackend, Isa, default_threads
from sealhost.kernels.cpu.arena import Arena, address
from sealhost.kernels.cpu.builder import matrix_shape
from sealhost.kernels.cpu.dot import VERSIONS
from sealhost.kernels.cpu.native import Library
from sealhost.kernels.cpu.products import packed_columns, product_library, square_name
from sealhost.kernels.cpu.program import Form
from sealhost.kernels.cpu.single import Single
from sealhost.kernels.formats import Format
from sealhost.kernels.layouts import QUANTISED, TILE_ROWS, Kind, activation_stride, packed_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMOLLM2 = DecoderSpec(
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
NORMS = {"attn_norm": Role.ATTENTION_NORM, "ffn_norm": Role.FEED_FORWARD_NORM, "output_norm": Role.OUTPUT_NORM}
MATRICES = {
    "attn_q": Role.QUERY,
    "attn_k": Role.KEY,
    "attn_v": Role.VALUE,
    "attn_output": Role.ATTENTION_OUTPUT,
    "ffn_gate": Role.GATE,
    "ffn_up": Role.UP,
    "ffn_down": Role.DOWN,
    "token_embd": Role.EMBEDDING,
    "output": Role.OUTPUT,
}


SQUARES = 4
"""Of 16 columns each, in one call of a kernel on tile registers: as a step multiplies."""


def rate(work: float, call: Callable[[], None], rounds: int) -> float:
    """Work per second of this thread's processor time, best of the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return work / best


def roofline(dot, rounds: int) -> dict[str, float]:
    """Bytes read a second, and multiply-adds a second of the dot-product layer with everything in registers."""
    library = Library()
    library.native("read", read)
    library.native("peak", peak_of(dot))
    single, area = Single(library), Arena().take(STREAM_BYTES)
    area[:] = 1
    times = 1 << 22
    return {
        "read_gb_s": rate(STREAM_BYTES, lambda: single["read"](address(area), LINES), rounds) / 1e9,
        "peak_gmac_s": rate(times * 8 * 4 * dot.lanes, lambda: single["peak"](address(area), times), rounds) / 1e9,
    }


def products(dot, rounds: int) -> Iterator[tuple[str, float, float]]:
    """(name, weight GB/s from memory or 0, G multiply-adds/s) of the matrix kernels on rows of 768."""
    names = [f"packed_{kind.name}_{count}" for kind in QUANTISED for count in {1, max(packed_columns(kind))}]
    names += [f"unpacked_{kind.name}_{dot.columns}" for kind in QUANTISED]
    if dot.tile_registers is not None:
        names += [square_name(kind, Form.UNPACKED) for kind in QUANTISED]
    single = Single(product_library(dot), tuple(names))
    width, arena = 768, Arena()
    weights, acts, out = arena.take(STREAM_BYTES), arena.take(1 << 20), arena.take(SQUARES * 1024)
    weights[:], acts[:] = 0x3C, 0x3C  # 1.06 as float16, 0.0115 as float32: no denormals
    for name in sorted(names, key=lambda name: name.removeprefix("square_").split("_", 1)[1]):
        form, rest = name.removeprefix("square_").split("_", 1)
        kind, columns = Kind[rest.rsplit("_", 1)[0]], int(rest.rsplit("_", 1)[1])
        tile = packed_bytes(kind, TILE_ROWS, width)
        count = STREAM_BYTES // tile - 1
        rest = (address(acts), activation_stride(width), width // 32, address(out))
        if name.startswith("square_"):
            columns *= SQUARES
            rest = (*rest, columns)
        else:
            rest = (address(acts) + (1 << 19), *rest)
        repeat = single[f"{name}:repeat"]
        macs = 16 * width * columns * count
        inside = rate(macs, partial(repeat, count, 0, address(weights), *rest), rounds) / 1e9
        streamed = rate(tile * count, partial(repeat, count, tile, address(weights), *rest), rounds) / 1e9
        yield name, 0.0 if form == "unpacked" else streamed, inside


def random_tensors(spec: DecoderSpec) -> Iterator[tuple[Role, int | None, Tensor]]:
    """A model's worth of random quantised bytes with small scales."""
    rng = np.random.default_rng(0)

    def norm() -> Tensor:
        return Tensor("norm", Format.F32, (spec.dim,), np.ones(spec.dim, np.float32).view(np.uint8))

    def matrix(role: Role, fmt: Format) -> Tensor:
        rows, columns = matrix_shape(spec, role)
        blocks = rng.integers(0, 256, (rows * columns // 32, fmt.block_bytes), dtype=np.uint8)
        scale, minimum = (0.01, -0.075) if fmt is Format.Q4_1 else (0.0005, 0.0)
        blocks[:, :2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        if fmt is Format.Q4_1:
            blocks[:, 2:4] = np.frombuffer(np.float16(minimum).tobytes(), np.uint8)
        return Tensor(role, fmt, (rows, columns), blocks.reshape(-1))

    yield Role.EMBEDDING, None, matrix(Role.EMBEDDING, Format.Q8_0)
    yield Role.OUTPUT_NORM, None, norm()
    for layer in range(spec.layers):
        yield Role.ATTENTION_NORM, layer, norm()
        yield Role.FEED_FORWARD_NORM, layer, norm()
        for role in list(MATRICES.values())[:7]:
            yield role, layer, matrix(role, Format.Q4_1)


def stored_tensors(path: Path) -> tuple[DecoderSpec, list[tuple[Role, int | None, Tensor]]]:
    """A llama-shaped GGUF's tensors."""
    import gguf

    reader = gguf.GGUFReader(path)
    formats = {fmt.type_id: fmt for fmt in Format}
    found: list[tuple[Role, int | None, Tensor]] = []
    for stored in reader.tensors:
        parts = stored.name.split(".")
        name, layer = (parts[2], int(parts[1])) if parts[0] == "blk" else (parts[0], None)
        shape = tuple(int(size) for size in reversed(stored.shape))
        data = np.frombuffer(stored.data.tobytes(), np.uint8)
        role = (NORMS | MATRICES)[name]
        found.append((role, layer, Tensor(stored.name, formats[int(stored.tensor_type)], shape, data)))

    def fact(key: str):
        return reader.fields[f"llama.{key}"].contents()

    heads, dim = fact("attention.head_count"), fact("embedding_length")
    vocab = next(tensor.shape[0] for role, _, tensor in found if role is Role.EMBEDDING)
    spec = replace(
        SMOLLM2,
        layers=fact("block_count"),
        dim=dim,
        heads=heads,
        kv_heads=fact("attention.head_count_kv"),
        head_dim=dim // heads,
        rope_dim=dim // heads,
        feed_forward_dim=fact("feed_forward_length"),
        vocab=vocab,
        context=fact("context_length"),
        rope_base=fact("rope.freq_base"),
        tied_head=all(role is not Role.OUTPUT for role, _, _ in found),
    )
    return spec, found


def run_model(backend: CpuBackend, path: Path | None, threads: int, rounds: int) -> dict[str, float]:
    """Load time, prefill and decode speed, and the bytes that a decoded token reads."""
    spec, tensors = (SMOLLM2, list(random_tensors(SMOLLM2))) if path is None else stored_tensors(path)
    start = time.perf_counter()
    builder = backend.builder(spec, threads=threads)
    for place in tensors:
        builder.put(*place)
    model = builder.finish(kv_blocks=64, max_tokens=512, max_sequences=8)
    load = time.perf_counter() - start
    batch = StepBatch.allocate(max_tokens=512, max_sequences=8, max_blocks=64)
    logits, blocks = np.zeros(spec.vocab, np.float32), list(range(64))
    ids = (np.arange(512) * 37 % spec.vocab).tolist()

    def step(run: list[int], first: int) -> None:
        batch.clear()
        batch.add(run, start=first, blocks=blocks, logits_address=address(logits))
        model.step(batch)

    def speed(runs: list[tuple[list[int], int]]) -> float:
        start = time.perf_counter()
        for run, first in runs:
            step(run, first)
        return sum(len(run) for run, _ in runs) / (time.perf_counter() - start)

    prefill = [speed([(ids, 0)]) for _ in range(rounds)]
    decode = [speed([([7], 16 + index) for index in range(64)]) for _ in range(rounds)]
    weights = model.memory_bytes["weights"]
    model.close()
    return {
        "load_s": load,
        "prefill_512_tok_s": statistics.median(prefill),
        "decode_tok_s": statistics.median(decode),
        "decode_gb_s": statistics.median(decode) * weights / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--isa", type=Isa, choices=list(Isa))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    backend = CpuBackend(isa=options.isa, progress=print)
    dot = VERSIONS[backend.isa]
    roof = roofline(dot, options.rounds)
    print(
        f"{backend.name}: one thread reads {roof['read_gb_s']:.1f} GB/s, peak {roof['peak_gmac_s']:.0f} G multiply-adds/s"
    )
    report = {"backend": backend.name, "threads": options.threads, **roof}
    for name, streamed, macs in products(dot, options.rounds):
        text = f"{name:23} {macs:6.1f} GMAC/s ({macs / roof['peak_gmac_s']:4.0%} of peak)"
        if streamed:
            text += f" {streamed:6.1f} GB/s from memory ({streamed / roof['read_gb_s']:4.0%} of what can be read)"
        print(text)
        report[name] = {"gmac_s": macs, "stream_gb_s": streamed}
    figures = run_model(backend, options.model, options.threads, options.rounds)
    print(
        f"load {figures['load_s']:.2f} s, prefill 512 {figures['prefill_512_tok_s']:.0f} tokens/s, decode "
        f"{figures['decode_tok_s']:.0f} tokens/s = {figures['decode_gb_s']:.1f} GB/s on {options.threads} threads"
    )
    if options.json:
        options.json.write_text(json.dumps(report | figures, indent=1))


if __name__ == "__main__":
    main()
