"""Reads a file in 4 MiB chunks on all cores and hashes each from the buffer it was read into (clauses 6.7, 7.2).

The table of digests is what both sides need: the packer writes it, the verifier compares it with the signed one.
Memory is either the caller's (the weights that will be used) or one chunk for each worker.

Bytes moved: each byte is copied once from the page cache and read once by SHA-256; both release the GIL, so
workers are plain threads.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from .limits import CHUNK_BYTES, DIGEST_BYTES
from .source import size_changed

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

_PIECE_BYTES: Final = 256 << 10
"""Bytes read and then hashed at a time: they are still in the core's cache when SHA-256 comes to them."""

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


def chunk_table(descriptor: int, path: str, size: int, meter: Meter, into: mmap.mmap | None = None) -> bytes:
    """Hashes a file chunk by chunk.

    Args:
        descriptor: An open regular file; its position is neither used nor moved.
        path: For messages.
        size: Bytes that the file must have.
        meter: Is told of each chunk.
        into: Memory of `size` bytes that receives the file; the digests are of what stands there.

    Returns:
        The raw SHA-256 of each chunk, joined.

    Raises:
        SealError: E_SIZE if the file is shorter or longer than `size`.
        OSError: From reading.
    """
    count = -(-size // CHUNK_BYTES)
    table = bytearray(count * DIGEST_BYTES)
    indices = itertools.count()
    stop = threading.Event()

    def work() -> None:
        scratch = bytearray(CHUNK_BYTES) if into is None else into
        with memoryview(scratch) as memory:
            while (index := next(indices)) < count and not stop.is_set():
                start = index * CHUNK_BYTES
                length = min(CHUNK_BYTES, size - start)
                offset = start if into is not None else 0
                with memory[offset : offset + length] as chunk:
                    table[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = _read_chunk(
                        descriptor, path, size, start, chunk
                    )
                meter.advance(length)

    def work_or_stop() -> None:
        try:
            work()
        except BaseException:
            stop.set()
            raise

    workers = worker_count(count)
    with ThreadPoolExecutor(workers, thread_name_prefix="sealhost-verify") as pool:
        futures = [pool.submit(work_or_stop) for _ in range(workers)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.set()  # also on Ctrl-C: leaving the block waits for the workers
            raise
    if os.fstat(descriptor).st_size != size:
        raise size_changed(path, size)
    return bytes(table)


def _read_chunk(descriptor: int, path: str, size: int, start: int, chunk: memoryview) -> bytes:
    """Fills `chunk` from the file at `start` and returns its digest."""
    digest = hashlib.sha256()
    done = 0
    while done < len(chunk):
        with chunk[done : done + _PIECE_BYTES] as piece:
            got = os.preadv(descriptor, [piece], start + done)
            if got == 0:
                raise size_changed(path, size)
            digest.update(piece[:got])
            done += got
    return digest.digest()


def flat_digest(descriptor: int, path: str, size: int) -> str:
    """SHA-256 of a whole file, hex, in one pass on one core.

    Raises:
        SealError: E_SIZE if the file is shorter than `size`.
        OSError: From reading.
    """
    digest = hashlib.sha256()
    start = 0
    with memoryview(bytearray(_PIECE_BYTES)) as piece:
        while start < size:
            got = os.preadv(descriptor, [piece[: min(_PIECE_BYTES, size - start)]], start)
            if got == 0:
                raise size_changed(path, size)
            digest.update(piece[:got])
            start += got
    return digest.hexdigest()
