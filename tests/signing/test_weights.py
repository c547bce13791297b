"""Weights that are verified while they are consumed: what is read when, what comes out, and what is left behind."""

from __future__ import annotations

import gc
import hashlib
import os
import random
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from consuming import load, settle

from sealhost.signing import Code, DirectoryTrust, SealError, VerifiedWeights, verify
from sealhost.signing.chunks import Meter
from sealhost.signing.limits import CHUNK_BYTES
from sealhost.signing.weights import SignedWeights, ahead_chunks

CHUNKS = 9
SIZE = (CHUNKS - 1) * CHUNK_BYTES + 5000


def hashed(buffers) -> list[bytes]:
    return [hashlib.sha256(buffer).digest() for buffer in buffers]


class Faster:
    """A SHA-256 of several buffers, and a note of their lengths."""

    def __init__(self, *, width: int, each=hashed) -> None:
        self.width, self.hashed, self._each = width, [], each

    def __call__(self, buffers) -> list[bytes]:
        self.hashed.append([len(buffer) for buffer in buffers])
        return self._each(buffers)


@pytest.fixture(scope="module")
def content() -> bytes:
    return b"".join(bytes([index]) * CHUNK_BYTES for index in range(CHUNKS))[:SIZE]


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """Indices of the chunks that were read, in order."""
    seen: list[int] = []
    real = os.preadv

    def preadv(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        seen.append(offset // CHUNK_BYTES)
        return real(descriptor, buffers, offset)

    monkeypatch.setattr("sealhost.signing.chunks.os.preadv", preadv)
    return seen


@pytest.fixture
def opened(tmp_path, content, monkeypatch):
    """Makes weights over a file, with one worker and a read-ahead of two chunks unless told otherwise.

    A helper reads two before anybody asks.
    """
    path, made = tmp_path / "model.gguf", []
    path.write_bytes(content)

    def make(reading: str, *, workers: int = 1, flat: bool | str = False, damage=None, progress=None):
        monkeypatch.setattr("sealhost.signing.weights.worker_count", lambda _: workers)
        monkeypatch.setattr("sealhost.signing.chunks.worker_count", lambda _: 2)
        monkeypatch.setattr("sealhost.signing.chunks._EARLY_BYTES", 2 * CHUNK_BYTES)
        monkeypatch.setattr("sealhost.signing.weights.ahead_chunks", lambda *_: 2)
        table = [hashlib.sha256(content[at : at + CHUNK_BYTES]).digest() for at in range(0, SIZE, CHUNK_BYTES)]
        if damage is not None:
            table[damage] = bytes(32)
        digest = {True: hashlib.sha256(content).hexdigest(), False: None}.get(flat, flat)
        signed = SignedWeights("model.gguf", SIZE, b"".join(table), digest)
        descriptor = os.open(path, os.O_RDONLY)
        made.append(VerifiedWeights(descriptor, signed, reading, Meter(SIZE, progress)))
        return made[-1]

    yield make
    for weights in made:
        weights.close()


def test_reading_stays_a_bounded_stretch_ahead_of_who_consumes(opened, reads) -> None:
    weights = opened("ahead")
    settle(weights)
    assert reads == [0, 1]
    weights.view(0, 10)
    settle(weights)
    assert reads == [0, 1, 2]
    weights.view(CHUNK_BYTES - 1, 3 * CHUNK_BYTES)
    settle(weights)
    assert reads == [0, 1, 2, 3, 4]
    weights.view(0, 10)  # what is behind asks for nothing new
    settle(weights)
    assert reads == [0, 1, 2, 3, 4]
    weights.finish()
    assert reads == list(range(CHUNKS))


@pytest.mark.parametrize("workers", [1, 3])
def test_each_chunk_is_read_once_whoever_touches_what(opened, reads, content, workers) -> None:
    for reading in ("ahead", "lazy"):
        reads.clear()
        weights, numbers = opened(reading, workers=workers), random.Random(5)
        ranges = [sorted(numbers.randrange(SIZE + 1) for _ in range(2)) for _ in range(40)]
        wrong = []

        def consume(mine, weights=weights, wrong=wrong) -> None:
            wrong.extend(at for at in mine if weights.view(*at) != content[slice(*at)])

        threads = [threading.Thread(target=consume, args=(ranges[part::4],)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        weights.finish()
        touched = {at for start, stop in ranges for at in range(start // CHUNK_BYTES, -(-stop // CHUNK_BYTES))}
        assert wrong == []
        assert sorted(reads) == (sorted(touched) if reading == "lazy" else list(range(CHUNKS)))


def test_lazy_weights_read_what_is_touched_and_nothing_else(opened, reads, content) -> None:
    weights = opened("lazy")
    assert reads == []
    assert weights.view(5 * CHUNK_BYTES - 2, 5 * CHUNK_BYTES + 2) == b"\4\4\5\5"
    assert weights.view(0, 4) == bytes(4)
    assert weights.view(7, 7) == b""
    weights.finish()
    assert reads == [4, 5, 0]
    assert weights.view(4 * CHUNK_BYTES, 6 * CHUNK_BYTES) == content[4 * CHUNK_BYTES : 6 * CHUNK_BYTES]
    with pytest.raises(ValueError, match="finished"):
        weights.view(0, 2 * CHUNK_BYTES)


def test_lazy_weights_give_up_what_nobody_touches(opened, reads) -> None:
    """The price that clause 7.5 names: the last chunk is wrong, and whoever never looks at it does not learn so."""
    weights = opened("lazy", damage=CHUNKS - 1)
    weights.view(0, SIZE - 5000)
    weights.finish()
    eager = opened("ahead", damage=CHUNKS - 1)
    eager.view(0, 4)
    with pytest.raises(SealError, match=f"for chunk {CHUNKS - 1} "):
        eager.finish()


def test_finishing_keeps_what_was_asked_for_and_nothing_else(opened, content) -> None:
    weights = opened("ahead")
    weights.view(0, 10)
    settle(weights)
    weights.finish()
    weights.finish()
    assert weights.view(0, 3 * CHUNK_BYTES) == content[: 3 * CHUNK_BYTES]
    with pytest.raises(ValueError, match="finished"):
        weights.view(0, 3 * CHUNK_BYTES + 1)


@pytest.mark.parametrize("reading", ["ahead", "lazy"])
def test_a_refusal_is_every_later_answer(opened, reads, reading) -> None:
    weights = opened(reading, damage=3)
    weights.view(0, CHUNK_BYTES)
    with pytest.raises(SealError) as first:
        weights.view(3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 1)
    settle(weights)
    before = list(reads)
    for again in (lambda: weights.view(0, 1), lambda: weights.view(SIZE - 1, SIZE), weights.finish):
        with pytest.raises(SealError) as caught:
            again()
        assert caught.value is first.value
    assert reads == before


def test_what_was_read_ahead_refuses_before_anyone_asks_for_it(opened) -> None:
    weights = opened("ahead", damage=1)
    settle(weights)
    weights.view(0, 1)
    settle(weights)
    with pytest.raises(SealError, match="for chunk 1 "):
        weights.view(0, 1)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_flat_digest_is_taken_in_order_from_the_same_reads(opened, reads, workers) -> None:
    good = opened("ahead", workers=workers, flat=True)
    for start in range(0, SIZE, 3 << 20):
        stop = min(start + (3 << 20), SIZE)
        good.view(start, stop)
        good.release(start, stop)  # the digest has taken them by then
    good.finish()
    assert sorted(reads) == list(range(CHUNKS))
    bad = opened("ahead", workers=workers, flat="0" * 64)
    with pytest.raises(SealError, match="flat sha256 0000"):
        bad.finish()


@pytest.mark.parametrize("workers", [2, 5])
def test_a_bad_chunk_ends_the_wait_for_the_flat_digest(opened, workers) -> None:
    with pytest.raises(SealError, match="for chunk 2 "):
        opened("ahead", workers=workers, flat=True, damage=2).finish()


def test_lazy_weights_have_no_flat_digest(seal_lab) -> None:
    with pytest.raises(ValueError, match="flat digest"):
        seal_lab.verify(reading="lazy", full=True)


@pytest.mark.parametrize("reading", ["whole", "ahead", "lazy"])
def test_no_range_leads_outside(opened, reading) -> None:
    weights = opened(reading)
    for start, stop in ((-1, 5), (5, 4), (0, SIZE + 1), (SIZE + 1, SIZE + 1), (-5, -1)):
        with pytest.raises(ValueError, match="expected a range within"):
            weights.view(start, stop)
    view = weights.view(SIZE - 1, SIZE)
    assert (len(view), view.readonly) == (1, True)


def test_released_pages_read_as_zeros_and_the_rest_stays(seal_lab, seal_model) -> None:
    weights, data = seal_lab.verify().weights, seal_model.read_bytes()

    def found(start: int, stop: int) -> bytes:
        return bytes(weights.view(start, stop))

    weights.release(100, 3 * 4096 + 5)
    assert found(0, 4096) == data[:4096]
    assert found(4096, 3 * 4096) == bytes(2 * 4096)
    assert found(3 * 4096, weights.size) == data[3 * 4096 :]
    weights.release(4096, 4096)
    weights.release(-5, 10)
    assert found(0, 4096) == data[:4096]
    weights.release(0, weights.size + 12345)
    assert found(0, weights.size) == bytes(weights.size)


@pytest.mark.parametrize("reading", ["whole", "ahead", "lazy"])
def test_closed_weights_give_nothing_out_and_closing_twice_is_harmless(seal_lab, reading) -> None:
    weights = seal_lab.verify(reading=reading).weights
    weights.close()
    weights.close()
    weights.release(0, 8192)
    with pytest.raises(ValueError, match="closed"):
        weights.view(0, 1)
    with pytest.raises(ValueError, match="closed"):
        weights.finish()


@pytest.mark.parametrize("reading", ["whole", "ahead", "lazy"])
def test_a_view_outlives_closing(seal_lab, seal_model, reading) -> None:
    weights = seal_lab.verify(reading=reading).weights
    view = weights.view(0, 16)
    weights.close()
    assert bytes(view) == seal_model.read_bytes()[:16]


def open_files() -> set[str]:
    return {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}


@pytest.mark.parametrize("end", ["finish", "close", "forget"])
def test_the_file_does_not_stay_open(seal_lab, end) -> None:
    path = str(seal_lab.root / "model.gguf")
    bundle = seal_lab.verify(reading="ahead")
    assert path in open_files()
    settle(bundle.weights)
    if end == "forget":
        del bundle
        gc.collect()
    else:
        getattr(bundle.weights, end)()
    assert path not in open_files()


@pytest.mark.parametrize("reading", ["whole", "ahead", "lazy"])
def test_a_bundle_that_is_refused_after_its_weights_were_opened_closes_them(seal_lab, monkeypatch, reading) -> None:
    def refuse(*_: object) -> None:
        raise SealError(Code.TEMPLATE, "chat_template.jinja", "expected UTF-8, got other bytes", "pack it again")

    monkeypatch.setitem(verify.__globals__, "_template", refuse)
    with pytest.raises(SealError, match="E_TEMPLATE"):
        seal_lab.verify(reading=reading)
    assert str(seal_lab.root / "model.gguf") not in open_files()


def test_a_wrong_small_file_refuses_before_weights_are_read_ahead(seal_lab, reads) -> None:
    data = bytearray((seal_lab.root / "plugins/bpe.wasm").read_bytes())
    data[-1] ^= 1
    (seal_lab.root / "plugins/bpe.wasm").write_bytes(data)
    for reading in ("ahead", "lazy"):
        with pytest.raises(SealError, match=r"plugins/bpe.wasm"):
            seal_lab.verify(reading=reading)
    assert reads == []


def test_a_caller_can_stop_a_load_from_its_progress_callback(opened) -> None:
    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with closing(opened("ahead", progress=stop)) as weights, pytest.raises(KeyboardInterrupt):
        weights.finish()


def test_progress_goes_on_while_the_weights_are_consumed(seal_lab) -> None:
    calls: list[tuple[int, int]] = []
    bundle, _ = load(
        seal_lab.root, DirectoryTrust(seal_lab.keys), reading="ahead", progress=lambda *done: calls.append(done)
    )
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] == sum(entry.size for entry in bundle.manifest.files)
    assert bundle.report.bytes < calls[-1][0]


def test_a_faster_hash_is_used_for_what_nobody_has_begun(opened, content) -> None:
    weights, faster = opened("ahead"), Faster(width=2)
    settle(weights)
    weights.hash_with(faster)
    faster.hashed.clear()  # what it was tried with
    assert weights.view(0, SIZE) == content
    weights.finish()
    assert [lengths for lengths in faster.hashed if lengths] == [[CHUNK_BYTES] * 2] * 3 + [[5000]]


@pytest.mark.parametrize(
    ("width", "read", "groups"), [(3, 3, [1, 3, 3]), (4, 4, [2, 4, 1]), (16, 9, [7])], ids=["3", "4", "16"]
)
def test_as_many_are_read_and_hashed_together_as_it_takes(opened, content, reads, width, read, groups) -> None:
    weights, faster = opened("ahead"), Faster(width=width)
    settle(weights)  # two, of which no group is waiting for more
    weights.hash_with(faster)
    faster.hashed.clear()
    assert weights.view(0, 4) == content[:4]
    settle(weights)
    assert reads == list(range(read))  # two ahead, in whole groups
    assert weights.view(0, SIZE) == content
    assert [len(group) for group in faster.hashed if group] == groups
    assert reads == list(range(CHUNKS))


@pytest.mark.parametrize(
    ("workers", "width", "chunks"), [(1, 1, 32), (32, 2, 128), (1, 16, 32), (2, 16, 32), (4, 16, 64), (32, 16, 128)]
)
def test_the_stretch_ahead_keeps_workers_busy_and_memory_bounded(workers, width, chunks) -> None:
    assert ahead_chunks(workers, width) == chunks


def test_a_wrong_chunk_is_named_whoever_hashes(opened) -> None:
    for damage in range(CHUNKS):
        weights = opened("ahead", damage=damage)
        weights.hash_with(Faster(width=2))
        with pytest.raises(SealError, match=f"for chunk {damage} "):
            weights.view(0, SIZE)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _: [],
        lambda buffers: [hashlib.sha512(buffer).digest()[:32] for buffer in buffers],
        lambda buffers: [hashlib.sha256(buffers[0]).digest()] * len(buffers),
        lambda buffers: [hashlib.sha256(bytes(buffer)[: len(buffer) // 64 * 64]).digest() for buffer in buffers],
        lambda buffers: hashed(buffers[:-1]) + hashed(buffers[:1]),
        lambda buffers: hashed(bytes(np.frombuffer(buffer, "<u4").byteswap()) for buffer in buffers),
    ],
    ids=["nothing", "another hash", "the first one's", "whole blocks only", "one wrong", "other words"],
)
@pytest.mark.parametrize("width", [1, 2, 16])
def test_what_is_no_sha256_is_refused(opened, content, wrong, width) -> None:
    weights = opened("ahead")
    with pytest.raises(ValueError, match="SHA-256"):
        weights.hash_with(Faster(width=width, each=wrong))
    assert weights.view(0, SIZE) == content  # hashed as before
