"""Changes of files that crashes and other processes cannot split (README clauses 10.8 and 11.4).

* `replace_file`: after any crash either the old file or the new one is there, whole.
* `locked_folder`: of two processes that read, decide and write, the second one reads what the first has written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from .errors import Code, SealError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_PATIENCE_S: Final = 10.0
"""Seconds to wait for another process's update, which takes milliseconds."""
_LOCK_POLL_S: Final = 0.02
_NEW: Final = ".new"


@contextlib.contextmanager
def locked_folder(folder: Path, *names: str) -> Iterator[None]:
    """Holds a folder's lock, which ends with the process if not before.

    Args:
        folder: The folder.
        names: Files that are replaced under this lock; what a killed writer left of them is removed.

    Raises:
        SealError: E_IO if there is no such folder, or another process holds the lock for long.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        problem = f"cannot use the folder: {error.strerror}"
        raise SealError(Code.IO, str(folder), problem, "name a folder of yours") from error
    try:
        deadline = time.monotonic() + LOCK_PATIENCE_S
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                problem = f"expected the lock within {LOCK_PATIENCE_S:.0f} s, got another process holding it"
                raise SealError(Code.IO, str(folder), problem, "end the other sealhost, then try again")
            time.sleep(_LOCK_POLL_S)
        for name in names:
            for left in folder.glob(f".{name}.*{_NEW}"):
                left.unlink(missing_ok=True)  # nobody else is writing it: whoever writes holds the lock
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Writes a temporary sibling, syncs it, renames it over `path`, and syncs the folder.

    Args:
        path: File to make or to replace.
        data: All of its bytes.
        mode: Its permissions.

    Raises:
        SealError: E_IO; what stood there before still does, unless the last sync alone failed.
    """
    import tempfile  # noqa: PLC0415 — verifiers write nothing

    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_NEW, dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, path)  # noqa: PTH104 — mkstemp gives text
        temporary = None
        sync_folder(path.parent)
    except OSError as error:
        raise SealError(
            Code.IO, str(path), f"cannot write: {error.strerror}", "check the folder, its rights and the space left"
        ) from error
    finally:
        if temporary is not None:
            os.unlink(temporary)  # noqa: PTH108 — see above


def sync_folder(folder: Path) -> None:
    """Makes a folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
