"""Changes of files that crashes and other processes cannot split (README clauses 9.1, 9.4, 10.8 and 11.4).

* `replace_file`: after any crash either the old file or the new one is there, whole.
* `write_new_file`: after any crash the file is there, whole, or nothing is.
* `new_folder`: a folder is there with all that it holds, or not at all; what killed writers left is removed.
* `locked_folder`: of two processes that read, decide and write, the second one reads what the first has written.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .errors import Code, SealError

if TYPE_CHECKING:
    from collections.abc import Iterator

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
                with contextlib.suppress(OSError):  # a folder, or another user's: in nobody's way
                    left.unlink()  # nobody else is writing it: whoever writes holds the lock
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Takes a folder's lock if nobody holds it.

    Raises:
        SealError: E_IO where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        problem = f"cannot lock the folder: {error.strerror}"
        raise SealError(Code.IO, "folder", problem, "use a file system that has locks") from error
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


def write_new_file(path: Path, data: bytes, *, mode: int) -> None:
    """Makes a file that must not be there yet: whole, durable, with its final mode from the first byte on.

    It gets its name when it is complete, so that who is killed leaves nothing. Where a file system has no files without
    a name, it is a temporary sibling until then.

    Raises:
        SealError: E_USAGE if it exists, E_IO.
    """
    with _refusals(path):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _link_new(folder, path, data, mode)
            os.fsync(folder)
        finally:
            os.close(folder)


def check_free(path: Path) -> None:
    """Accepts by returning that a new file could be made there now; for who has something else to do first.

    Raises:
        SealError: as `write_new_file`.
    """
    with _refusals(path):
        os.close(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        if os.path.lexists(path):
            raise FileExistsError
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        problem = "expected a path that is free, got an existing file"
        raise SealError(Code.USAGE, str(path), problem, "choose another name; nothing was overwritten") from error
    except OSError as error:
        raise SealError(
            Code.IO, str(path), f"cannot write: {error.strerror}", "check the folder and its rights"
        ) from error


def _link_new(folder: int, path: Path, data: bytes, mode: int) -> None:
    if os.path.lexists(path):
        raise FileExistsError
    try:
        _link_unnamed(folder, path.name, data, mode)
    except FileExistsError:
        raise
    except OSError:  # no files without a name here, or no /proc to name them by; whatever else is wrong shows again
        replace_file(path, data, mode=mode)  # who takes the name in this very moment loses it


def _link_unnamed(folder: int, name: str, data: bytes, mode: int) -> None:
    descriptor = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
        # linkat follows the link only where a folder's descriptor is given
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)


_TEMPORARY_FOLDER: Final = ".tmp"
_PREFIX_CHARACTERS: Final = 64
"""Characters of a folder's name in that of its temporary sibling: all of it could be too long."""


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary sibling of `path`, to be filled and renamed to it; gone at the end if it was not.

    Whoever makes one holds its lock, so the next one sees which of them nobody fills any more.

    Raises:
        OSError: from making it.
    """
    import shutil  # noqa: PLC0415 — verifiers make no folders
    import tempfile  # noqa: PLC0415

    prefix = f".{path.name[:_PREFIX_CHARACTERS]}."
    for left in _abandoned(path.parent, prefix):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=_TEMPORARY_FOLDER, dir=path.parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(SealError):  # where there are no locks nothing is removed either
            _try_lock(descriptor)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _abandoned(parent: Path, prefix: str) -> list[Path]:
    """Folders of ours that were begun by somebody who is no more."""
    form = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}" + re.escape(_TEMPORARY_FOLDER))
    try:
        return [one for one in parent.iterdir() if form.fullmatch(one.name) and _is_abandoned(one)]
    except OSError:  # who may not look may write all the same
        return []


def _is_abandoned(folder: Path) -> bool:
    with contextlib.suppress(OSError, SealError), contextlib.ExitStack() as stack:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        # an empty one may be about to be locked; it harms nobody
        is_ours = os.fstat(descriptor).st_uid == os.geteuid()
        return is_ours and any(folder.iterdir()) and _try_lock(descriptor)
    return False


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, none of which group or others may write (clause 5.4), whatever the umask.

    Raises:
        OSError: from making them.
    """
    if not path.parent.exists():
        make_folder(path.parent)
    path.mkdir(mode=0o755, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes a folder's entries durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
