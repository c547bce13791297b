"""Measures how fast bundles are hashed, verified and loaded, as ratios to a peer or to itself within one run.

    python tests/bench/verifying.py [--rounds 7] [--only hashing,reading,loading,threads,process,start,load]
                                     [--sealhost PATH] [--model-signing PATH]

* hashing: `verify`'s one process over a file in the page cache, against `openssl speed -bytes 1048576 -evp sha256` on the
  same core; a process of its own is one thread, too.
* reading: the same where no process can be had (a host's audit before a swap, the signer): a thread that reads.
* loading: the same, as a loader hashes that file: several chunks at once where the processor can (kernels/README.md, clause 12).
* threads: two of the first over that file, against one.
* process: `sealhost verify` of a 256 MB bundle, against `model_signing verify key` of the same directory; whole processes.
  Give both tools from environments of their own, as their users have them: a developer's one costs each start 10 ms.
* start: `sealhost run` of a 1 GiB bundle up to its first token, against the same process when chunks are read and not
  hashed (worker_verifying.py).
* load: the loading alone, tensors repacked by all threads while chunks are hashed, against the same when they are only read.

Before each start and load memory is touched and freed: where a virtual machine's host gives it anew, that costs more than
hashing.

Each round measures both sides one after the other, in an order that flips from round to round; the ratio is taken within
the round. A side beside which other processes, or the host of a virtual machine, took a share of the processors' time is
measured again, a few times at most. (Its involuntary context switches tell nothing: where it has more threads than there
are cores, they push each other off.) Printed: the median ratio, the lowest and the highest, the medians of both sides,
and how many measurements were disturbed for all that: with many, the machine is not free and the ratios say little.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from gguf import GGMLQuantizationType, GGUFWriter
from worker_verifying import only_read

from sealhost.host.config import EngineConfig
from sealhost.host.weights.loader import load
from sealhost.host.weights.vocabulary import byte_alphabet
from sealhost.kernels.cpu import CpuBackend
from sealhost.sandbox import OperatorLimits
from sealhost.signing import DirectoryTrust, VerifiedWeights, verify
from sealhost.signing.apart import HashedApart
from sealhost.signing.chunks import ChunkHashing, Meter, chunk_table
from sealhost.signing.weights import SignedWeights

FILE_BYTES = 1 << 30
PROCESS_BYTES = 256 << 20
WARM_BYTES = FILE_BYTES * 5 // 2
DIM, FEED_FORWARD, HEADS, VOCAB = 2048, 5632, 16, 32000
ATTEMPTS = 6
"""Measurements of one side at most, until one is undisturbed."""
CALM_SHARE = 0.05
"""Of the processors' time, what a free machine's own housekeeping takes."""
CALM_S = 0.03
"""As much more goes for the clocks: the system counts in hundredths of a second, on each processor."""
LAYER_BYTES = (4 * DIM * DIM + 3 * DIM * FEED_FORWARD) // 32 * 20
"""One layer in Q4_1: 20 bytes for each 32 weights."""


class Comparison(NamedTuple):
    """What is compared, what the ratio (ours / theirs) is wanted to be, and what comes before each side's measurement."""

    name: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    wanted: str
    before: Callable[[], None] = lambda: None


def undisturbed(side: Callable[[], float], before: Callable[[], None]) -> tuple[float, bool]:
    """A figure, and whether nobody else took much of the processors' time meanwhile."""
    for _ in range(ATTEMPTS):
        before()
        others, start = others_s(), time.perf_counter()
        figure = side()
        available = (time.perf_counter() - start) * (os.cpu_count() or 1)
        calm = others_s() - others <= CALM_SHARE * available + CALM_S
        if calm:
            break
    return figure, calm


def others_s() -> float:
    """Seconds of the processors' time that did not go to this process and its ended children, nor idly by."""
    user, nice, system, _idle, _waiting, *rest = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(one.ru_utime + one.ru_stime for one in spent)
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK") - own


def compare(comparison: Comparison, rounds: int) -> dict[str, object]:
    """Measures in turns; each side answers a figure of its own unit."""
    comparison.ours(), comparison.theirs()  # caches
    pairs, disturbed = [], 0
    for number in range(rounds):
        sides = [comparison.ours, comparison.theirs]
        figures = [undisturbed(side, comparison.before) for side in (sides if number % 2 else reversed(sides))]
        disturbed += sum(not calm for _, calm in figures)
        pairs.append([figure for figure, _ in (figures if number % 2 else reversed(figures))])
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    facts = {
        "name": comparison.name,
        "wanted": comparison.wanted,
        "ratio": statistics.median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
        "sides": [statistics.median(side) for side in zip(*pairs, strict=True)],
        "disturbed": disturbed,
    }
    spread = f"{facts['ratio']:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    sides = " and ".join(f"{side:.3f}" for side in facts["sides"])
    print(f"{comparison.name}: {spread}, wanted {comparison.wanted}; {sides}; {disturbed} disturbed", flush=True)
    return facts


@contextlib.contextmanager
def cores(count: int) -> Iterator[None]:
    """Keeps this process, its threads and its children on the first `count` of its cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# --- hashing and threads: GB/s, more is better ---


def hashed(path: Path, count: int, begin: Callable[..., ChunkHashing | HashedApart] = HashedApart) -> float:
    """GB/s of the verifier's own hashing of a file, on some cores."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with cores(count):
            start = time.perf_counter()
            hashing = begin(descriptor, path.name, FILE_BYTES)
            hashing.table(Meter(FILE_BYTES, None))
            took = time.perf_counter() - start
            hashing.stop()
            return FILE_BYTES / took / 1e9
    finally:
        os.close(descriptor)


def hashed_by_loader(path: Path, table: bytes, sha256: Callable[..., list[bytes]]) -> float:
    """GB/s at which weights are read, hashed and compared on one core when they will be used."""
    with cores(1):
        start = time.perf_counter()
        signed = SignedWeights(path.name, FILE_BYTES, table, None)
        weights = VerifiedWeights(os.open(path, os.O_RDONLY), signed, "ahead", Meter(FILE_BYTES, None))
        with contextlib.closing(weights):
            weights.hash_with(sha256)
            weights.finish()
        return FILE_BYTES / (time.perf_counter() - start) / 1e9


def openssl_speed() -> float:
    """GB/s of OpenSSL's own SHA-256 from a buffer in the cache."""
    command = ["openssl", "speed", "-seconds", "1", "-bytes", "1048576", "-evp", "sha256"]
    with cores(1):
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.findall(r"([\d.]+)k", said)[-1]) / 1e6


def big_file(folder: Path) -> Path:
    """A file of random bytes, in the page cache."""
    path, some = folder / "big", os.urandom(64 << 20)
    with path.open("wb") as file:
        for _ in range(FILE_BYTES // len(some)):
            file.write(some)
    return path


def hashings(folder: Path, wanted: Collection[str]) -> Iterator[Comparison]:
    """What is compared over one file; it lies there as long as this is iterated over."""
    if not {"hashing", "reading", "loading", "threads"} & set(wanted):
        return
    big = big_file(folder)
    one, two, reading = (partial(hashed, big, *how) for how in ((1,), (2,), (1, ChunkHashing)))
    if "hashing" in wanted:
        yield Comparison("hashing: one thread / openssl speed, GB/s", one, openssl_speed, "0.90 or more")
    if "reading" in wanted:
        yield Comparison("reading: one thread / openssl speed, GB/s", reading, openssl_speed, "as it comes")
    if "loading" in wanted:
        yield loader_hashing(big)
    if "threads" in wanted and len(os.sched_getaffinity(0)) > 1:
        yield Comparison("threads: two / one, GB/s", two, one, "1.70 or more")
    big.unlink()


def loader_hashing(big: Path) -> Comparison:
    """The loader's hashing of a file, and OpenSSL's own speed."""
    sha256, descriptor = CpuBackend().sha256, os.open(big, os.O_RDONLY)
    table = chunk_table(descriptor, big.name, FILE_BYTES, Meter(FILE_BYTES, None))
    os.close(descriptor)
    ours = partial(hashed_by_loader, big, table, sha256)
    return Comparison("loading: one thread / openssl speed, GB/s", ours, openssl_speed, "0.90 or more")


# --- process: seconds, less is better, so the sides change places ---


def warm_memory() -> None:
    """Has the system hold as much free memory as a load will take, so that none comes from further away."""
    with mmap.mmap(-1, WARM_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for at in range(0, WARM_BYTES, mmap.PAGESIZE):
            memory[at] = 1


def seconds_of(command: list[str | Path]) -> Callable[[], float]:
    """Runs a process and answers its wall time; modules are compiled once, as in any installation."""
    ours = ("SEALHOST_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - start

    return run


def publish(folder: Path, model: Path) -> tuple[Path, Path]:
    """Packs and signs a bundle in both formats; answers it and the folder of its publisher's key."""
    sealhost, bundle, keys = Path(sys.executable).with_name("sealhost"), folder / "bundle", folder / "keys"
    keys.mkdir(mode=0o755)
    oms = ec.generate_private_key(ec.SECP256R1())
    public = oms.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "oms.pub").write_bytes(public)
    (folder / "oms.pem").touch(mode=0o600)
    (folder / "oms.pem").write_bytes(oms.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for arguments in (
        ["keygen", "bench", "--out", folder, "--no-passphrase"],
        ["pack", model, "--out", bundle, "--name", "bench", "--version", "1"],
        ["sign", bundle, "--key", folder / "bench.key", "--oms-key", folder / "oms.pem"],
    ):
        subprocess.run([sealhost, *arguments], check=True, stdout=subprocess.DEVNULL)
    (folder / "bench.pub").rename(keys / "bench.pub")
    return bundle, keys


def verify_processes(folder: Path, sealhost: str, peer: str) -> Comparison:
    """`sealhost verify` and its peer, on one directory."""
    folder.mkdir()
    bundle, keys = publish(folder, random_model(folder / "m.gguf", PROCESS_BYTES))
    ours = [sealhost, "verify", bundle, "--keys", keys, "--state", folder / "state"]
    theirs = [peer, "verify", "key", bundle, "--signature", bundle / "model.sig", "--public_key", folder / "oms.pub"]
    return Comparison(
        "process: model_signing / sealhost verify, 256 MB",
        seconds_of(theirs),
        seconds_of(ours),
        "4 or more",
    )


# --- load: seconds, less is better ---


def random_model(path: Path, size: int) -> Path:
    """A llama in Q4_1 of about this size; what it says is noise."""
    numbers = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    layers = max(1, (size - VOCAB * DIM // 32 * 20) // LAYER_BYTES)
    writer.add_block_count(layers)
    writer.add_context_length(2048)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(DIM // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    letters = [chr(code).encode() for code in byte_alphabet()]
    writer.add_token_list([*letters, *(f"t{index}".encode() for index in range(VOCAB - len(letters)))])
    writer.add_token_types([1] * VOCAB)
    writer.add_token_merges(["t 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    def matrix(name: str, rows: int, columns: int) -> None:
        blocks = numbers.integers(0, 256, (rows * columns // 32, 20), dtype=np.uint8)
        blocks[:, :4] = np.frombuffer(np.array([0.001, 0.0], np.float16).tobytes(), np.uint8)
        writer.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=GGMLQuantizationType.Q4_1)

    matrix("token_embd.weight", VOCAB, DIM)
    writer.add_tensor("output_norm.weight", np.ones(DIM, np.float32))
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(DIM, np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}.weight", DIM, DIM)
        for name in ("ffn_gate", "ffn_up"):
            matrix(f"blk.{layer}.{name}.weight", FEED_FORWARD, DIM)
        matrix(f"blk.{layer}.ffn_down.weight", DIM, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def starts(folder: Path, bundle: Path, keys: Path) -> Comparison:
    """Whole processes up to a first token."""
    worker = Path(__file__).with_name("worker_verifying.py")
    ours, theirs = (
        seconds_of([sys.executable, worker, bundle, keys, folder / "state", how]) for how in ("hashed", "read")
    )
    return Comparison("start: verified / not verified, 1 GiB", ours, theirs, "1.05 or less", warm_memory)


def loads(bundle: Path, keys: Path) -> Comparison:
    """A load that verifies meanwhile, and one that only reads."""
    backend, trust = CpuBackend(), DirectoryTrust(keys)
    plugins = SimpleNamespace(limits=OperatorLimits(), load_tokenizer=lambda *_: None, load_sampler=lambda *_: None)
    hashing = VerifiedWeights._read

    def seconds(read: Callable[..., None]) -> Callable[[], float]:
        def run() -> float:
            VerifiedWeights._read = read
            try:
                start = time.perf_counter()
                loaded = load(verify(bundle, trust, reading="ahead"), plugins, backend, EngineConfig())
                took = time.perf_counter() - start
            finally:
                VerifiedWeights._read = hashing
            loaded.close()
            return took

        return run

    sides = seconds(hashing), seconds(only_read)
    return Comparison("load: verified / not verified, 1 GiB", *sides, "1.05 or less", warm_memory)


def main() -> None:
    """Measures what was asked for and prints it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="hashing,reading,loading,threads,process,start,load")
    parser.add_argument("--sealhost", default=Path(sys.executable).with_name("sealhost"))
    parser.add_argument("--model-signing", default=shutil.which("model_signing"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = options.only.split(",")
    facts = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts += [compare(one, options.rounds) for one in hashings(folder, wanted)]
        if "process" in wanted and options.model_signing:
            tools = options.sealhost, options.model_signing
            facts.append(compare(verify_processes(folder / "process", *tools), options.rounds))
            shutil.rmtree(folder / "process")
        if {"start", "load"} & set(wanted):
            (folder / "load").mkdir()
            bundle, keys = publish(folder / "load", random_model(folder / "load" / "m.gguf", FILE_BYTES))
            if "start" in wanted:
                facts.append(compare(starts(folder / "load", bundle, keys), options.rounds))
            if "load" in wanted:
                facts.append(compare(loads(bundle, keys), options.rounds))
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
