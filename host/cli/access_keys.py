"""Keys that clients of a server must show: from a file or an environment variable, never from an argument.

Rules (clause 6.1 of host/README.md)
* A file holds one key a line; lines that begin with # are comments.
* A file that others may read or write is refused, see `key_files`.
* Keys that could be guessed over the network are refused.

Example:
    keys = access_keys(path, "SEALHOST_API_KEY", "--api-key-file")
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ...signing.errors import Code
from ..errors import HostError, UsageError
from .key_files import check_private

if TYPE_CHECKING:
    from pathlib import Path

API_KEY_VARIABLE: Final = "SEALHOST_API_KEY"
"""An API key, for those who set no file."""

ADMIN_KEY_VARIABLE: Final = "SEALHOST_ADMIN_KEY"
"""The admin key, likewise."""

MAX_KEY_FILE_BYTES: Final = 1 << 20
"""Bytes of a file of keys; more is a wrong file."""

MIN_KEY_CHARACTERS: Final = 8
"""Letters of a key: shorter ones can be guessed over the network."""


def access_keys(path: Path | None, variable: str, flag: str) -> list[str]:
    """The keys of a file, or the one of an environment variable; none when neither is given.

    Raises:
        HostError: the file cannot be read, or others may read or write it.
        UsageError: it holds none, or one that is too short.
    """
    if path is None:
        given = os.environ.get(variable, "")
        keys, where = [given.strip()] if given.strip() else [], variable
    else:
        lines = _read(path, flag).splitlines()
        keys, where = [line.strip() for line in lines if line.strip() and not line.startswith("#")], str(path)
        if not keys:
            raise UsageError(where, "expected at least one key, got none", "write one key a line")
    if any(len(key) < MIN_KEY_CHARACTERS for key in keys):
        raise UsageError(where, f"expected keys of at least {MIN_KEY_CHARACTERS} letters", "make longer ones")
    return keys


def _read(path: Path, flag: str) -> str:
    try:
        with path.open("rb") as file:
            check_private(path, file.fileno())
            data = file.read(MAX_KEY_FILE_BYTES + 1)
        if len(data) <= MAX_KEY_FILE_BYTES:
            return data.decode()
        reason = f"got more than {MAX_KEY_FILE_BYTES} bytes"
    except (OSError, UnicodeDecodeError) as error:
        reason = f"got {error.strerror if isinstance(error, OSError) else 'bytes that are no UTF-8'}"
    raise HostError(Code.IO, str(path), f"expected a file of keys, {reason}", f"check {flag}")
