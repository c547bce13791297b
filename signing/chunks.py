"""Reads a file in 4 MiB chunks on all cores and hashes each from the buffer it was read into (clauses 6.7, 7.2).

The table of digests is what both sides need: the packer writes it, the verifier compares it with the signed one.
Hashing may begin before anybody knows what the table should be (see ahead): a digest of unknown bytes harms nobody.
Memory is one chunk for each worker; weights that will be used have their own (see weights).

Bytes moved: each byte is copied once from the page cache and read once by SHA-256; both release the GIL, so
workers are plain threads. A chunk is read by one call and hashed by one: smaller pieces would stay in a nearer cache,
but measured no faster (SHA-256 is slower than the last-level cache), and each call waits for the GIL, up to 5 ms when
somebody else computes in Python.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import threading
from typing import TYPE_CHECKING, Final

from .limits import CHUNK_BYTES, DIGEST_BYTES
from .source import size_changed

if TYPE_CHECKING:
    from collections.abc import Callable

_POPULATED: Final = getattr(mmap, "MAP_POPULATE", 0)

_MAX_WORKERS: Final = 32
"""Threads at most: beyond it memory bandwidth is used up."""


class Meter:
    """Counts bytes for a progress callback; workers share it, the callback runs in one thread at a time."""

    __slots__ = ("_callback", "_lock", "_total", "done")

    def __init__(self, total: int, callback: Callable[[int, int], None] | None) -> None:
        self.done = 0
        self._total = total
        self._callback = callback
        self._lock = threading.Lock()

    def advance(self, count: int) -> None:
        """Adds bytes and reports them."""
        with self._lock:
            self.done += count
            if self._callback is not None:
                self._callback(self.done, self._total)


def worker_count(chunks: int) -> int:
    """Threads for that many chunks: the cores this process may use."""
    return max(1, min(len(os.sched_getaffinity(0)), chunks, _MAX_WORKERS))


class ChunkHashing:
    """The chunk table of a file while it is being made: helper threads begin at once, `table` lends a hand and waits.

    Args:
        descriptor: An open regular file, borrowed; its position is neither used nor moved.
        path: For messages.
        size: Bytes that the file must have.
    """

    def __init__(self, descriptor: int, path: str, size: int) -> None:
        self._descriptor, self._path, self._size = descriptor, path, size
        self._count = -(-size // CHUNK_BYTES)
        self._digests = bytearray(self._count * DIGEST_BYTES)
        self._indices = itertools.count()
        self._failures: list[BaseException] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._meter: Meter | None = None
        self._unreported = 0
        # plain threads, the caller's among them: a pool would bring `logging` along, which light verbs do without
        helpers = range(worker_count(self._count) - 1)
        self._helpers = [threading.Thread(target=self._work, name="sealhost-verify") for _ in helpers]
        for helper in self._helpers:
            helper.start()

    def table(self, meter: Meter) -> bytes:
        """Hashes what is left, together with the helpers; called once.

        Args:
            meter: Is told of each chunk; those that were hashed before this call count as one.

        Returns:
            The raw SHA-256 of each chunk, joined.

        Raises:
            SealError: E_SIZE if the file is shorter or longer than `size`.
            OSError: From reading.
        """
        with self._lock:
            self._meter = meter
        if self._unreported:
            meter.advance(self._unreported)
        self._work()
        self._join()
        if self._failures:
            raise self._failures[0]
        if os.fstat(self._descriptor).st_size != self._size:
            raise size_changed(self._path, self._size)
        return bytes(self._digests)

    def stop(self) -> None:
        """Waits for the helpers, who leave the rest; the descriptor is the caller's again. Idempotent."""
        self._stopped = True
        self._join()

    def _join(self) -> None:
        for helper in self._helpers:
            helper.join()

    def _work(self) -> None:
        try:
            with _buffer(min(CHUNK_BYTES, self._size)) as memory, memoryview(memory) as chunks:
                while (index := next(self._indices)) < self._count and not self._failures and not self._stopped:
                    start = index * CHUNK_BYTES
                    length = min(CHUNK_BYTES, self._size - start)
                    with chunks[:length] as chunk:
                        read_chunk(self._descriptor, self._path, self._size, start, chunk)
                        digest = hashlib.sha256(chunk).digest()
                    self._digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = digest
                    self._report(length)
        except BaseException as error:  # noqa: BLE001 — raised by `table`, also Ctrl-C, after everybody has stopped
            self._failures.append(error)

    def _report(self, length: int) -> None:
        with self._lock:
            meter = self._meter
            if meter is None:
                self._unreported += length
        if meter is not None:
            meter.advance(length)


def _buffer(size: int) -> mmap.mmap:
    """Memory of at least `size` bytes, whose pages are there at once: faults would cost as much as half a chunk."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _POPULATED)


def chunk_table(descriptor: int, path: str, size: int, meter: Meter) -> bytes:
    """Hashes a file chunk by chunk and keeps nothing of it; see ChunkHashing."""
    return ChunkHashing(descriptor, path, size).table(meter)


def read_chunk(descriptor: int, path: str, size: int, start: int, chunk: memoryview) -> None:
    """Fills `chunk` from the file at `start`.

    Raises:
        SealError: E_SIZE if the file ends within it; `path` and `size` are for the message.
        OSError: From reading.
    """
    done = 0
    while done < len(chunk):
        with chunk[done:] as rest:
            got = os.preadv(descriptor, [rest], start + done)
        if got == 0:
            raise size_changed(path, size)
        done += got


def flat_digest(descriptor: int, path: str, size: int) -> str:
    """SHA-256 of a whole file, hex, in one pass on one core.

    Raises:
        SealError: E_SIZE if the file is shorter than `size`.
        OSError: From reading.
    """
    digest = hashlib.sha256()
    start = 0
    with memoryview(bytearray(min(CHUNK_BYTES, size))) as piece:
        while start < size:
            got = os.preadv(descriptor, [piece[: size - start]], start)
            if got == 0:
                raise size_changed(path, size)
            digest.update(piece[:got])
            start += got
    return digest.hexdigest()
