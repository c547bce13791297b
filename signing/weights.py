"""The weights of a bundle: memory whose bytes can be had only after their chunk was hashed and found right.

Rules (README chapters 6 and 7)
* A chunk is read once into private anonymous memory, hashed there, and compared with the signed table; `view` is the
  only way to its bytes and waits for that. A map of the file would show later writes and raise SIGBUS when it is cut.
* Worker threads read; both reading and hashing release the GIL, so they run beside whoever consumes the bytes. Until
  the first byte is asked for somebody still imports and parses, on one core: only the others read then.
* The first refusal is every later call's answer: nothing more comes out.

Example:
    with contextlib.closing(weights):
        tensor = weights.view(start, stop)  # waits, or raises
        weights.release(0, stop)
        weights.finish()  # only now does the load count
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from .chunks import anonymous_memory, hash_early, read_chunk
from .comparison import changed, chunk_change, file_change
from .errors import Code, SealError
from .hashing import EachSha256, check_sha256
from .limits import CHUNK_BYTES, DIGEST_BYTES
from .source import size_changed
from .system import worker_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future, ThreadPoolExecutor

    from .chunks import ChunkHashing, Meter
    from .hashing import Sha256

Reading = Literal["whole", "ahead", "lazy"]
"""When weights are read and checked (clause 7.4): all before `verify` returns; a stretch ahead of who consumes them;
each chunk when it is first touched."""

_AHEAD_BYTES: Final = 128 << 20
"""Bytes that are read ahead of the furthest that was asked for. More would be read into ever new pages, where now those
that were released come back."""
_AHEAD_CHUNKS_PER_WORKER: Final = 4
"""The least that keeps each of many workers busy while a tensor is repacked."""

_AHEAD_MOST_BYTES: Final = 512 << 20
"""The most for workers that hash several chunks together."""

_UNREAD, _KEPT, _DROPPED = range(3)
"""What became of a chunk: not checked yet; right, and in memory; right, and not kept."""


class SignedWeights(NamedTuple):
    """What the manifest says about the weights.

    Attributes:
        path: For messages.
        size: Bytes.
        table: Raw SHA-256 of each chunk, joined.
        flat: Hex SHA-256 of the whole file, if that is to be checked, too.
    """

    path: str
    size: int
    table: bytes
    flat: str | None


class VerifiedWeights:
    """The weights of one verified bundle; close it, for example through `contextlib.closing`.

    Args:
        descriptor: The open file; closed here.
        signed: What it must hold.
        reading: "ahead" and "whole" begin to read at once, "lazy" when asked.
        meter: Is told of each chunk, from worker threads.
        early: Reading and hashing of the same descriptor's file into memory, which was begun before; for "ahead".

    Raises:
        SealError: E_IO if there is no room for them.

    Attributes:
        size: Bytes of the weights.
        seconds: Processor time of reading and hashing so far; it passes beside whoever consumes the bytes.
    """

    def __init__(
        self,
        descriptor: int,
        signed: SignedWeights,
        reading: Reading,
        meter: Meter,
        *,
        early: ChunkHashing | None = None,
    ) -> None:
        try:
            if reading == "ahead":
                early = early or hash_early(descriptor, signed.path, signed.size)
            memory = early.memory if early is not None else None
            self._memory = memory or anonymous_memory(signed.size, reserve=reading == "whole")
        except SealError:
            os.close(descriptor)
            raise
        self._early = early
        self._close_file = weakref.finalize(self, _end, descriptor, early)
        self._descriptor = descriptor
        self._signed = signed
        self._meter = meter
        self.size = signed.size
        self.seconds = 0.0
        self._hashed: dict[int, bytes] = {}
        self._bytes = memoryview(self._memory)
        count = -(-signed.size // CHUNK_BYTES)
        workers = worker_count(count)
        self._states = bytearray(count)
        self._lazy = reading == "lazy"
        self._workers = workers
        self._ahead = ahead_chunks(workers, 1)
        self._begun = 0  # chunks before it were asked of the workers; lazy weights do not count
        self._pending: dict[int, Future[None]] = {}
        self._refusal: BaseException | None = None
        self._finished = self._closed = False
        self._sha256: Sha256 = EachSha256()
        self._flat = hashlib.sha256() if signed.flat is not None else None
        self._absorbed = 0
        self._lock = threading.Condition()
        self._pool = _pool(workers)
        if reading == "whole":
            self._ask(range(0))

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`, once every chunk that covers them was found right.

        Args:
            start: First byte.
            stop: One past the last.

        Returns:
            Read-only, no copy. Shape: (stop - start,), uint8.

        Raises:
            SealError: E_DIGEST, E_SIZE, E_IO, for these bytes or for others that were read before.
            ValueError: outside of the weights, or they were finished without these, or closed.
        """
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"expected a range within {self.size} bytes of weights, got {start} to {stop}")
        chunks = range(start // CHUNK_BYTES, -(-stop // CHUNK_BYTES) if start < stop else 0)
        for future in self._ask(chunks):
            future.result()
        if self._closed or self._states.count(_KEPT, chunks.start, chunks.stop) != len(chunks):
            raise ValueError("expected weights that are held, got finished or closed ones")
        return self._bytes[start:stop].toreadonly()

    def hash_with(self, sha256: Sha256) -> None:
        """Has the chunks that no worker has begun hashed by a faster SHA-256, as many together as it takes.

        Args:
            sha256: Workers call it with buffers of up to a chunk.

        Raises:
            ValueError: it is no SHA-256.
        """
        check_sha256(sha256)
        with self._lock:
            self._sha256, self._ahead = sha256, ahead_chunks(self._workers, sha256.width)

    def release(self, start: int, stop: int) -> None:
        """Gives the whole pages inside [start, stop) back to the system; they read as zeros from then on.

        Args:
            start: First byte that the caller has consumed.
            stop: One past the last such byte.
        """
        if self._closed:
            return
        first = -(-max(start, 0) // mmap.PAGESIZE) * mmap.PAGESIZE
        end = min(stop, self.size)
        # the last page may be partly behind the file's end: it belongs to nobody else
        last = end if end == self.size else end // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first:
            self._memory.madvise(mmap.MADV_DONTNEED, first, last - first)

    def finish(self) -> None:
        """Checks what nobody has asked for and keeps none of it; then ends the reading. Idempotent.

        Only when it has returned does a load count (clause 7.4). Lazy weights check no further chunk.

        Raises:
            SealError: E_DIGEST, E_SIZE, E_IO.
            ValueError: they were closed, so nobody knows.
        """
        if self._closed:
            raise ValueError("expected weights that are still open, got closed ones")
        self._finished = True
        for index in range(len(self._states)):
            for future in self._ask(range(index, index + 1)):
                future.result()
        if self._close_file.alive:
            if os.fstat(self._descriptor).st_size != self.size:
                raise size_changed(self._signed.path, self.size)
            if self._flat is not None and (found := self._flat.hexdigest()) != self._signed.flat:
                raise changed([file_change(self._signed.path, str(self._signed.flat), found, what="flat sha256")])
        self._stop()

    def close(self) -> None:
        """Stops reading and drops the memory; views that others still hold keep it alive until they go. Idempotent."""
        self._closed = True
        self._stop()
        with contextlib.suppress(BufferError):
            self._bytes.release()
            self._memory.close()

    def _stop(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._close_file()

    def _ask(self, chunks: range) -> list[Future[None]]:
        """Has these chunks read, unless lazy with all before and some behind them; answers what to wait for."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            if self._closed or (self._lazy and self._finished):
                return []
            self._end_early()
            # in whole groups: whoever asks for one chunk after the other would get each on its own
            width = self._sha256.width
            end = min(-(-(chunks.stop + self._ahead) // width) * width, len(self._states))
            wanted = chunks if self._lazy else range(self._begun, end)
            new = [index for index in wanted if self._states[index] == _UNREAD and index not in self._pending]
            for together in self._groups(new, width):
                self._pending |= dict.fromkeys(together, self._pool.submit(self._check, together))
            self._begun = max(self._begun, end)
            return [self._pending[index] for index in chunks if index in self._pending]

    def _groups(self, chunks: Sequence[int], most: int) -> Iterator[Sequence[int]]:
        """So many at most, in order; those that were hashed before and need no more reading are by themselves."""
        for _, run in itertools.groupby(chunks, self._hashed.__contains__):
            alike = list(run)
            yield from (alike[at : at + most] for at in range(0, len(alike), most))

    def _end_early(self) -> None:
        """Takes over what was read before anybody asked; under the lock: no worker may share memory with a helper."""
        if self._early is not None:
            self._hashed, self.seconds = self._early.stop(), self._early.seconds
            self._early = None

    def _check(self, indices: Sequence[int]) -> None:
        """Decides on a few chunks, on a worker; what goes wrong is every later call's answer."""
        keep, began = not self._finished, time.thread_time()
        try:
            self._read(indices, keep=keep)
        except OSError as error:
            raise self._refuse(read_error(self._signed.path, error)) from error
        except BaseException as error:
            self._refuse(error)
            raise
        with self._lock:
            self.seconds += time.thread_time() - began
            for index in indices:
                self._states[index] = _KEPT if keep else _DROPPED
                del self._pending[index]

    def _read(self, indices: Sequence[int], *, keep: bool) -> None:
        """Reads, hashes and compares these chunks."""
        if self._refusal is not None:
            raise self._refusal
        with contextlib.ExitStack() as views:
            chunks = {}
            for index in indices:
                start, stop = index * CHUNK_BYTES, min((index + 1) * CHUNK_BYTES, self.size)
                chunks[index] = views.enter_context(self._bytes[start:stop])
                if index not in self._hashed:
                    read_chunk(self._descriptor, self._signed.path, self.size, start, chunks[index])
            fresh = [index for index in indices if index not in self._hashed]
            digests = dict(zip(fresh, self._sha256([chunks[index] for index in fresh]), strict=True))
            for index, chunk in chunks.items():
                found = digests.get(index) or self._hashed[index]
                expected = self._signed.table[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
                if found != expected:
                    raise changed([chunk_change(self._signed.path, index, expected, found)])
                self._absorb(index, chunk)
                if not keep:
                    self.release(index * CHUNK_BYTES, index * CHUNK_BYTES + len(chunk))
                self._meter.advance(len(chunk))

    def _refuse(self, error: BaseException) -> BaseException:
        """Remembers the first refusal and wakes whom it concerns; answers this one."""
        with self._lock:
            self._refusal = self._refusal or error
            self._lock.notify_all()
        return error

    def _absorb(self, index: int, chunk: memoryview) -> None:
        """Adds a chunk to the flat digest, when it is its turn.

        Workers begin chunks in order, so the one whose turn it is never waits for a worker.
        """
        if self._flat is None:
            return
        with self._lock:
            self._lock.wait_for(lambda: self._absorbed == index or self._refusal is not None)
            if self._refusal is not None:
                raise self._refusal
        self._flat.update(chunk)
        with self._lock:
            self._absorbed += 1
            self._lock.notify_all()


def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that begin what they are given in its order."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 — brings `logging`, which an audit does without

    return ThreadPoolExecutor(workers, thread_name_prefix="sealhost-verify")


def ahead_chunks(workers: int, width: int) -> int:
    """Chunks that are read ahead of the furthest byte that was asked for, by workers that take so many together."""
    together = min(workers * width, _AHEAD_MOST_BYTES // CHUNK_BYTES)
    return max(_AHEAD_BYTES // CHUNK_BYTES, workers * _AHEAD_CHUNKS_PER_WORKER, together)


def _end(descriptor: int, early: ChunkHashing | None) -> None:
    if early is not None:
        early.stop()
    os.close(descriptor)


def read_error(path: str, error: OSError) -> SealError:
    """The refusal of a file that cannot be read."""
    return SealError(Code.IO, path, f"cannot read: {error.strerror}", "check the disk")
