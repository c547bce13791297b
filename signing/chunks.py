"""Reads a file in 4 MiB chunks on all cores and hashes each from the buffer it was read into (clauses 6.7, 7.2).

The table of digests is what both sides need: the packer writes it, the verifier compares it with the signed one.
Memory is one chunk for each worker; weights that will be used have their own (see weights).

Bytes moved: each byte is copied once from the page cache and read once by SHA-256; both release the GIL, so
workers are plain threads. A chunk is read by one call and hashed by one: smaller pieces would stay in a nearer cache,
but measured no faster (SHA-256 is slower than the last-level cache), and each call waits for the GIL, up to 5 ms when
somebody else computes in Python.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from typing import TYPE_CHECKING, Final

from .limits import CHUNK_BYTES, DIGEST_BYTES
from .source import size_changed

if TYPE_CHECKING:
    from collections.abc import Callable

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


def chunk_table(descriptor: int, path: str, size: int, meter: Meter) -> bytes:
    """Hashes a file chunk by chunk and keeps nothing of it.

    Args:
        descriptor: An open regular file; its position is neither used nor moved.
        path: For messages.
        size: Bytes that the file must have.
        meter: Is told of each chunk.

    Returns:
        The raw SHA-256 of each chunk, joined.

    Raises:
        SealError: E_SIZE if the file is shorter or longer than `size`.
        OSError: From reading.
    """
    count = -(-size // CHUNK_BYTES)
    table = bytearray(count * DIGEST_BYTES)
    indices = itertools.count()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with memoryview(bytearray(min(CHUNK_BYTES, size))) as memory:
                while (index := next(indices)) < count and not failures:
                    start = index * CHUNK_BYTES
                    length = min(CHUNK_BYTES, size - start)
                    with memory[:length] as chunk:
                        digest = read_chunk(descriptor, path, size, start, chunk)
                    table[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = digest
                    meter.advance(length)
        except BaseException as error:  # noqa: BLE001 — raised below, also Ctrl-C, after everybody has stopped
            failures.append(error)

    # plain threads, and this one among them: a pool would bring `logging` along, which light verbs do without
    helpers = [threading.Thread(target=work, name="sealhost-verify") for _ in range(worker_count(count) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    if os.fstat(descriptor).st_size != size:
        raise size_changed(path, size)
    return bytes(table)


def read_chunk(descriptor: int, path: str, size: int, start: int, chunk: memoryview) -> bytes:
    """Fills `chunk` from the file at `start` and returns the SHA-256 of what stands there now.

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
    return hashlib.sha256(chunk).digest()


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
