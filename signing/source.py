"""A bundle's directory, opened once; every file is reached through its descriptor (README clauses 3.6 to 3.8).

* No symbolic link is ever followed, not even to the root; every component is opened by itself.
* Only regular files with one link are opened, and never in a way that waits (a FIFO cannot hang us).
* What was opened is what is read: size and type come from the descriptor, not from the path.

Example:
    with Source(root) as source:
        data = source.read("manifest.json", MAX_MANIFEST_BYTES)
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from .errors import Code, SealError
from .limits import MAX_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FOLDER: Final = _OPEN | os.O_DIRECTORY
_NO_PLAIN_FILE: Final = frozenset({errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENODEV})
_REMEDY_TYPE: Final = "a bundle holds plain files with one name each: fetch it again, copying links as files"

Kind = Literal["file", "folder", "symlink", "other"]


class Found(NamedTuple):
    """What stands at a path on disk.

    Attributes:
        kind: Its type; a link is never followed.
        size: Bytes of a file.
        links: Names that share the file.
    """

    kind: Kind
    size: int
    links: int


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def filetype_error(path: str, got: str) -> SealError:
    """The refusal of anything but a regular file with one link."""
    return SealError(Code.FILETYPE, path, f"expected a regular file with one link, got {got}", _REMEDY_TYPE)


def _refuse(path: str, error: OSError) -> SealError:
    """What an operating system error means for a path inside the bundle."""
    if isinstance(error, FileNotFoundError):
        return SealError(Code.MISSING, path, "expected a file, got nothing", "fetch the bundle again")
    if error.errno in _NO_PLAIN_FILE:
        return filetype_error(path, "a symbolic link or a special file")
    return SealError(Code.IO, path, f"cannot read: {error.strerror}", "check the disk and the rights on the bundle")


class Source:
    """An open bundle directory; close it or use it as a context manager.

    Raises:
        SealError: E_IO if there is nothing at root, E_FILETYPE if it is no directory or a symbolic link.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, root: Path) -> None:
        try:
            self._descriptor = os.open(root, _OPEN_FOLDER)
        except ValueError as error:  # a NUL in the path
            raise SealError(Code.IO, str(root), "expected a path, got a NUL in it", "check the path") from error
        except OSError as error:
            if error.errno in _NO_PLAIN_FILE:
                problem = "expected a directory, got a symbolic link or a file"
                raise SealError(Code.FILETYPE, str(root), problem, "give the bundle's own directory") from error
            problem = f"cannot open: {error.strerror}"
            raise SealError(Code.IO, str(root), problem, "check the path of the bundle") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the directory."""
        os.close(self._descriptor)

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder below the root; "" is the root.

        Raises:
            SealError: E_MISSING, E_FILETYPE, E_IO.
        """
        descriptor = os.dup(self._descriptor)
        try:
            for component in path.split("/") if path else ():
                inner = os.open(component, _OPEN_FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        except OSError as error:
            os.close(descriptor)
            raise _refuse(path, error) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def open(self, path: str) -> int:
        """A descriptor of a regular file with one link; the caller closes it.

        Raises:
            SealError: E_MISSING, E_FILETYPE, E_IO.
        """
        parent, _, name = path.rpartition("/")
        with self.folder(parent) as folder:
            try:
                # looked at before it is opened: opening a device can have effects
                check_plain(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
                descriptor = os.open(name, _OPEN, dir_fd=folder)
            except OSError as error:
                raise _refuse(path, error) from error
        try:
            check_plain(path, os.fstat(descriptor))
        except SealError:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, path: str, most: int) -> bytes:
        """The whole of a small file.

        Args:
            path: Path below the root.
            most: Bytes that the file may have.

        Raises:
            SealError: E_SIZE (longer than `most`, or changed while it was read), E_MISSING, E_FILETYPE, E_IO.
        """
        descriptor = self.open(path)
        try:
            size = os.fstat(descriptor).st_size
            if size > most:
                raise SealError(Code.SIZE, path, f"expected at most {most} bytes, got {size}", "fetch the bundle again")
            # one byte more than is there, so that growth shows
            data = _read_up_to(descriptor, size + 1)
        except OSError as error:
            raise _refuse(path, error) from error
        finally:
            os.close(descriptor)
        if len(data) != size:
            raise size_changed(path, size)
        return data

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none if the folder is not there.

        Raises:
            SealError: E_FILETYPE, E_IO, E_UNLISTED for more than MAX_ENTRIES.
        """
        try:
            with self.folder(folder) as descriptor:
                return sorted(name for name, _ in _entries(descriptor, folder, MAX_ENTRIES))
        except SealError as error:
            if error.code is Code.MISSING:
                return []
            raise

    def listing(self, folders: Collection[str]) -> dict[str, Found]:
        """Everything in the root and in the named folders; other folders are listed but not entered.

        Raises:
            SealError: E_IO, E_UNLISTED for more than MAX_ENTRIES.
        """
        found: dict[str, Found] = {}
        waiting = [""]
        while waiting:
            path = waiting.pop()
            with self.folder(path) as descriptor:
                for name, status in _entries(descriptor, path, MAX_ENTRIES - len(found)):
                    full = f"{path}/{name}" if path else name
                    found[full] = Found(_kind(status.st_mode), status.st_size, status.st_nlink)
                    if full in folders and found[full].kind == "folder":
                        waiting.append(full)
        return found


def check_plain(path: str, status: os.stat_result) -> None:
    """Accepts by returning that what stands at a path is a regular file with one link.

    Raises:
        SealError: E_FILETYPE.
    """
    kind = _kind(status.st_mode)
    if kind != "file":
        raise filetype_error(path, f"a {kind}" if kind != "other" else "a special file")
    if status.st_nlink != 1:
        raise filetype_error(path, f"a file with {status.st_nlink} links")


def _entries(descriptor: int, folder: str, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """Name and status of each entry of an open folder."""
    try:
        with os.scandir(descriptor) as entries:
            for entry in islice(entries, most):
                yield entry.name, entry.stat(follow_symlinks=False)
            if next(entries, None) is not None:
                problem = f"expected at most {MAX_ENTRIES} entries in a bundle, got more"
                raise SealError(Code.UNLISTED, folder or ".", problem, "remove what does not belong to the bundle")
    except OSError as error:
        raise _refuse(folder or ".", error) from error


def _read_up_to(descriptor: int, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while left and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def size_changed(path: str, expected: int) -> SealError:
    """The refusal of a file that grows or shrinks under the reader."""
    problem = f"expected {expected} bytes, got another size while reading: somebody is writing to it"
    return SealError(Code.SIZE, path, problem, "stop what writes to the bundle and fetch it again")
