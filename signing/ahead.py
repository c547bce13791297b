"""Begins to hash a bundle's weights before anything of the bundle was looked at (README clause 7.3).

Hashing takes the cores, reading the manifest and checking signatures takes one of them for a moment, and a process that
has only begun imports what it needs for both: so the hashing need not wait. What is hashed is a guess, and a wrong one
costs time alone: nothing comes out but digests, and with `keep` the memory whose digests they are, and the verifier
takes those only if they are of the very file that it opened itself. It compares them with the signed ones as it does
with its own.

Example:
    with HashedAhead(root) as ahead:
        trust = DirectoryTrust(keys)
        audit(root, trust, ahead=ahead)
"""

from __future__ import annotations

import os
import stat
import time

from .apart import HashedApart
from .limits import MAX_WEIGHTS_BYTES
from .names import WEIGHTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Self

    from .chunks import ChunkHashing

_THREADS: Final = "/proc/self/task"
"""A folder for each thread, those of native libraries among them."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HashedAhead:
    """Weights that are being hashed by other processes, or helper threads; close it, or use it as a context manager.

    Args:
        root: The bundle's directory; None: nothing begins. One that cannot be opened, or whose weights cannot or are
            too large, is left for `audit` or `verify` to refuse.
        keep: For weights that will be used: for `verify` with "ahead", which goes on where this came to.

    Attributes:
        began: When it began, by `time.perf_counter`.
    """

    def __init__(self, root: str | os.PathLike[str] | None, *, keep: bool = False) -> None:
        self.began = time.perf_counter()
        self._hashing: ChunkHashing | HashedApart | None = None
        self._descriptor = -1 if root is None else _opened(os.path.join(root, WEIGHTS))  # noqa: PTH118 — see system.py
        if self._descriptor >= 0:
            self._size = os.fstat(self._descriptor).st_size
            if 0 < self._size <= MAX_WEIGHTS_BYTES:  # a sparse file costs its author nothing, and us a table
                self._hashing = _begun(self._descriptor, self._size, keep=keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hashing_of(self, descriptor: int, size: int) -> ChunkHashing | HashedApart | None:
        """The hashing of an open file, if that is the file which was begun with and has `size` bytes."""
        if self._hashing is None or size != self._size:
            return None
        same = os.path.sameopenfile(descriptor, self._descriptor)
        return self._hashing if same else None

    def taken(self, descriptor: int, size: int) -> ChunkHashing | None:
        """The same, if its bytes are kept: once, since it and its descriptor are the caller's from then on."""
        hashing = self.hashing_of(descriptor, size)
        if hashing is None or isinstance(hashing, HashedApart) or hashing.memory is None:
            return None
        self._hashing, self._descriptor = None, -1
        return hashing

    def close(self) -> None:
        """Stops the hashing. Idempotent."""
        if self._hashing is not None:
            self._hashing.stop()
            self._hashing = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _opened(path: str) -> int:
    """A descriptor of a plain file, or -1; `Source` opens the one that counts."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # opening a device can have effects
            return -1
        return os.open(path, _OPEN)
    except (OSError, ValueError):
        return -1


def _begun(descriptor: int, size: int, *, keep: bool) -> ChunkHashing | HashedApart | None:
    """The hashing of a file: apart if it can be, since that is faster; None: there is no room for what is kept."""
    if not keep and _alone():  # a fork copies the thread that asks for it, and what others were at stays undone
        try:
            return HashedApart(descriptor, WEIGHTS, size)
        except OSError:
            pass
    from .chunks import ChunkHashing, hash_early  # noqa: PLC0415 — as `system.py` has it
    from .errors import SealError  # noqa: PLC0415 — the same

    try:
        return (hash_early if keep else ChunkHashing)(descriptor, WEIGHTS, size)
    except SealError:
        return None


def _alone() -> bool:
    """Whether this process is known to have one thread."""
    try:
        return len(os.listdir(_THREADS)) == 1  # noqa: PTH208 — as `system.py` has it
    except OSError:
        return False
