"""Reads a file in 4 MiB chunks on all cores and hashes each from the buffer it was read into (clauses 6.7, 7.2).

The table of digests is what both sides need: the packer writes it, the verifier compares it with the signed one.
Hashing may begin before anybody knows what the table should be (see ahead): a digest of unknown bytes harms nobody.
Memory is one chunk for each worker, or what the bytes will be used from (see weights).

Bytes moved here (apart spares the copy): each byte is copied once from the page cache and read once by SHA-256; both
release the GIL, so workers are plain threads. A chunk is read by one call and hashed by one: smaller pieces would stay
in a nearer cache, but measured no faster (SHA-256 is slower than the last-level cache), and each call waits for the
GIL, up to 5 ms when somebody else computes in Python.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from .errors import Code, SealError
from .limits import CHUNK_BYTES, DIGEST_BYTES
from .source import size_changed
from .system import POPULATED, worker_count

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_RESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000) if sys.platform == "linux" else 0
"""The map of weights that are consumed piece by piece may be larger than the memory there is."""

_EARLY_BYTES: Final = 1 << 30
"""Bytes that are read before anybody asks for the first: what one core hashes while a verb imports its compiler and
sandbox."""


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


class ChunkHashing:
    """The chunk table of a file while it is being made: helper threads begin at once, `table` lends a hand and waits.

    Args:
        descriptor: An open regular file, borrowed; its position is neither used nor moved.
        path: For messages.
        size: Bytes that the file must have.
        memory: Where the file's bytes are put and stay; None: they are not kept.
        most: Chunks to hash at most, from the first on; None: all. For one that is stopped, not asked for its table.

    Attributes:
        descriptor: The same.
        memory: The same.
        seconds: Processor time of reading and hashing, of those who have ended.
    """

    def __init__(
        self, descriptor: int, path: str, size: int, *, memory: mmap.mmap | None = None, most: int | None = None
    ) -> None:
        self.descriptor, self.memory = descriptor, memory
        self._path, self._size = path, size
        self._count = min(-(-size // CHUNK_BYTES), most if most is not None else sys.maxsize)
        self._digests = bytearray(self._count * DIGEST_BYTES)
        self._done = bytearray(self._count)
        self.seconds = 0.0
        self._indices = itertools.count()
        self._failures: list[BaseException] = []
        self._stopped = False
        self._lock = threading.Lock()
        self._meter: Meter | None = None
        self._unreported = 0
        # plain threads, the caller's among them: a pool would bring `logging` along, which light verbs do without
        self._helpers: list[threading.Thread] = []
        with contextlib.suppress(RuntimeError):  # no more threads than the system gives: `table` needs none
            for _ in range(worker_count(self._count) - 1):
                helper = threading.Thread(target=self._work, name="sealhost-verify")
                helper.start()
                self._helpers.append(helper)

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
        if os.fstat(self.descriptor).st_size != self._size:
            raise size_changed(self._path, self._size)
        return bytes(self._digests)

    def stop(self) -> dict[int, bytes]:
        """Waits for the helpers, who leave the rest; descriptor and memory are the caller's again. Idempotent.

        Returns:
            The digests of what was hashed, by the chunks' indices.
        """
        self._stopped = True
        self._join()
        done = (index for index in range(self._count) if self._done[index])
        return {index: bytes(self._digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]) for index in done}

    def _join(self) -> None:
        for helper in self._helpers:
            helper.join()

    def _work(self) -> None:
        began = time.thread_time()
        try:
            with self._place() as memory, memoryview(memory) as chunks:
                while (index := next(self._indices)) < self._count and not self._failures and not self._stopped:
                    start = index * CHUNK_BYTES
                    length = min(CHUNK_BYTES, self._size - start)
                    at = start if self.memory is not None else 0
                    with chunks[at : at + length] as chunk:
                        read_chunk(self.descriptor, self._path, self._size, start, chunk)
                        digest = hashlib.sha256(chunk).digest()
                    self._digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = digest
                    self._done[index] = True
                    self._report(length)
        except BaseException as error:  # noqa: BLE001 — raised by `table`, also Ctrl-C, after everybody has stopped
            self._failures.append(error)
        with self._lock:
            self.seconds += time.thread_time() - began

    def _place(self) -> contextlib.AbstractContextManager[mmap.mmap]:
        """Memory that a worker reads into."""
        if self.memory is not None:
            return contextlib.nullcontext(self.memory)
        return _buffer(min(CHUNK_BYTES, self._size))

    def _report(self, length: int) -> None:
        with self._lock:
            meter = self._meter
            if meter is None:
                self._unreported += length
        if meter is not None:
            meter.advance(length)


def _buffer(size: int) -> mmap.mmap:
    """Memory of at least `size` bytes, whose pages are there at once: faults would cost as much as half a chunk."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | POPULATED)


def anonymous_memory(size: int, *, reserve: bool) -> mmap.mmap:
    """Private memory of exactly `size` bytes for weights, in huge pages where the system has them.

    Args:
        size: At least 1.
        reserve: Whether the system must have all of it now.

    Raises:
        SealError: E_IO if there is no room.
    """
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0 if reserve else _NO_RESERVE)
        memory = mmap.mmap(-1, size, flags=flags)
    except OSError as error:
        problem = f"expected {size} bytes of free memory for the weights, got none"
        raise SealError(Code.IO, "weights", problem, "free memory or take a smaller model") from error
    with contextlib.suppress(OSError):  # not configured in this kernel: only slower
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def hash_early(descriptor: int, path: str, size: int) -> ChunkHashing:
    """Begins to read and hash weights into memory of their own, on all cores but one, before anybody asks for them.

    Raises:
        SealError: E_IO if there is no room for them.
    """
    return ChunkHashing(
        descriptor, path, size, memory=anonymous_memory(size, reserve=False), most=_EARLY_BYTES // CHUNK_BYTES
    )


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
