"""SHA-256 of several buffers: what a backend offers to whoever loads (README clause 12), and hashlib's own way."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sha256(Protocol):
    """SHA-256 of several buffers. Any thread may call it; it gives the GIL away for long buffers."""

    @property
    def width(self) -> int:
        """Neighbours of one length that take hardly longer together than one of them does."""

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """The digests, 32 bytes each, in the buffers' order."""


class EachSha256:
    """SHA-256 of each buffer, one after the other."""

    width: Final = 1

    def __call__(self, buffers: Sequence[memoryview]) -> list[bytes]:
        """See `Sha256`."""
        return [hashlib.sha256(buffer).digest() for buffer in buffers]
