"""Hashes a file's chunks in processes of their own, from a map of it (README clause 7.3).

* Reading a file copies it out of the page cache, which costs a seventh of what SHA-256 does; a map has no copy. But who
  touches a map of a file that is cut meanwhile, or whose disk fails, is ended by SIGBUS. So this is done by processes
  that hold nothing else: when one ends otherwise than well, everything is read and hashed again, as a whole and without
  a map, which gives the refusal there is.
* Nothing but digests comes back. They are of bytes that nobody keeps, so a later write changes nothing.
* A process also waits for no other's GIL: the one that began them imports meanwhile.

Tickets  A pipe holds them, 4 bytes each: the first of `_stride` chunks. Whoever is free takes the next, until it is
         at its end.
Told     A byte for each chunk that was hashed; the pipe is at its end when all processes are.

Example:
    hashing = HashedApart(descriptor, "model.gguf", size)  # only while there are no other threads: it forks
    table = hashing.table(meter)
    hashing.stop()
"""

from __future__ import annotations

import hashlib
import mmap
import os
import resource

from .limits import CHUNK_BYTES, DIGEST_BYTES
from .system import POPULATED, worker_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from .chunks import Meter

_MOST_TICKETS: Final = 1024
"""All are written before anybody reads: they fill a page, and a pipe holds that."""
_TICKET_BYTES: Final = 4
_TOLD_AT_ONCE: Final = 4096
"""Chunks of which the caller hears together at most."""


class HashedApart:
    """The chunk table of a file while other processes make it.

    Args:
        descriptor: An open regular file, borrowed; its position is neither used nor moved.
        path: For messages.
        size: Bytes that the file must have, at least 1.

    Raises:
        OSError: There can be no more processes or descriptors.
    """

    def __init__(self, descriptor: int, path: str, size: int) -> None:
        self._descriptor, self._path, self._size = descriptor, path, size
        self._count = -(-size // CHUNK_BYTES)
        self._stride = -(-self._count // _MOST_TICKETS)
        self._digests = mmap.mmap(-1, self._count * DIGEST_BYTES)  # shared with the processes
        self._children: list[int] = []
        self._told = -1
        theirs: list[int] = []
        try:
            theirs.append(self._tickets())
            self._told, tell = os.pipe()
            theirs.append(tell)
            for _ in range(worker_count(self._count)):
                self._children.append(_forked(lambda: self._work(*theirs)))
        except BaseException:
            self.stop()
            raise
        finally:
            for one in theirs:
                os.close(one)

    def table(self, meter: Meter) -> bytes:
        """Waits for the digests; called once.

        Args:
            meter: Is told of each chunk; those that were hashed before this call count as one.

        Returns:
            The raw SHA-256 of each chunk, joined.

        Raises:
            SealError: E_SIZE if the file is shorter or longer than `size`.
            OSError: From reading.
        """
        left = self._size
        while told := len(os.read(self._told, _TOLD_AT_ONCE)):
            counted = min(told * CHUNK_BYTES, left)
            left -= counted
            meter.advance(counted)
        if not self._ended_well() or left:
            from .chunks import Meter, chunk_table  # noqa: PLC0415 — as `system.py` has it, and seldom

            table = chunk_table(self._descriptor, self._path, self._size, Meter(self._size, None))
            meter.advance(left)
            return table
        if os.fstat(self._descriptor).st_size != self._size:
            from .source import size_changed  # noqa: PLC0415 — the same

            raise size_changed(self._path, self._size)
        return bytes(self._digests)

    def stop(self) -> None:
        """Ends the processes; the descriptor is the caller's again. Idempotent."""
        from signal import SIGKILL  # noqa: PLC0415 — the same

        for child in filter(_is_ours, self._children):
            os.kill(child, SIGKILL)
        self._ended_well()
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def _ended_well(self) -> bool:
        """Waits for the processes, and forgets them."""
        children, self._children = self._children, []
        ended = [_ended_well(child) for child in children]  # waits for all, even if one did not end well
        return all(ended)

    def _tickets(self) -> int:
        """Where processes read tickets; all are written."""
        tickets, give = os.pipe()
        firsts = range(0, self._count, self._stride)
        os.write(give, b"".join(first.to_bytes(_TICKET_BYTES, "big") for first in firsts))
        os.close(give)
        return tickets

    def _work(self, tickets: int, tell: int) -> None:
        """What a process does."""
        os.close(self._told)  # so that those who tell learn when nobody listens any more
        self._told = -1
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # SIGBUS is no news
        while ticket := os.read(tickets, _TICKET_BYTES):
            first = int.from_bytes(ticket, "big")
            for index in range(first, min(first + self._stride, self._count)):
                self._digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] = self._hash(index)
                os.write(tell, b".")

    def _hash(self, index: int) -> bytes:
        """The digest of a chunk. Here a process may end by SIGBUS."""
        start = index * CHUNK_BYTES
        length = min(CHUNK_BYTES, self._size - start)
        os.posix_fadvise(self._descriptor, start, length, os.POSIX_FADV_WILLNEED)  # in one go, where it is on a disk
        flags = mmap.MAP_SHARED | POPULATED
        with mmap.mmap(self._descriptor, length, flags=flags, prot=mmap.PROT_READ, offset=start) as chunk:
            return hashlib.sha256(chunk).digest()


def _is_ours(child: int) -> bool:
    """Whether a process has not been forgotten: where whoever began us ignores SIGCHLD its number may be another's."""
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _ended_well(child: int) -> bool:
    """Waits for a process; one that the system has forgotten by itself is not known to have ended well."""
    try:
        return os.waitpid(child, 0)[1] == 0
    except ChildProcessError:
        return False


def _forked(work: Callable[[], None]) -> int:
    """A process that does this and ends, well if it could."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
