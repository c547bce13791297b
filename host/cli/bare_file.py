"""A model file that nobody has signed, read in pieces.

Rules
* It may be cut under us, so it is not mapped: a map would end the process with SIGBUS.
* Only what is asked for is read; of a model file that is its header, whatever its size.

Example:
    with opened_file(Path("model.gguf")) as contents:
        file = GgufFile.parse(contents)
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ...signing.errors import Code
from ..errors import HostError, WeightsError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path


class BareFile:
    """An open file; see weights.gguf_reader.Contents.

    Attributes:
        size: Its bytes when it was opened.
    """

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path, self._file = path, file
        self.size = os.fstat(file.fileno()).st_size

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes from `start` to `stop`.

        Raises:
            HostError: E_IO, the file is shorter by now or cannot be read.
        """
        data = bytearray()
        while len(data) < stop - start:
            try:
                piece = os.pread(self._file.fileno(), stop - start - len(data), start + len(data))
            except OSError as error:
                raise _unreadable(self._path, f"cannot read: {error.strerror}") from error
            if not piece:
                problem = f"expected {self.size} bytes, got fewer while reading: somebody is writing to it"
                raise _unreadable(self._path, problem)
            data += piece
        return memoryview(data)


@contextlib.contextmanager
def opened_file(path: Path) -> Iterator[BareFile]:
    """Opens a file and closes it at the end.

    Raises:
        HostError: E_IO, there is no plain file, or it cannot be opened.
        WeightsError: What the block raises about it, with the file's name.
    """
    try:
        if not path.is_file():  # a FIFO would keep us waiting
            raise _unreadable(
                path, f"expected a file, got {'a folder or a device' if path.exists() else 'nothing of that name'}"
            )
        file = path.open("rb", buffering=0)
    except (OSError, ValueError) as error:  # a NUL in the path is the latter
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable(path, f"cannot read: {reason}") from error
    with file:
        try:
            yield BareFile(path, file)
        except WeightsError as error:
            raise WeightsError(f"{path}: {error.where}", error.problem, error.remedy) from error


def _unreadable(path: Path, problem: str) -> HostError:
    return HostError(Code.IO, str(path), problem, "check the path, the rights, and what writes to the file")
