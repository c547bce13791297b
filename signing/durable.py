"""Writes a file so that after any crash either the old one or the new one is there, whole (README clause 11.4)."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from .errors import Code, SealError

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Writes a temporary sibling, syncs it, renames it over `path`, and syncs the folder.

    Args:
        path: File to make or to replace.
        data: All of its bytes.
        mode: Its permissions.

    Raises:
        SealError: E_IO; what stood there before still does, unless the last sync alone failed.
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
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
