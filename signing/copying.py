"""Copies a publisher's weights into a bundle without reading them into memory (README clause 9.1)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .errors import Code, SealError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .chunks import Meter

_COPY_BYTES: Final = 64 << 20
"""Bytes copied per system call: often enough for a progress bar."""
_NO_COPY_RANGE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


@dataclass(frozen=True, slots=True)
class Model:
    """An open GGUF file.

    Attributes:
        descriptor: Its descriptor.
        path: For messages.
        size: Bytes.
    """

    descriptor: int
    path: str
    size: int


@contextlib.contextmanager
def open_model(path: Path) -> Iterator[Model]:
    """Opens the publisher's file; links are followed, because download caches are made of them."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SealError(Code.IO, str(path), "expected a GGUF file, got a folder or special file", "check the path")
        yield Model(descriptor, str(path), status.st_size)
    finally:
        os.close(descriptor)


def copy_model(model: Model, target: int, meter: Meter) -> None:
    """Copies without passing the bytes through this process.

    Args:
        model: The open file, at its start.
        target: An open empty file.
        meter: Is told of the bytes copied.

    Raises:
        SealError: E_SIZE if the file is cut meanwhile.
    """
    copy: Callable[[int, int, int], int] = os.copy_file_range
    done = 0
    while done < model.size:
        try:
            count = copy(model.descriptor, target, min(_COPY_BYTES, model.size - done))
        except OSError as error:
            if copy is _send_file or error.errno not in _NO_COPY_RANGE:
                raise
            copy = _send_file  # other file systems or an old kernel
            continue
        if count == 0:
            problem = f"expected {model.size} bytes, got {done}: somebody is writing to it"
            raise SealError(Code.SIZE, model.path, problem, "pack it when it is complete")
        done += count
        meter.advance(count)


def _send_file(source: int, target: int, count: int) -> int:
    """As os.copy_file_range, between any two files; uses and moves both positions."""
    return os.sendfile(target, source, None, count)
