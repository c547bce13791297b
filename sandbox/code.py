"""Compiled code between the moment when it is believed and the one when wasmtime has it (README §2).

    with Code.of(compiled) as code:             # or from the cache, under its MAC
        module = code.load(engine)

* It lies in a file in memory that is sealed: nobody can change it any more, so what was checked is what runs
  (clause 2.8). wasmtime maps a file, and takes the image of a module's memory from it, while it copies bytes, and
  copies the image once more for its first instance.
* Where there are no such files it lies in bytes.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import wasmtime

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

PIECE_BYTES = 256 << 10
"""What is copied at a time: fits the second level of a core's caches beside its copy."""

_HOLE = bytes(PIECE_BYTES)
"""Zeros that the file need not hold: a guest's memory may be empty in between."""


class Code:
    """Compiled code that is trusted already (clause 2.2).

    Args:
        file: Descriptor of a sealed file that holds it, closed with this object; None: it is in `data`.
        data: The code, when there is no file.
    """

    def __init__(self, file: int | None, data: bytes = b"") -> None:
        self._file = file
        self._data = data

    @classmethod
    def of(cls, compiled: bytes) -> Code:
        """Of code that was compiled just now."""
        whole = memoryview(compiled)
        with suppress(OSError):
            pieces = (whole[at : at + PIECE_BYTES] for at in range(0, len(whole), PIECE_BYTES))
            return cls.from_pieces(pieces, len(whole))
        return cls(None, compiled)

    @classmethod
    def from_pieces(cls, pieces: Iterable[bytes | memoryview], size: int) -> Code:
        """Of code that comes in pieces, each of which is copied before the next is asked for.

        Args:
            pieces: What they raise, this raises: so whoever makes them can check the whole at their end.
            size: Bytes in all.

        Raises:
            OSError: When there is no memory for it.
        """
        try:
            file = os.memfd_create("sealhost-guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except (OSError, AttributeError):  # no such system, or no descriptors left
            return cls(None, b"".join(map(bytes, pieces)))
        code = cls(file)
        try:
            _fill(file, pieces, size)
        except BaseException:
            code.close()
            raise
        return code

    def load(self, engine: wasmtime.Engine) -> wasmtime.Module:
        """The module.

        Raises:
            wasmtime.WasmtimeError: When it was compiled for another engine.
        """
        if self._file is not None:
            with suppress(wasmtime.WasmtimeError):  # no /proc, or not to be mapped
                return wasmtime.Module.deserialize_file(engine, f"/proc/self/fd/{self._file}")
        return wasmtime.Module.deserialize(engine, self.data())

    def data(self) -> bytes:
        """A copy of it."""
        return self._data if self._file is None else os.pread(self._file, os.fstat(self._file).st_size, 0)

    def close(self) -> None:
        """Gives it back; modules that were loaded stay. Idempotent."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._data = None, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _fill(file: int, pieces: Iterable[bytes | memoryview], size: int) -> None:
    """Writes the file, and seals it."""
    os.ftruncate(file, size)
    at = 0
    for piece in pieces:
        if not _HOLE.startswith(piece) and os.pwrite(file, piece, at) < len(piece):
            raise OSError("no memory left for a module")
        at += len(piece)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
